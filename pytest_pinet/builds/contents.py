"""The files and settings of a build, before any check that they fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_pinet.builds.cache import unpack_once
from pytest_pinet.builds.module import is_module
from pytest_pinet.builds.packed import Unreadable, deb_files, tar_files
from pytest_pinet.builds.tree import find_trees
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import nearest
from pytest_pinet.model.build import BuildFileRole

KERNELS = ("Image", "Image.gz", "vmlinuz", "zImage", "kernel8.img", "kernel_2712.img", "kernel7l.img", "kernel7.img")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.zst", ".tar.bz2")
DEVICE_TREE_ENDINGS = {".dtb": BuildFileRole.DEVICE_TREE, ".dtbo": BuildFileRole.OVERLAY}
# The device trees in a package that the firmware of a Raspberry Pi can load.
_PI_TREES = "bcm27", "bcm28"
OVERLAYS = "overlays"


@dataclass
class BuildPart:
    """A file, or the folder of a tree of modules. ``where`` is the place that names it."""

    role: BuildFileRole
    path: Path
    where: Where
    name: str = ""


@dataclass
class BuildContents:
    """The files of a build, and its settings."""

    name: str
    where: Where
    files: list[BuildPart] = field(default_factory=list)
    config: list[str] = field(default_factory=list)
    cmdline: list[str] = field(default_factory=list)
    options: list[tuple[str, str, str]] = field(default_factory=list)
    sysctls: list[tuple[str, str]] = field(default_factory=list)

    def of(self, role: BuildFileRole) -> list[BuildPart]:
        """Return the parts of a role."""
        return [part for part in self.files if part.role is role]


def existing(path: Path, where: Where, what: str) -> Path:
    """Return the path if it exists. Raises ConfigError."""
    if path.exists():
        return path
    try:
        near = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        raise ConfigError(f"there is no {what} {path}, nor its folder", where) from None
    hint = f", did you mean '{path.parent / near}'?" if near else ""
    raise ConfigError(f"there is no {what} {path}{hint}", where)


def add_modules(parts: BuildContents, path: Path, where: Where) -> None:
    """Add a module, or the modules of a folder or an archive. Raises ConfigError."""
    existing(path, where, "module, folder or archive of modules")
    if path.is_file() and is_module(path.name):
        parts.files.append(BuildPart(BuildFileRole.MODULE, path, where))
        return
    trees = find_trees(path if path.is_dir() else _unpacked(path, where, _tar_of))
    if not trees and path.is_dir():
        singles = sorted(entry for entry in path.iterdir() if is_module(entry.name))
        if singles:
            parts.files += [BuildPart(BuildFileRole.MODULE, single, where) for single in singles]
            return
    if not trees:
        raise ConfigError(
            f"{path} holds no modules; expected lib/modules/RELEASE in it, as modules_install makes it", where
        )
    parts.files += [BuildPart(BuildFileRole.MODULES, tree, where) for tree in trees]


def _tar_of(path: Path) -> Iterable[tuple[str, bytes]]:
    return tar_files(path.read_bytes())


def _unpacked(path: Path, where: Where, files_of: Callable[[Path], Iterable[tuple[str, bytes]]]) -> Path:
    try:
        return unpack_once(path, files_of)
    except Unreadable as error:
        raise ConfigError(f"{path} cannot be unpacked: {error}", where) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be unpacked: {error.strerror}", where) from None


def add_package(parts: BuildContents, path: Path, where: Where) -> None:
    """Add a Debian kernel package: of Debian, of Raspberry Pi OS, or of ``make bindeb-pkg``. Raises ConfigError."""
    existing(path, where, "package")
    root = _unpacked(path, where, deb_files)
    boot = sorted((root / "boot").iterdir()) if (root / "boot").is_dir() else []
    kernels = [entry for entry in boot if entry.name.startswith("vmlinuz-") or entry.name in KERNELS]
    trees = find_trees(root)
    if not kernels:
        raise ConfigError(f"{path} holds no kernel (boot/vmlinuz-RELEASE); expected a linux-image package", where)
    # Packages of older Raspberry Pi OS have one kernel for each generation of boards.
    kernel = next((entry for entry in kernels if entry.name == "kernel8.img"), kernels[0])
    parts.files.append(BuildPart(BuildFileRole.KERNEL, kernel, where))
    release = kernel.name.removeprefix("vmlinuz-")
    trees = [tree for tree in trees if tree.name == release] or trees
    parts.files += [BuildPart(BuildFileRole.MODULES, tree, where) for tree in trees[:1]]
    for ending, role in DEVICE_TREE_ENDINGS.items():
        for entry in sorted(root.rglob(f"*{ending}")):
            if entry.parent.name == OVERLAYS if role is BuildFileRole.OVERLAY else entry.name.startswith(_PI_TREES):
                parts.files.append(BuildPart(role, entry, where))
