"""A build: the kernel, modules and boot settings under test; and what a board reports about the build that it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# The parameter on the kernel's command line that names the booted build.
MARKER = "pinet.build"


class BuildFileRole(StrEnum):
    """The role of a file in a build."""

    KERNEL = "kernel"
    INITRAMFS = "initramfs"
    DEVICE_TREE = "device_tree"
    OVERLAY = "overlay"
    MODULES = "modules"
    MODULE = "module"
    FIRMWARE = "firmware"

    @property
    def boots(self) -> bool:
        """Whether a file of this role takes effect only after a boot."""
        return self is not BuildFileRole.MODULE


@dataclass(frozen=True)
class BuildFile:
    """One file of a build, or a whole tree of modules.

    ``name`` is the file's name on the board, ``sha256`` the hash of its content. For a tree of modules, ``name`` is the
    kernel release and ``path`` the folder.
    """

    role: BuildFileRole
    name: str
    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class KernelId:
    """The identity that a kernel image contains.

    ``version`` is the whole line that /proc/version shows. ``build_ids`` are all GNU build ids in the image (the
    kernel's and its vDSO's). ``vermagic`` is the string that its modules must have; empty if the image does not contain
    it.
    """

    arch: str
    release: str
    version: str
    vermagic: str = ""
    build_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ModuleId:
    """The identity that a module's file contains.

    ``path`` is its place in the tree of modules, or the path of the single file. ``srcversion`` and ``build_id`` are
    None if the module was built without them. ``parameters`` are the names of its options, ``softdeps`` the modules
    that modprobe loads with it if they exist, and ``firmware`` the files that it may load, with wildcards.
    """

    name: str
    path: str
    vermagic: str
    arch: str
    srcversion: str | None = None
    build_id: str | None = None
    depends: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    softdeps: tuple[str, ...] = ()
    firmware: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The kernel release that the module was built for."""
        return self.vermagic.partition(" ")[0]


@dataclass(frozen=True)
class BuildSource:
    """Where the kernel of a build comes from; empty texts are not known.

    ``made_by`` is the tool, ``place`` its folder, ``tree`` the URL of the git repository, ``commit`` the whole
    hash, ``describe`` the output of ``git describe``. ``config`` is the kernel's configuration: its path, and in
    results a file in the run folder.
    """

    made_by: str = ""
    place: str = ""
    tree: str = ""
    branch: str = ""
    commit: str = ""
    describe: str = ""
    compiler: str = ""
    config: str = ""


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """What a build sets beside its files.

    ``config`` are lines to add to config.txt, ``cmdline`` words to add to cmdline.txt. ``options`` are (module,
    parameter, value), ``sysctls`` are (name, value). ``rps`` are the CPUs that handle received packets, in the form of
    the tuning, ``irq`` is the CPU that handles interrupts; both are empty if the build leaves them. ``features`` are
    (name, ``on`` or ``off``), features of the NIC in the order in which they are set.
    """

    config: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()
    options: tuple[tuple[str, str, str], ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    rps: str = ""
    irq: str = ""
    features: tuple[tuple[str, str], ...] = ()

    @property
    def option_words(self) -> tuple[str, ...]:
        """The options as words of a kernel command line: ``e1000e.debug=1``."""
        return tuple(f"{module}.{parameter}={value}" for module, parameter, value in self.options)


@dataclass(frozen=True)
class Build(BuildSettings):
    """A build under test: its files and settings.

    ``modules`` are all modules of the build, by name. ``source`` is None if nothing is known of it; it is no part of
    the key.

    A build with several kernels has a build for each in ``variants``, by the kernel's name on a card of Raspberry Pi OS
    (``kernel8.img``). The build itself is the first of them. ``left_out`` are files that were found and are no part.
    """

    name: str
    files: tuple[BuildFile, ...] = ()
    kernel: KernelId | None = None
    modules: Mapping[str, ModuleId] = field(default_factory=dict, compare=False, repr=False)
    source: BuildSource | None = None
    variants: Mapping[str, Build] = field(default_factory=dict, compare=False, repr=False)
    left_out: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """A hash of everything in the build except its name: twelve hexadecimal digits."""
        files = sorted((str(file.role), file.name, file.sha256) for file in self.files)
        parts: list[object] = [files, self.config, self.cmdline, sorted(self.options), sorted(self.sysctls)]
        parts += [self.rps] if self.rps else []
        parts += [f"irq={self.irq}"] if self.irq else []
        parts += [{"features": self.features}] if self.features else []
        parts += [variant.key for variant in self.variants.values()]
        whole = json.dumps(parts)
        return hashlib.sha256(whole.encode()).hexdigest()[:12]

    @property
    def release(self) -> str | None:
        """The release of the build's kernel; None if the build has no kernel."""
        return (self.kernel.release or None) if self.kernel is not None else None

    @property
    def arch(self) -> str | None:
        """The processor architecture of the kernel, or else of the modules; None if the build has neither."""
        brought = [self.kernel, *self.modules.values()]
        return next((one.arch for one in brought if one is not None), None)

    @property
    def needs_boot(self) -> bool:
        """Whether the build takes effect only after a boot."""
        return bool(self.config or self.cmdline or any(file.role.boots for file in self.files))

    def of(self, role: BuildFileRole) -> tuple[BuildFile, ...]:
        return tuple(file for file in self.files if file.role is role)

    def __str__(self) -> str:
        return f"build {self.name}"


@dataclass(frozen=True)
class CodeDifference:
    """What differs between two builds beside the order and the addresses of their code and data.

    ``changed``, ``came`` and ``went`` are functions such as ``gem_rx [macb]``. ``parts`` are all else: constants,
    texts, device trees, settings. It is false if nothing differs.
    """

    changed: tuple[str, ...] = ()
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.came or self.went or self.parts)


@dataclass(frozen=True)
class Loaded:
    """A loaded module as /sys/module reports it; None is a value that /sys/module does not have."""

    srcversion: str | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class RunningBuild:
    """What a board reports about the build that it runs; None is a value that the board does not report.

    ``nics`` has the values of ``ethtool -i`` by device. ``parameters`` (``e1000e.debug``) and ``sysctls`` have the
    current values of the settings that a build requests, as far as they can be read.

    Of a build under test, ``changed`` names the requested values that the kernel changed, and ``not_proved`` the parts
    of the build that the board does not report; one sentence each.
    """

    node: str
    uname: str
    version: str
    cmdline: str
    build_id: str | None = None
    model: str | None = None
    serial: str | None = None
    partition: int | None = None
    firmware: str | None = None
    eeprom: str | None = None
    modules: Mapping[str, Loaded] = field(default_factory=dict)
    nics: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    not_proved: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The release of the running kernel (``uname -r``); empty if the board does not report it."""
        return words[2] if len(words := self.uname.split()) > 2 else ""

    def is_same_system(self, other: RunningBuild) -> bool:
        """Return whether two boots without a marker had the same kernel, root file system and boot partition."""
        # Some firmware reports partition 0 by mistake.
        partitions = {build.partition for build in (self, other) if build.partition}
        return (self.version, self._root) == (other.version, other._root) and len(partitions) < 2

    @property
    def _root(self) -> tuple[str, ...]:
        return tuple(word for word in self.cmdline.split() if word.startswith("root="))

    @property
    def marker(self) -> str | None:
        """The build key on the kernel's command line; None if the board booted its own files."""
        words = (word.partition("=") for word in self.cmdline.split())
        return next((value for name, _, value in words if name == MARKER), None)

    def record(self) -> dict[str, str | None]:
        """Return the values as text, for results."""
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
