"""Kernel modules: what a .ko file says of itself, also one that is packed (.ko.xz, .ko.zst, .ko.gz)."""

from __future__ import annotations

from pytest_pinet.builds import elf
from pytest_pinet.builds.elf import NotElf
from pytest_pinet.builds.packed import Unreadable, unpacked
from pytest_pinet.model.build import ModuleId

ENDINGS = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")


def is_module(name: str) -> bool:
    """By its name."""
    return name.endswith(ENDINGS)


def name_of(path: str) -> str:
    """``lan78xx`` of ``kernel/drivers/net/usb/lan78xx.ko.xz``; the kernel takes - and _ for the same."""
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def read_module(data: bytes, path: str) -> ModuleId:
    """What it says. Raises Unreadable for what is no kernel module."""
    plain = unpacked(data)
    try:
        info = elf.section(plain, ".modinfo")
        arch = elf.machine(plain)
        notes = elf.section(plain, ".note.gnu.build-id")
    except NotElf as error:
        raise Unreadable(f"it is no kernel module ({error})") from None
    if info is None:
        raise Unreadable("it is no kernel module (no section .modinfo)")
    values: dict[str, list[str]] = {}
    for raw in info.split(b"\0"):
        key, _, value = raw.decode("utf-8", "replace").partition("=")
        values.setdefault(key, []).append(value)
    vermagic = next(iter(values.get("vermagic", [])), "").strip()
    if not vermagic:
        raise Unreadable("it is no kernel module (no vermagic)")
    depends = next(iter(values.get("depends", [])), "")
    return ModuleId(
        name=next(iter(values.get("name", [])), "").replace("-", "_") or name_of(path),
        path=path,
        vermagic=vermagic,
        arch=arch,
        srcversion=next(iter(values.get("srcversion", [])), None),
        build_id=elf.build_id(notes) if notes else None,
        depends=tuple(word.replace("-", "_") for word in depends.split(",") if word),
        aliases=tuple(values.get("alias", ())),
    )
