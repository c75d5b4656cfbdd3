"""Reads the parts of ELF that kernel modules need: the machine, and the sections."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

_MACHINES = {183: "arm64", 40: "arm", 62: "x86_64", 3: "x86", 243: "riscv", 8: "mips", 21: "ppc64", 22: "s390"}
_NOTE_BUILD_ID = 3
# Of a 64-bit file: the size of its header, the place of its section headers, the size and number of these, their form.
HEAD, HEADERS_AT, SIZES_AT, SECTION = 64, 40, 58, "IIQQQQIIQQ"
NULL, PROGBITS, SYMTAB, RELA, NOBITS = 0, 1, 2, 4, 8
ALLOC = 2
DAMAGED = "its ELF sections are damaged"


class NotElf(Exception):
    """The bytes are not an ELF file. Callers outside this package never see this error."""


@dataclass(frozen=True)
class Section:
    """A section header of ELF, and the contents."""

    name: int = 0
    type: int = NULL
    flags: int = 0
    address: int = 0
    offset: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 0
    entry: int = 0
    data: bytes = b""


def is_elf(data: bytes) -> bool:
    """Return whether the data begins with ELF's magic bytes."""
    return data.startswith(b"\x7fELF")


def machine(data: bytes) -> str:
    """Return the architecture by the kernel's name. Raises NotElf."""
    order, _ = _kind(data)
    number = struct.unpack_from(f"{order}H", data, 18)[0]
    return _MACHINES.get(number, f"ELF machine {number}")


def text_at(data: bytes, start: int) -> str:
    """Return a text that ends with a zero byte. Raises ValueError."""
    return data[start : data.index(b"\0", start)].decode("utf-8", "replace")


def section(data: bytes, wanted: str) -> bytes | None:
    """Return the content of a section; None if there is no such section. Raises NotElf."""
    sections, names = read_sections(data)
    try:
        return next((one.data for one in sections if text_at(sections[names].data, one.name) == wanted), None)
    except ValueError:
        raise NotElf(DAMAGED) from None


def read_sections(data: bytes) -> tuple[list[Section], int]:
    """Return the sections of a file, and the number of the section with their names. Raises NotElf."""
    order, wide = _kind(data)
    layout = struct.Struct(f"{order}{SECTION if wide else '10I'}")
    try:
        (start,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", data, HEADERS_AT if wide else 32)
        size, count, names = struct.unpack_from(f"{order}HHH", data, SIZES_AT if wide else 46)
        if size != layout.size or not 0 < names < count:
            raise ValueError("no section headers")
        found, total = [], 0
        for index in range(count):
            one = Section(*layout.unpack_from(data, start + index * size))
            held = one.type not in (NULL, NOBITS)
            total += one.size if held else 0
            if (held and one.offset + one.size > len(data)) or total > len(data):
                raise ValueError("a section has an impossible place or size")
            found.append(replace(one, data=data[one.offset : one.offset + one.size]) if held else one)
        return found, names
    except (struct.error, ValueError, OverflowError):
        raise NotElf(DAMAGED) from None


def build_id(notes: bytes) -> str | None:
    """Return the GNU build ID in ELF notes (a section, or /sys/kernel/notes) as hexadecimal; None if there is none."""
    at = 0
    while at + 12 <= len(notes):
        names, size, kind = struct.unpack_from("<III", notes, at)
        begin = at + 12 + (names + 3) // 4 * 4
        if kind == _NOTE_BUILD_ID and notes[at + 12 : at + 12 + names] == b"GNU\0":
            return notes[begin : begin + size].hex() or None
        at = begin + (size + 3) // 4 * 4
    return None


def _kind(data: bytes) -> tuple[str, bool]:
    if not is_elf(data) or len(data) < HEAD:
        raise NotElf("it is not an ELF file")
    return ("<" if data[5] == 1 else ">"), data[4] == 2
