"""Reads the identity of kernel images and of modules, also of packed ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from pytest_pinet.builds.archives import Unreadable, embedded, unpacked
from pytest_pinet.builds.cache import read_once
from pytest_pinet.evidence import elf
from pytest_pinet.evidence.elf import (
    ALLOC,
    DAMAGED,
    HEAD,
    HEADERS_AT,
    NOBITS,
    NULL,
    PROGBITS,
    RELA,
    SECTION,
    SIZES_AT,
    SYMTAB,
    NotElf,
    Section,
    is_elf,
    machine,
    text_at,
)
from pytest_pinet.model.build import KernelId, ModuleId

ACCEPTED = "an arm64 Image (plain, gzip or EFI zboot) or a 32-bit arm zImage"
# init/version-timestamp.c: linux_banner
_BANNER = re.compile(rb"Linux version ([0-9][A-Za-z0-9._+~-]{0,63}) (\([^\0\n]{1,500})\n")
# common/version.c of U-Boot: "U-Boot 2024.01 (Jan 08 2024 - ...)"
_U_BOOT = re.compile(rb"U-Boot (?:SPL )?20[0-9]{2}\.")
_NUMBERED = re.compile(rb"\) #\d")
# UTS_VERSION: "#1 SMP PREEMPT Mon Jan  8 ..."
_BUILT = re.compile(rb"#\d[^\n]*")
# The note that ld writes for --build-id: name size 4, sha1, type 3, "GNU".
_BUILD_ID = re.compile(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", re.DOTALL)
_MAGICS = {
    "arm64": (b"ARM\x64", 0x38),
    "arm": (b"\x18\x28\x6f\x01", 0x24),
    "x86": (b"HdrS", 0x202),
    "riscv": (b"RSC\x05", 0x38),
}
# Architectures of a build made without ARCH=.
_FOREIGN = ("x86", "riscv")


class Loader(Exception):
    """The image is another boot loader, not a kernel. The text is its name."""


def bootable(data: bytes) -> bytes:
    """Return the image in a form that a board's firmware can start: an EFI zboot image is unpacked.

    Raises Unreadable.
    """
    if data[:2] != b"MZ" or data[4:8] != b"zimg":
        return data
    # drivers/firmware/efi/libstub/zboot-header.S
    if len(data) < 64:
        raise Unreadable("it is an EFI zboot image that is truncated")
    offset, size = struct.unpack_from("<II", data, 8)
    kind = data[24:56].split(b"\0")[0].decode("ascii", "replace")
    payload = data[offset : offset + size]
    plain = unpacked(payload)
    if plain == payload:
        raise Unreadable(f"it is an EFI zboot image compressed with {kind}; expected gzip, xz, lzma or zstd")
    return plain


def read_image(data: bytes) -> KernelId:
    """Return an image's identity.

    Raises Loader for another boot loader, and Unreadable for other data that are no kernel. For other processors only
    the architecture is read.
    """
    plain = unpacked(bootable(data))
    if loader := _loader(plain):
        raise Loader(loader)
    arch = _architecture(plain)
    if arch in _FOREIGN:
        return KernelId(arch, "", "")
    plain = _unpacked_by_itself(plain, arch)
    # Of two banners the one with a build number counts. Until the last link the banner has "# SMP" instead.
    banners = list(_BANNER.finditer(plain))
    found = next((banner for banner in banners if _NUMBERED.search(banner[0])), banners[0] if banners else None)
    if found is None and arch == "arm":
        # A zImage that is compressed by lz4 or lzo, which Python cannot unpack.
        return KernelId(arch, "", "")
    if found is None:
        raise Unreadable("it contains no Linux version; the file may be truncated")
    release = found[1].decode("ascii")
    magic = re.search(
        re.escape(found[1]) + rb" ((?:SMP|preempt|mod_unload|modversions|aarch64)[^\0\n]{0,200})\0", plain
    )
    return KernelId(
        arch=arch,
        release=release,
        version=found[0].decode("utf-8", "replace").strip(),
        vermagic=f"{release} {magic[1].decode('ascii', 'replace').strip()}" if magic else "",
        build_ids=frozenset(match[1].hex() for match in _BUILD_ID.finditer(plain)),
    )


def unpacked_kernel(data: bytes) -> bytes:
    """Return the kernel of an image that ``read_image`` accepts. Raises Unreadable."""
    plain = unpacked(bootable(data))
    return _unpacked_by_itself(plain, _by_magic(plain))


def same_image(a: bytes, b: bytes) -> bool:
    """Return whether two images are equal beside the kernel's version texts and the build IDs. Raises Unreadable."""
    return _without_version(unpacked_kernel(a)) == _without_version(unpacked_kernel(b))


def _without_version(plain: bytes) -> bytes:
    """Return a kernel with zeros in place of its build IDs, its version line, and of the number and time in it."""
    banners = [banner[0] for banner in _BANNER.finditer(plain)]
    # "uname -v" has only the end of the line.
    for text in (*banners, *(found[0] for banner in banners for found in _BUILT.finditer(banner))):
        plain = plain.replace(text, bytes(len(text)))
    return _BUILD_ID.sub(lambda found: bytes(len(found[0])), plain)


def _unpacked_by_itself(plain: bytes, arch: str | None) -> bytes:
    """Return the kernel of a zImage, which is a compressed stream in it; other kernels as they are."""
    return next((inner for inner in embedded(plain) if _BANNER.search(inner)), plain) if arch == "arm" else plain


def _loader(plain: bytes) -> str | None:
    """Return the name of a boot loader that the firmware starts like a kernel, or None."""
    if _U_BOOT.search(plain) and not _BANNER.search(plain):
        return "U-Boot"
    if plain[40:44] == b"_FVH":  # the header of a UEFI firmware volume
        return "UEFI"
    # Kernels with an EFI stub begin with MZ, too.
    if plain.startswith(b"MZ") and _by_magic(plain) is None and plain[4:8] != b"zimg":
        return "GRUB" if b"GRUB" in plain else "an EFI program"
    return None


def is_arm64(plain: bytes) -> bool:
    """Return whether the data begins a raw Image for arm64 (Documentation/arch/arm64/booting.rst)."""
    return _by_magic(plain) == "arm64"


def page_kib(plain: bytes) -> int | None:
    """Return the page size of a raw Image for arm64 in KiB (flags, bits 1 and 2), or None if it does not say it."""
    flags = int.from_bytes(plain[24:32], "little")
    return {1: 4, 2: 16, 3: 64}.get(flags >> 1 & 3)


def _by_magic(plain: bytes) -> str | None:
    return next((arch for arch, (magic, at) in _MAGICS.items() if plain.startswith(magic, at)), None)


def _architecture(plain: bytes) -> str:
    """Return the architecture by the magic number of its boot protocol. Raises Unreadable."""
    if arch := _by_magic(plain):
        return arch
    if is_elf(plain):
        what = f"an ELF file for {machine(plain)} (probably vmlinux), which the firmware cannot start"
        raise Unreadable(f"it is {what}; expected {ACCEPTED}")
    raise Unreadable(f"it is not a kernel image; expected {ACCEPTED}")


# Ends as in struct kernel_param, or as in __setup.
_END = re.compile(rb"\.([A-Za-z0-9_-]{1,64})[\0=]")
_MODULE = re.compile(rb"[A-Za-z0-9_-]{1,64}\Z")
# Endings of the names of source files.
_SOURCES = ("c", "h", "S")


@dataclass(frozen=True)
class BuiltInParameters:
    """The texts of a kernel that have the form of a parameter, with _ for each -. Other bytes may precede a module."""

    texts: frozenset[str] = frozenset()

    def of(self, module: str) -> set[str]:
        """Return what the image has after ``module.``: the parameters of a module that is built in.

        Empty if the image has no such text. Texts of another kind may match, such as the name of a file.
        """
        begin = f"{module}."
        return {text.removeprefix(begin) for text in self.texts if text.startswith(begin)}

    def has(self, module: str, parameter: str) -> bool:
        """Return whether the image has a text that ends with this parameter."""
        ending = f"{module}.{parameter}".replace("-", "_")
        return any(text.endswith(ending) for text in self.texts)

    def lacks(self, module: str, parameter: str, listed: Iterable[str] = ()) -> set[str]:
        """Return the parameters of a module that is built in and does not have this one; else nothing.

        ``listed`` are parameters that the module has by another source. If none of them is a text of the image, its
        texts prove nothing.
        """
        has, listed = self.of(module), set(listed)
        proves = has and not (listed and has.isdisjoint(listed))
        return has | listed if proves and not self.has(module, parameter) else set()


def built_in_parameters(sha256: str, read: Callable[[], bytes]) -> BuiltInParameters:
    """Return the parameters that a kernel image of this hash has. Raises what ``read`` raises, and Unreadable."""
    texts = read_once(
        sha256, "built-in-1.json", TypeAdapter(list[str]), lambda: sorted(_texts(unpacked_kernel(read())))
    )
    return BuiltInParameters(frozenset(texts))


def _texts(plain: bytes) -> Collection[str]:
    found = set()
    for end in _END.finditer(plain):
        module = _MODULE.search(plain, max(0, end.start() - 64), end.start())
        if module is not None and end[1].decode() not in _SOURCES:
            found.add(f"{module[0].decode()}.{end[1].decode()}".replace("-", "_"))
    return found


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


# 0 and 1: none. The last one is the size of the largest pages of arm64.
_ALIGNMENTS = frozenset([0, *(1 << bits for bits in range(17))])
# Types of the kernel for BPF programs. Code does not depend on them.
_TYPES = ".BTF"
_PADDING = b".pinet.padding"


def loaded_part(data: bytes, padding: int = 0) -> bytes:
    """Return a module of arm64 without what only debuggers read, and with ``padding`` octets that nothing reads.

    Symbols stay. Sections keep their numbers, because symbols and relocations name sections by number: a section that
    goes becomes an empty one. Raises Unreadable if the data is damaged, or no 64-bit little-endian ELF file.
    """
    sections, names = read_sections(data)
    try:
        kept = _kept(sections, names)
    except (IndexError, ValueError):
        raise Unreadable(DAMAGED) from None
    if padding:
        text = kept[names].data
        kept[names] = replace(kept[names], data=text + _PADDING + b"\0")
        kept.append(Section(len(text), PROGBITS, ALLOC, alignment=16, data=bytes(padding)))
    return _written(data[:HEAD], kept)


def read_sections(data: bytes) -> tuple[list[Section], int]:
    """Return the sections of an ELF file, and the number of the section with their names. Raises Unreadable."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < HEAD:
        raise Unreadable("it is not a 64-bit little-endian ELF file")
    try:
        sections, names = elf.read_sections(data)
    except NotElf as error:
        raise Unreadable(str(error)) from None
    if any(one.alignment not in _ALIGNMENTS for one in sections):
        raise Unreadable(DAMAGED)
    return sections, names


def _kept(sections: list[Section], names: int) -> list[Section]:
    """Return the sections that the kernel loads, and empty ones in place of all others."""
    text = sections[names].data
    types = {index for index, one in enumerate(sections) if text_at(text, one.name) == _TYPES}
    loaded = {index for index, one in enumerate(sections) if one.flags & ALLOC} - types
    loaded |= {index for index, one in enumerate(sections) if one.type == RELA and one.info in loaded}
    tables = {index for index, one in enumerate(sections) if one.type == SYMTAB}
    loaded |= tables | {names} | {sections[index].link for index in tables}
    return [one if index in loaded else Section() for index, one in enumerate(sections)]


def _written(head: bytes, sections: list[Section]) -> bytes:
    """Return a file with these sections one after the other, and their headers behind them."""
    file, headers, layout = bytearray(head), bytearray(), struct.Struct(f"<{SECTION}")
    for one in sections:
        offset = 0
        if one.type != NULL:
            file += bytes(-len(file) % max(one.alignment, 1))
            offset = len(file)
            file += one.data
        size = len(one.data) if one.type != NOBITS else one.size
        headers += layout.pack(
            one.name, one.type, one.flags, one.address, offset, size, one.link, one.info, one.alignment, one.entry
        )
    file += bytes(-len(file) % 8)
    struct.pack_into("<Q", file, HEADERS_AT, len(file))
    struct.pack_into("<H", file, SIZES_AT + 2, len(sections))
    return bytes(file + headers)
