"""Reads the parts of ELF that kernel modules need: the machine, and sections by name."""

from __future__ import annotations

import struct

_MACHINES = {183: "arm64", 40: "arm", 62: "x86_64", 3: "x86", 243: "riscv", 8: "mips", 21: "ppc64", 22: "s390"}
_NOTE_BUILD_ID = 3


class NotElf(Exception):
    """The bytes are not an ELF file. Callers outside this package never see this error."""


def is_elf(data: bytes) -> bool:
    """Return whether the data begins with ELF's magic bytes."""
    return data.startswith(b"\x7fELF")


def machine(data: bytes) -> str:
    """Return the architecture by the kernel's name. Raises NotElf."""
    order, _ = _kind(data)
    number = struct.unpack_from(f"{order}H", data, 18)[0]
    return _MACHINES.get(number, f"ELF machine {number}")


def section(data: bytes, wanted: str) -> bytes | None:
    """Return the content of a section; None if there is no such section. Raises NotElf."""
    order, wide = _kind(data)
    try:
        if wide:
            (start,) = struct.unpack_from(f"{order}Q", data, 40)
            size, count, names = struct.unpack_from(f"{order}HHH", data, 58)
        else:
            (start,) = struct.unpack_from(f"{order}I", data, 32)
            size, count, names = struct.unpack_from(f"{order}HHH", data, 46)
        heads = [_head(data, start + index * size, order, wide) for index in range(count)]
        _, text, length = heads[names]
        strings = data[text : text + length]
        for name, offset, length in heads:
            if strings[name : strings.index(b"\0", name)] == wanted.encode():
                return data[offset : offset + length]
    except (struct.error, IndexError, ValueError, OverflowError):
        raise NotElf("its ELF sections are damaged") from None
    return None


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
    if not is_elf(data) or len(data) < 64:
        raise NotElf("it is not an ELF file")
    return ("<" if data[5] == 1 else ">"), data[4] == 2


def _head(data: bytes, at: int, order: str, wide: bool) -> tuple[int, int, int]:
    """Return name, offset and size from the section header at this offset."""
    (name,) = struct.unpack_from(f"{order}I", data, at)
    offset, size = (
        struct.unpack_from(f"{order}QQ", data, at + 24) if wide else struct.unpack_from(f"{order}II", data, at + 16)
    )
    return name, offset, size
