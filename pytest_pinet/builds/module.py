"""Reads the identity of kernel modules from .ko files, also from compressed ones (.ko.xz, .ko.zst, .ko.gz).

A build uses it to check that its modules fit its kernel, and that a board has loaded them.
"""

from __future__ import annotations

import re

from pytest_pinet.builds.packed import Unreadable, unpacked
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
