"""Reads the identity of kernel modules from .ko files, also from compressed ones (.ko.xz, .ko.zst, .ko.gz).

A build uses it to check that its modules fit its kernel, and that a board has loaded them. An exact board gets of a
module only what the kernel loads: without debug information, compiler notes and signature. A kernel reads the whole
file of a module into memory. So debug information, of which it uses nothing, moves all memory that is allocated later,
and with it the counts of functions that never ran code of the module.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace

from pytest_pinet.builds.archives import Unreadable, unpacked
from pytest_pinet.evidence import elf
from pytest_pinet.evidence.elf import NotElf
from pytest_pinet.model.build import ModuleId

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
PARAMETER_KEYS = ("parm", "parmtype")
ENDINGS = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")


def is_module(name: str) -> bool:
    """Return whether the name is that of a kernel module."""
    return name.endswith(ENDINGS)


def is_name(text: str) -> bool:
    """Return whether the text can be the name of a module. Such names are part of commands on a board."""
    return _NAME.fullmatch(text) is not None


def name_of(path: str) -> str:
    """Return ``lan78xx`` for ``kernel/drivers/net/usb/lan78xx.ko.xz``. The kernel treats - and _ as equal."""
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def names_parameter(data: bytes, parameter: str) -> bool:
    """Return whether a module's file has the name of a parameter, or cannot be read.

    A parameter may have neither type nor description (module_param_call). Its name is a text of the file.
    """
    try:
        plain = unpacked(data)
    except Unreadable:
        return True
    return re.search(rb"\0(?:__param_(?:str_)?)?" + re.escape(parameter.encode()) + rb"\0", plain) is not None


def read_module(data: bytes, path: str) -> ModuleId:
    """Return a module's identity. Raises Unreadable if it is no kernel module, or has a name that no module has."""
    plain = unpacked(data)
    try:
        info = elf.section(plain, ".modinfo")
        arch = elf.machine(plain)
        notes = elf.section(plain, ".note.gnu.build-id")
    except NotElf as error:
        raise Unreadable(f"it is not a kernel module ({error})") from None
    if info is None:
        raise Unreadable("it is not a kernel module (no section .modinfo)")
    values: dict[str, list[str]] = {}
    for raw in info.split(b"\0"):
        key, _, value = raw.decode("utf-8", "replace").partition("=")
        values.setdefault(key, []).append(value)
    vermagic = next(iter(values.get("vermagic", [])), "").strip()
    if not vermagic:
        raise Unreadable("it is not a kernel module (no vermagic)")
    written = next(iter(values.get("depends", [])), "")
    depends = tuple(word.replace("-", "_") for word in written.split(",") if word)
    name = next(iter(values.get("name", [])), "").replace("-", "_") or name_of(path)
    for one in (name, name_of(path), *depends):
        if not is_name(one):
            raise Unreadable(f"{one[:60]!r} is no name of a module; expected letters, digits, - and _")
    return ModuleId(
        name=name,
        path=path,
        vermagic=vermagic,
        arch=arch,
        srcversion=next(iter(values.get("srcversion", [])), None),
        build_id=elf.build_id(notes) if notes else None,
        depends=depends,
        aliases=tuple(values.get("alias", ())),
        # "debug:int" (include/linux/moduleparam.h). Some parameters have only a type, others only a description.
        parameters=tuple(sorted({value.partition(":")[0] for key in PARAMETER_KEYS for value in values.get(key, ())})),
        # "pre: a b post: c"
        softdeps=tuple(
            word.replace("-", "_")
            for value in values.get("softdep", ())
            for word in value.split()
            if word not in ("pre:", "post:")
        ),
        firmware=tuple(values.get("firmware", ())),
    )


# Fields of the header of a 64-bit file: the place of its section headers, and the size and number of these.
_HEADERS_AT, _SIZES_AT, _HEAD = 40, 58, 64
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 0, 1, 2, 3, 4, 8
_ALLOC = 2
# 0 and 1: none. The last one is the size of the largest pages of arm64.
_ALIGNMENTS = frozenset([0, *(1 << bits for bits in range(17))])
# Types of the kernel for BPF programs. Code does not depend on them.
_TYPES = b".BTF"
_PADDING = b".pinet.padding"


@dataclass(frozen=True)
class _Section:
    """A section header of ELF, and the contents."""

    name: int = 0
    type: int = _NULL
    flags: int = 0
    address: int = 0
    offset: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 0
    entry: int = 0
    data: bytes = b""


def loaded_part(data: bytes, padding: int = 0) -> bytes:
    """Return a module of arm64 without what only debuggers read, and with ``padding`` octets that nothing reads.

    Symbols stay. Sections keep their numbers, because symbols and relocations name sections by number: a section that
    goes becomes an empty one. Raises Unreadable if the data is damaged, or no 64-bit little-endian ELF file.
    """
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < _HEAD:
        raise Unreadable("it is not a 64-bit little-endian ELF file")
    try:
        sections, names = _read(data)
        kept = _kept(sections, names)
    except (struct.error, IndexError, ValueError, OverflowError):
        raise Unreadable("its ELF sections are damaged") from None
    if padding:
        text = kept[names].data
        kept[names] = replace(kept[names], data=text + _PADDING + b"\0")
        kept.append(_Section(len(text), _PROGBITS, _ALLOC, alignment=16, data=bytes(padding)))
    return _written(data[:_HEAD], kept)


def _read(data: bytes) -> tuple[list[_Section], int]:
    """Return the sections, and the number of the section with their names. Raises ValueError for damage."""
    (start,) = struct.unpack_from("<Q", data, _HEADERS_AT)
    size, count, names = struct.unpack_from("<HHH", data, _SIZES_AT)
    if size != _SECTION.size or not 0 < names < count:
        raise ValueError("no section headers")
    found, total = [], 0
    for index in range(count):
        one = _Section(*_SECTION.unpack_from(data, start + index * size))
        held = one.type not in (_NULL, _NOBITS)
        total += one.size if held else 0
        if one.alignment not in _ALIGNMENTS or (held and one.offset + one.size > len(data)) or total > len(data):
            raise ValueError("a section has an impossible place, size or alignment")
        found.append(replace(one, data=data[one.offset : one.offset + one.size]) if held else one)
    return found, names


def _kept(sections: list[_Section], names: int) -> list[_Section]:
    """Return the sections that the kernel loads, and empty ones in place of all others."""
    text = sections[names].data
    types = {index for index, one in enumerate(sections) if text[one.name : text.index(b"\0", one.name)] == _TYPES}
    loaded = {index for index, one in enumerate(sections) if one.flags & _ALLOC} - types
    loaded |= {index for index, one in enumerate(sections) if one.type == _RELA and one.info in loaded}
    tables = {index for index, one in enumerate(sections) if one.type == _SYMTAB}
    loaded |= tables | {names} | {sections[index].link for index in tables}
    return [one if index in loaded else _Section() for index, one in enumerate(sections)]


def _written(head: bytes, sections: list[_Section]) -> bytes:
    """Return a file with these sections one after the other, and their headers behind them."""
    file, headers = bytearray(head), bytearray()
    for one in sections:
        offset = 0
        if one.type != _NULL:
            file += bytes(-len(file) % max(one.alignment, 1))
            offset = len(file)
            file += one.data
        size = len(one.data) if one.type != _NOBITS else one.size
        headers += _SECTION.pack(
            one.name, one.type, one.flags, one.address, offset, size, one.link, one.info, one.alignment, one.entry
        )
    file += bytes(-len(file) % 8)
    struct.pack_into("<Q", file, _HEADERS_AT, len(file))
    struct.pack_into("<H", file, _SIZES_AT + 2, len(sections))
    return bytes(file + headers)
