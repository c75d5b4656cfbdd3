"""Compares the code of two builds: what differs beside the order and the addresses of functions and data?

Each function, object and text of a module is compared by its content, with names in place of the addresses that it
refers to. Padding between functions, or another order, changes addresses and no function. It can still move goodput by
some percent, because other functions share a line of a cache.
"""

from __future__ import annotations

import hashlib
import re
import struct
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from pytest_pinet.builds.archives import Unreadable, unpacked
from pytest_pinet.builds.kernel_files import read_sections, same_image
from pytest_pinet.builds.tree import module_files
from pytest_pinet.evidence.elf import ALLOC, DAMAGED, NOBITS, RELA, SYMTAB, Section, machine, text_at
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, BuildSettings, CodeDifference

# These are compared by their content.
_COMPARED = (BuildFileRole.KERNEL, BuildFileRole.MODULES, BuildFileRole.MODULE)
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_EXECUTED, _MERGED, _TEXTS = 4, 0x10, 0x30
_OBJECT, _FUNCTION = 1, 2
# From this number on, a section is none: its symbols are absolute values and the like.
_RESERVED = 0xFF00
# What follows from the code (where tracing can begin, how to unwind the stack) or from the kernel, and build IDs.
_UNCOUNTED = re.compile(
    r"\.note|\.BTF|(\.init)?\.eh_frame|__patchable_function_entries|__mcount_loc|\.gnu\.linkonce\.this_module"
)
_INFO = ".modinfo"
# These change with each comment in the sources, or with the name of the kernel.
_UNCOUNTED_INFO = (b"srcversion=", b"vermagic=", b"scmversion=")
# The folder of a source file: a module that is built outside of the kernel's tree has it in warnings.
_SOURCE, _LINE = re.compile(rb"\.[chS]\b"), re.compile(rb"(?<=\.[chS]:)\d+")
# Where bug_entry and _ddebug have a line number, and its bits.
_LINES = {"__bug_table": (8, 0xFFFF), "__dyndbg": (32, 0x3FFFF)}
# Tables in the order of the code: bug_entry, exception_table_entry, jump_entry, alt_instr, modversion_info of 64 bits.
_ENTRIES = {"__bug_table": 12, "__ex_table": 12, "__jump_table": 16, ".altinstructions": 12, "__versions": 64}
# The compiler counts objects that have no name of their own.
_NUMBER = re.compile(r"(\.\d+)+$|(?<=^__UNIQUE_ID_).*$")
_NOP = bytes.fromhex("1f2003d5")
# GCC aligns loops at 32 octets if that takes less than 16.
_RUN = 3
# Instructions that name a place by its distance in words: mask, value, and the bits of the distance.
_RELATIVE = (
    (0x7C000000, 0x14000000, 0, 26),  # b, bl
    (0x7E000000, 0x36000000, 5, 14),  # tbz, tbnz
    (0x7E000000, 0x34000000, 5, 19),  # cbz, cbnz
    (0xFF000000, 0x54000000, 5, 19),  # b.cond
    (0x3B000000, 0x18000000, 5, 19),  # ldr of a literal
)


class _Symbol(NamedTuple):
    name: str
    kind: int
    is_global: bool
    section: int
    value: int
    size: int


class _Ref(NamedTuple):
    """What the bytes at ``at`` refer to: a place in a section, or the name of an import, with section 0."""

    at: int
    kind: int
    section: int
    place: int
    name: str


class _Atom(NamedTuple):
    """Bytes that stay together: a function, an object, a text, an entry of a table, or what is between these."""

    section: int
    start: int
    end: int
    name: str = ""
    is_function: bool = False


def _without_place(text: bytes) -> bytes:
    """Return a text without the folders and lines of the source files that it names."""
    words = text.split(b" ")
    for number, word in enumerate(words):
        first, last = word.find(b"/"), word.rfind(b"/")
        if last >= 0 and _SOURCE.search(word, last):
            words[number] = word[:first] + word[last + 1 :]
    return _LINE.sub(b"", b" ".join(words))


def _symbols(table: Section, strings: Section) -> Iterator[_Symbol]:
    for name, info, _, section, value, size in _SYMBOL.iter_unpack(table.data):
        own = section if section < _RESERVED else 0
        yield _Symbol(text_at(strings.data, name), info & 15, info > 15, own, value, size)


def _relocations(table: Section, symbols: Sequence[_Symbol]) -> Iterator[_Ref]:
    for at, info, addend in _RELOCATION.iter_unpack(table.data):
        symbol = symbols[info >> 32]
        yield _Ref(at, info & 0xFFFFFFFF, symbol.section, symbol.value + addend, symbol.name)


def _branches(number: int, data: bytes, symbols: Iterable[_Symbol], relocated: Collection[int]) -> Iterator[_Ref]:
    """Yield the distances that the assembler wrote itself, to places of the same section. Their kind is negative."""
    marks = sorted((one.value, one.name[1] == "x") for one in symbols if one.name[:2] in ("$x", "$d"))
    is_code = True
    for at in range(0, len(data) - 3, 4):
        while marks and marks[0][0] <= at:
            is_code = marks.pop(0)[1]
        if not is_code or at in relocated:
            continue
        (word,) = struct.unpack_from("<I", data, at)
        for kind, (mask, value, shift, width) in enumerate(_RELATIVE, -len(_RELATIVE)):
            if word & mask == value:
                distance = word >> shift & (1 << width) - 1
                distance -= distance >> width - 1 << width
                yield _Ref(at, kind, number, at + 4 * distance, "")


class _Code:
    """The code and the data of a module for arm64. Raises Unreadable."""

    def __init__(self, data: bytes) -> None:
        sections, names = read_sections(data)
        if (arch := machine(data)) != "arm64":
            raise Unreadable(f"it is for {arch}")
        try:
            self._names = [text_at(sections[names].data, one.name) for one in sections]
            self._sections = {
                number: one
                for number, one in enumerate(sections)
                if one.flags & ALLOC and not _UNCOUNTED.match(self._names[number])
            }
            self._texts = {_INFO} | {
                self._names[number] for number, one in self._sections.items() if one.flags & _TEXTS == _TEXTS
            }
            self._read(sections)
            self.functions, self.others = self._parts(True), self._parts(False)
        except (struct.error, IndexError, ValueError, RecursionError):
            raise Unreadable(DAMAGED) from None

    def _read(self, sections: Sequence[Section]) -> None:
        symbols = [one for table in sections if table.type == SYMTAB for one in _symbols(table, sections[table.link])]
        own: dict[int, list[_Symbol]] = defaultdict(list)
        for symbol in symbols:
            own[symbol.section].append(symbol)
        self._refs: dict[int, list[_Ref]] = {number: [] for number in self._sections}
        for table in sections:
            if table.type == RELA and table.info in self._refs:
                self._refs[table.info] += _relocations(table, symbols)
        for number, refs in self._refs.items():
            if self._sections[number].flags & _EXECUTED:
                refs += _branches(number, self._sections[number].data, own[number], {ref.at for ref in refs})
            refs.sort()
        places: dict[int, set[int]] = defaultdict(set)
        for ref in (ref for refs in self._refs.values() for ref in refs):
            places[ref.section].add(ref.place)
        self._atoms = {number: [*self._cut(number, own[number], sorted(places[number]))] for number in self._sections}
        self._dropped = {number: [*self._padding(atoms)] for number, atoms in self._atoms.items()}
        self._starts = {number: [atom.start for atom in atoms] for number, atoms in self._atoms.items()}
        self._count = Counter(atom.name for atoms in self._atoms.values() for atom in atoms)
        self._digests: dict[_Atom, str] = {}

    def _cut(self, number: int, symbols: Iterable[_Symbol], places: Sequence[int]) -> Iterator[_Atom]:
        """Yield the atoms of a section. ``places`` are the places that anything refers to."""
        section, name = self._sections[number], self._names[number]
        step = _ENTRIES.get(name) or (section.entry if section.flags & _MERGED else 0)
        if name in self._texts:
            at = 0
            for text in section.data.split(b"\0"):
                if text and not (name == _INFO and text.startswith(_UNCOUNTED_INFO)):
                    yield _Atom(number, at, at + len(text))
                at += len(text) + 1
            return
        if step and section.data and len(section.data) % step == 0:
            yield from (_Atom(number, at, at + step) for at in range(0, len(section.data), step))
            return
        known: dict[int, _Symbol] = {}
        # Of several names of one place, that of a global and long symbol counts.
        for one in sorted(symbols, key=lambda one: (one.is_global, one.size, one.name)):
            if one.size and one.kind in (_OBJECT, _FUNCTION):
                known[one.value] = one
        at = 0
        for start, following in pairwise([*sorted(known), section.size]):
            yield from self._between(number, at, start, places)
            at = min(start + known[start].size, following)
            yield _Atom(number, start, at, _NUMBER.sub("", known[start].name), known[start].kind == _FUNCTION)
        yield from self._between(number, at, section.size, places)

    def _between(self, number: int, start: int, end: int, places: Sequence[int]) -> Iterator[_Atom]:
        """Yield what has no name, without the padding behind it."""
        section = self._sections[number]
        inner = places[bisect_left(places, start) : bisect_left(places, end)]
        for one, other in pairwise(sorted({start, *inner, end})):
            data = section.data[one:other]
            if section.flags & _EXECUTED:
                while data.endswith((_NOP, bytes(4))):
                    data = data[:-4]
                least = 0
            else:
                # All zeros, and something refers to them.
                data, least = data.rstrip(b"\0"), int(one in inner)
            if size := max(len(data), least):
                yield _Atom(number, one, one + size)

    def _padding(self, atoms: Iterable[_Atom]) -> Iterator[int]:
        """Yield the places in functions of instructions that do nothing. A compiler aligns loops by a few of them."""
        for atom in (one for one in atoms if one.is_function):
            data = self._sections[atom.section].data
            nops = [at for at in range(atom.start, min(atom.end, len(data)), 4) if data[at : at + 4] == _NOP]
            # Numbers of instructions that follow each other have the same distance to their places in the list.
            for _, run in groupby(enumerate(nops), lambda one: one[1] // 4 - one[0]):
                if len(places := [at for _, at in run]) <= _RUN:
                    yield from places

    def _parts(self, functions: bool) -> dict[str, Collection[str]]:
        """Return the digests of all functions, or of all else, by their names."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for number, atoms in self._atoms.items():
            for atom in (one for one in atoms if one.is_function is functions):
                found[atom.name or self._names[number]][self._digest(atom)] += 1
        return {name: set(own) if name in self._texts else own for name, own in found.items()}

    def _digest(self, atom: _Atom) -> str:
        """Return the hash of an atom, with names in place of addresses."""
        if atom in self._digests:
            return self._digests[atom]
        # An atom that refers to itself by others.
        self._digests[atom] = ""
        section, refs = self._sections[atom.section], self._refs[atom.section]
        data = bytearray(section.data[atom.start : atom.end])
        if self._names[atom.section] in self._texts:
            data[:] = _without_place(bytes(data))
        at, mask = _LINES.get(self._names[atom.section], (0, 0))
        if mask and len(data) >= at + 4:
            struct.pack_into("<I", data, at, struct.unpack_from("<I", data, at)[0] & ~mask)
        words = [f"{atom.end - atom.start} zeros"] if section.type == NOBITS else []
        for ref in refs[bisect_left(refs, (atom.start,)) : bisect_left(refs, (atom.end,))]:
            if ref.kind < 0:
                *_, shift, width = _RELATIVE[ref.kind]
                (word,) = struct.unpack_from("<I", data, ref.at - atom.start)
                struct.pack_into("<I", data, ref.at - atom.start, word & ~((1 << width) - 1 << shift))
            words.append(f"{self._offset(ref.at, atom)} {ref.kind} {self._target(ref, atom)}")
        dropped = self._dropped[atom.section]
        for at in reversed(dropped[bisect_left(dropped, atom.start) : bisect_left(dropped, atom.end)]):
            del data[at - atom.start : at - atom.start + 4]
        self._digests[atom] = hashlib.sha256("\n".join([data.hex(), *words]).encode()).hexdigest()
        return self._digests[atom]

    def _offset(self, place: int, atom: _Atom) -> int:
        dropped = self._dropped[atom.section]
        return place - atom.start - 4 * (bisect_left(dropped, place) - bisect_left(dropped, atom.start))

    def _target(self, ref: _Ref, source: _Atom) -> str:
        """Return the place that a reference of ``source`` names, in words without an address."""
        if ref.section in self._sections and self._names[ref.section] in self._texts:
            return repr(_without_place(self._sections[ref.section].data[ref.place :].partition(b"\0")[0]))
        index = bisect_right(self._starts.get(ref.section, []), ref.place) - 1
        if index < 0:
            return f"{ref.name or self._names[ref.section]} {ref.place}"
        atom = self._atoms[ref.section][index]
        alone = bool(atom.name) and self._count[atom.name] == 1
        name = "itself" if atom == source else atom.name if alone else self._digest(atom)
        return f"{name} {self._offset(ref.place, atom)}"


def compare_modules(a: bytes, b: bytes) -> CodeDifference:
    """Return what differs between two modules, which may be packed. Raises Unreadable."""
    if a == b:
        return CodeDifference()
    one, other = (_Code(unpacked(data)) for data in (a, b))
    changed = [name for name, own in one.functions.items() if other.functions.get(name, own) != own]
    parts = [name for name in {**one.others, **other.others} if one.others.get(name) != other.others.get(name)]
    came, went = other.functions.keys() - one.functions.keys(), one.functions.keys() - other.functions.keys()
    return CodeDifference(*(tuple(sorted(names)) for names in (changed, came, went, parts)))


def compare_builds(a: Build, b: Build) -> CodeDifference:
    """Return what differs between two builds. Modules are compared only if nothing else differs.

    An image has no relocations: it is another kernel unless only its version text and its build ID differ. The image
    also stands for the configuration.
    """
    for name in sorted({*a.variants, *b.variants}):
        if name not in a.variants or name not in b.variants:
            return CodeDifference(parts=(f"kernel {name}",))
        if found := compare_builds(a.variants[name], b.variants[name]):
            return found
    parts = [f"setting {one.name}" for one in fields(BuildSettings) if getattr(a, one.name) != getattr(b, one.name)]
    files_a, files_b = (
        {(str(one.role), one.name): one.sha256 for one in build.files if one.role not in _COMPARED} for build in (a, b)
    )
    parts += [" ".join(key) for key in sorted({*files_a, *files_b}) if files_a.get(key) != files_b.get(key)]
    kernels = [build.of(BuildFileRole.KERNEL) for build in (a, b)]
    try:
        if len(kernels[0]) != len(kernels[1]) or not all(map(_same_kernel, *kernels)):
            parts.append("kernel")
        return CodeDifference(parts=tuple(parts)) if parts else _compare_all_modules(module_files(a), module_files(b))
    except (OSError, Unreadable) as error:
        return CodeDifference(parts=(*parts, f"unknown: {error}"))


def _same_kernel(a: BuildFile, b: BuildFile) -> bool:
    return a.sha256 == b.sha256 or same_image(Path(a.path).read_bytes(), Path(b.path).read_bytes())


def _compare_all_modules(a: Mapping[str, Path], b: Mapping[str, Path]) -> CodeDifference:
    found = [CodeDifference(parts=tuple(f"module {name}" for name in sorted(a.keys() ^ b.keys())))]
    for name in sorted(a.keys() & b.keys()):
        try:
            one = compare_modules(a[name].read_bytes(), b[name].read_bytes())
        except Unreadable as error:
            raise Unreadable(f"{name}: {error}") from None
        found.append(CodeDifference(*(tuple(f"{part} [{name}]" for part in parts) for parts in astuple(one))))
    return CodeDifference(*(tuple(chain(*parts)) for parts in zip(*map(astuple, found), strict=True)))
