"""A build: the kernel, modules and boot settings under test; and what a board says that it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# On the kernel's command line it says which build was booted.
MARKER = "pinet.build"


class Role(StrEnum):
    """What a file of a build is."""

    KERNEL = "kernel"
    INITRAMFS = "initramfs"
    DEVICE_TREE = "device_tree"
    OVERLAY = "overlay"
    MODULES = "modules"
    MODULE = "module"
    FIRMWARE = "firmware"

    @property
    def boots(self) -> bool:
        """Whether it takes a boot."""
        return self is not Role.MODULE


@dataclass(frozen=True)
class BuildFile:
    """One file of a build, or a whole tree of modules (``name`` is then the kernel's release, ``path`` its folder).

    ``name`` is what it is called on the board, ``sha256`` is of its content.
    """

    role: Role
    name: str
    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class KernelId:
    """What a kernel image says of itself. ``version`` is the whole line that /proc/version shows.

    ``build_ids`` are all GNU build ids in it (its own, and that of its vDSO). ``vermagic`` is what its modules must
    have; empty where the image does not tell.
    """

    arch: str
    release: str
    version: str
    vermagic: str = ""
    build_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ModuleId:
    """What a module's file says of itself. ``path`` is where it stands in its tree, or its file.

    ``srcversion`` and ``build_id`` are None where it was built without.
    """

    name: str
    path: str
    vermagic: str
    arch: str
    srcversion: str | None = None
    build_id: str | None = None
    depends: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The kernel that it was built for."""
        return self.vermagic.partition(" ")[0]


@dataclass(frozen=True)
class Build:
    """What is under test. ``config`` are lines for the end of config.txt, ``cmdline`` words for cmdline.txt.

    ``options`` are (module, parameter, value), ``sysctls`` (name, value). ``modules`` has all that it brings, by name.
    """

    name: str
    files: tuple[BuildFile, ...] = ()
    kernel: KernelId | None = None
    modules: Mapping[str, ModuleId] = field(default_factory=dict, compare=False, repr=False)
    config: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()
    options: tuple[tuple[str, str, str], ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits of all that it holds; its name is not part of it."""
        files = sorted((str(file.role), file.name, file.sha256) for file in self.files)
        whole = json.dumps([files, self.config, self.cmdline, sorted(self.options), sorted(self.sysctls)])
        return hashlib.sha256(whole.encode()).hexdigest()[:12]

    @property
    def release(self) -> str | None:
        """The release of its kernel; None where it brings none."""
        return (self.kernel.release or None) if self.kernel is not None else None

    @property
    def arch(self) -> str | None:
        """The processor that its kernel, or its modules without one, are for; None where it brings neither."""
        brought = [self.kernel, *self.modules.values()]
        return next((one.arch for one in brought if one is not None), None)

    @property
    def needs_boot(self) -> bool:
        """Whether it cannot be brought about on a board that runs."""
        return bool(self.config or self.cmdline or any(file.role.boots for file in self.files))

    def of(self, role: Role) -> tuple[BuildFile, ...]:
        """Its files of this role."""
        return tuple(file for file in self.files if file.role is role)

    def __str__(self) -> str:
        return f"build {self.name}"


@dataclass(frozen=True)
class Loaded:
    """A module that is loaded, as /sys/module tells; None is what it does not tell."""

    srcversion: str | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class Running:
    """What a board says that it runs; None is what nothing told.

    ``nics`` has what ``ethtool -i`` says by device; ``parameters`` what modules run with (``e1000e.debug``), and
    ``sysctls`` the kernel, as far as a build asked for them and they can be read.
    """

    node: str
    uname: str
    version: str
    cmdline: str
    boot_id: str | None = None
    build_id: str | None = None
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    eeprom: str | None = None
    modules: Mapping[str, Loaded] = field(default_factory=dict)
    nics: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)

    @property
    def marker(self) -> str | None:
        """The key of the build that the boot files named; None on a board that booted by its own."""
        words = (word.partition("=") for word in self.cmdline.split())
        return next((value for name, _, value in words if name == MARKER), None)

    def record(self) -> dict[str, str | None]:
        """As it stands in results, in texts."""
        found: dict[str, str | None] = {
            "uname": self.uname or None,
            "version": self.version or None,
            "build_id": self.build_id,
            "cmdline": self.cmdline or None,
            "model": self.model,
            "serial": self.serial,
            "board_firmware": self.firmware,
            "eeprom": self.eeprom,
            "modules": " ".join(
                f"{name}={loaded.srcversion or loaded.build_id or '?'}" for name, loaded in sorted(self.modules.items())
            )
            or None,
        }
        for device, told in sorted(self.nics.items()):
            found[f"ethtool {device}"] = " ".join(f"{key}={value}" for key, value in told.items() if value) or None
        return found
