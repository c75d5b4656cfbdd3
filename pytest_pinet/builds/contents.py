"""The files and settings of a build, found in folders, packages and archives; not yet checked against each other."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from pytest_pinet.builds.cache import unpack_once
from pytest_pinet.builds.module import is_module
from pytest_pinet.builds.packed import MAX_ARCHIVE, MAX_FILES, Unreadable, deb_files, tar_files
from pytest_pinet.builds.tree import find_trees
from pytest_pinet.config.file_text import read_text
from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import nearest, quoted, shown
from pytest_pinet.execution.path_kind import is_folder
from pytest_pinet.model.build import BuildFileRole, BuildSource

# A kernel package has 100 MB.
MAX_BYTES = 2**30
KERNELS = ("Image", "Image.gz", "vmlinuz", "zImage", "kernel8.img", "kernel_2712.img", "kernel7l.img", "kernel7.img")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.zst", ".tar.bz2")
_TREES = (".dtb", ".dtbo")
_DEVICE_TREE_ENDINGS = {".dtb": BuildFileRole.DEVICE_TREE, ".dtbo": BuildFileRole.OVERLAY}
# The device trees in a package that the firmware of a Raspberry Pi can load.
_PI_TREES = "bcm27", "bcm28"
OVERLAYS = "overlays"
_LONGEST_PATH = 400
CONFIG, CMDLINE = "config.txt", "cmdline.txt"
# Files beside a compiled kernel that no board reads.
_BESIDE = ("System.map", "config-", "README", "vmlinux", "Module.symvers", ".")
_INITRAMFS = ("initrd", "initramfs")
_ACCEPTED = (
    "a kernel (kernel8.img, Image, vmlinuz...), *.dtb, dtbs/, overlays/*.dtbo, initramfs*, modules*.tar.*, "
    f"lib/modules/RELEASE, *.ko, linux-image*.deb, {CONFIG}, {CMDLINE}, firmware/"
)


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
    rps: str = ""
    irq: str = ""
    source: BuildSource | None = None

    def of(self, role: BuildFileRole) -> list[BuildPart]:
        """Return the parts of a role."""
        return [part for part in self.files if part.role is role]

    def add(self, role: BuildFileRole, paths: Iterable[Path], where: Where) -> None:
        """Add files of one role."""
        self.files += [BuildPart(role, path, where) for path in paths]


def is_tree_of_pi(path: str) -> bool:
    """Return whether a path names a device tree for a Raspberry Pi, or an overlay."""
    name = Path(path).name
    if Path(path).suffix == ".dtbo" or (Path(path).suffix == ".dtb" and Path(path).parent.name == OVERLAYS):
        return True
    return Path(path).suffix == ".dtb" and name.startswith(_PI_TREES)


def existing(path: Path, where: Where, what: str) -> Path:
    """Return the path if it is a folder, or a regular file of a possible size. Raises ConfigError.

    A fifo would be read for ever, and a device never ends.
    """
    try:
        found = path.stat()
        if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            raise ConfigError(f"{what} {path} is not a regular file", where)
        if stat.S_ISREG(found.st_mode) and found.st_size > MAX_BYTES:
            raise ConfigError(f"{what} {path} has {found.st_size / 1e9:.1f} GB; at most 1 GiB is read", where)
        return path
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise unreadable(path, error, where) from None
    if path.is_symlink():
        message = f"{what} {path} is a link to {path.readlink()}, which does not exist; correct the link"
        raise ConfigError(message, where)
    try:
        near = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        raise ConfigError(f"there is no {what} {path}: its folder does not exist", where) from None
    hint = f", did you mean '{path.parent / near}'?" if near else ""
    raise ConfigError(f"there is no {what} {path}{hint}", where)


def unreadable(path: Path, error: OSError | ValueError, where: Where) -> ConfigError:
    """Return the error for a file or folder that the system does not let pinet read."""
    why = error.strerror if isinstance(error, OSError) else "not a valid path"
    return ConfigError(f"{quoted(str(path), _LONGEST_PATH)} cannot be read ({why})", where)


def filled(path: Path, where: Where, what: str) -> Path:
    """Return the path like `existing`, if it is no empty file. Raises ConfigError.

    The files of /proc are empty for `stat`. To read some of them takes for ever (/proc/kmsg).
    """
    found = existing(path, where, what).stat()
    if stat.S_ISREG(found.st_mode) and not found.st_size:
        raise ConfigError(f"{what} {path} is empty; expected a file with at least 1 byte", where)
    return path


def files_in(folder: Path, where: Where) -> list[Path]:
    """Return all files in a folder and the folders in it, sorted. Raises ConfigError.

    A link to a folder, a link to nothing, a fifo and a device are refused: the board would lack what they stand for.
    """
    found: list[Path] = []
    size = 0
    for path in _below(folder, where):
        existing(path, where, "file")
        found.append(path)
        size += path.stat().st_size
        if len(found) > MAX_FILES or size > MAX_ARCHIVE:
            most = f"{MAX_FILES} files and {MAX_ARCHIVE // 2**30} GiB"
            raise ConfigError(f"the folder {folder} is too large for a part of a build; at most {most} are read", where)
    return sorted(found)


def _below(folder: Path, where: Where) -> Iterator[Path]:
    """Yield everything in a folder and the folders in it that is no folder."""
    for entry in entries_in(folder, where):
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path, where)
        elif is_folder(path):
            raise ConfigError(f"{path} is a link to a folder, which is not followed; copy the folder here", where)
        else:
            yield path


def entries_in(folder: Path, where: Where) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted. Raises ConfigError."""
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(folder, error, where) from None


def add_file(parts: BuildContents, path: Path, where: Where) -> bool:
    """Add a package, a device tree, an overlay, a module or an archive of modules. Return False for other names.

    Raises ConfigError.
    """
    if path.suffix == ".deb":
        add_package(parts, path, where)
    elif path.suffix in _DEVICE_TREE_ENDINGS:
        parts.add(_DEVICE_TREE_ENDINGS[path.suffix], [path], where)
    elif is_module(path.name) or path.name.endswith(TARS):
        add_modules(parts, path, where)
    else:
        return False
    return True


def add_modules(parts: BuildContents, path: Path, where: Where) -> None:
    """Add a module, or the modules of a folder or an archive. Raises ConfigError."""
    filled(path, where, "module, folder or archive of modules")
    if path.is_file() and is_module(path.name):
        parts.add(BuildFileRole.MODULE, [path], where)
    elif trees := trees_in(path if path.is_dir() else _unpacked(path, where, _tar_of), where):
        parts.add(BuildFileRole.MODULES, trees, where)
    elif path.is_dir() and (singles := [path / one.name for one in entries_in(path, where) if is_module(one.name)]):
        parts.add(BuildFileRole.MODULE, singles, where)
    else:
        raise ConfigError(
            f"{path} contains no modules; expected a folder lib/modules/RELEASE, as 'make modules_install' creates it",
            where,
        )


def trees_in(folder: Path, where: Where) -> list[Path]:
    """Return the trees of modules in a folder. Raises ConfigError."""
    try:
        return find_trees(folder)
    except OSError as error:
        raise unreadable(Path(error.filename or folder), error, where) from None


def _tar_of(path: Path) -> Iterable[tuple[str, bytes]]:
    return tar_files(path.read_bytes())


def _unpacked(path: Path, where: Where, files_of: Callable[[Path], Iterable[tuple[str, bytes]]]) -> Path:
    try:
        return unpack_once(path, files_of)
    except (Unreadable, OSError, ValueError) as error:
        # ValueError: a name in the archive has a NUL byte.
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path} cannot be unpacked: {reason}", where) from None


def add_device_tree_archive(parts: BuildContents, path: Path, where: Where) -> None:
    """Add the device trees and overlays of an archive of ``make dtbs_install``. Raises ConfigError."""
    add_device_trees(parts, _unpacked(filled(path, where, "archive of device trees"), where, _tar_of), where)


def add_package(parts: BuildContents, path: Path, where: Where) -> None:
    """Add a Debian kernel package: of Debian, of Raspberry Pi OS, or of ``make bindeb-pkg``. Raises ConfigError."""
    filled(path, where, "package")
    root = _unpacked(path, where, deb_files)
    boot = sorted((root / "boot").iterdir()) if (root / "boot").is_dir() else []
    kernels = [entry for entry in boot if entry.name.startswith("vmlinuz-") or entry.name in KERNELS]
    if not kernels:
        raise ConfigError(f"{path} contains no kernel (boot/vmlinuz-RELEASE); expected a linux-image package", where)
    # Packages of older Raspberry Pi OS have one kernel for each generation of boards.
    kernel = next((entry for entry in kernels if entry.name == "kernel8.img"), kernels[0])
    parts.add(BuildFileRole.KERNEL, [kernel], where)
    trees = find_trees(root)
    release = kernel.name.removeprefix("vmlinuz-")
    parts.add(BuildFileRole.MODULES, ([tree for tree in trees if tree.name == release] or trees)[:1], where)
    overlays = [entry for entry in sorted(root.rglob("*.dtb*")) if entry.parent.name == OVERLAYS]
    parts.add(
        BuildFileRole.DEVICE_TREE, [e for e in sorted(root.rglob("*.dtb")) if e.name.startswith(_PI_TREES)], where
    )
    parts.add(BuildFileRole.OVERLAY, overlays, where)


def add_device_trees(parts: BuildContents, path: Path, where: Where) -> None:
    """Add a device tree or an overlay, or all of a folder as ``make dtbs_install`` makes it. Raises ConfigError.

    The folder may be flat, or have folders of vendors and of kernel releases (dtbs/RELEASE/broadcom/, overlays/). Of
    device trees for many boards, only the trees for a Raspberry Pi are added.
    """
    found = files_in(path, where) if path.is_dir() else [path]
    folders = {path, *chain.from_iterable(entry.relative_to(path).parents for entry in found)} if path.is_dir() else ()
    if wrong := next((folder for folder in folders if folder.name.endswith(_TREES)), None):
        raise _no_tree(path / wrong if wrong != path else path, where)
    trees: list[Path] = []
    for entry in found:
        # overlays/overlay_map.dtb tells the firmware which overlay fits which model.
        if entry.suffix == ".dtbo" or (entry.suffix == ".dtb" and entry.parent.name == OVERLAYS):
            parts.add(BuildFileRole.OVERLAY, [entry], where)
        elif entry.suffix == ".dtb":
            trees.append(entry)
        elif not path.is_dir() or not entry.name.startswith("README"):
            raise ConfigError(f"{entry} is not a device tree; expected *.dtb or *.dtbo", where)
    if path.is_dir() and not any(entry.suffix in _DEVICE_TREE_ENDINGS for entry in found):
        raise ConfigError(f"{path} contains no device trees; expected *.dtb or *.dtbo", where)
    parts.add(BuildFileRole.DEVICE_TREE, [tree for tree in trees if tree.name.startswith(_PI_TREES)] or trees, where)


def _no_tree(path: Path, where: Where) -> ConfigError:
    what = "is a folder" if path.is_dir() else "has no name before its ending"
    return ConfigError(f"{path} {what}; expected a file such as {OVERLAYS}/vc4.dtbo", where)


def add_firmware(parts: BuildContents, folder: Path, where: Where) -> None:
    """Add the files that drivers load from /lib/firmware, by their path there."""
    for entry in files_in(folder, where):
        parts.files.append(BuildPart(BuildFileRole.FIRMWARE, entry, where, str(entry.relative_to(folder))))


def add_folder(parts: BuildContents, folder: Path) -> None:
    """Add all files of a folder. The name of each file says what it is. Raises ConfigError for unknown names."""
    where = Where(str(folder))
    if folder.name.endswith(_TREES):
        raise _no_tree(folder, where)
    if any(is_folder(folder / name) for name in ("lib", "usr", "modules")):
        add_modules(parts, folder, where)
    for name in [one.name for one in entries_in(folder, where)]:
        entry = folder / name
        existing(entry, where, "file of a build")
        if name.endswith(_TREES) and (entry.is_dir() or name.startswith(".")):
            raise _no_tree(entry, where)
        if entry.is_dir():
            if name in (OVERLAYS, "broadcom", "dtbs"):
                add_device_trees(parts, entry, where)
            elif name == "firmware":
                add_firmware(parts, entry, where)
            elif name not in ("lib", "usr", "modules") and not name.startswith("."):
                raise _unsupported(entry)
        elif name == CONFIG:
            parts.config += _config_lines(read_text(entry, "lines for config.txt"), str(entry))
        elif name == CMDLINE:
            parts.cmdline += _cmdline_words(read_text(entry, "words to append to cmdline.txt"), str(entry))
        elif name in KERNELS or name.startswith("vmlinuz-"):
            parts.add(BuildFileRole.KERNEL, [entry], where)
        elif name.startswith(_INITRAMFS):
            parts.add(BuildFileRole.INITRAMFS, [entry], where)
        elif not add_file(parts, entry, where) and not name.startswith(_BESIDE):
            raise _unsupported(entry)


def _unsupported(entry: Path) -> ConfigError:
    return ConfigError(f"unsupported file '{entry.name}'; accepted: {_ACCEPTED}", Where(str(entry.parent)))


def _config_lines(text: str, file: str) -> list[str]:
    """Return the lines of config.txt without comments and blank lines. Raises ConfigError."""
    found = []
    # The firmware ends a line only here; Python also ends lines at other characters.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if (words := line.strip(" \t")) and not words.startswith("#"):
            with mistake_in(CONFIG, Where(file, number)):
                found.append(printable(words))
    return found


def _cmdline_words(text: str, file: str) -> list[str]:
    """Return the words of cmdline.txt. Raises ConfigError for a second line, which the firmware would ignore."""
    lines = [(n, line) for n, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1) if line.strip(" \t")]
    if len(lines) > 1:
        raise ConfigError("expected one line, because the firmware reads only the first", Where(file, lines[1][0]))
    for number, line in lines:
        with mistake_in(CMDLINE, Where(file, number)):
            return kernel_words(line)
    return []


def printable(text: str) -> str:
    """Return a line for a file of the firmware. Raises ValueError for control characters and line ends in it."""
    wrong = next((character for character in text.replace("\t", " ") if not character.isprintable()), None)
    if wrong is not None:
        raise ValueError(f"expected one line without control characters, got {wrong!a} in {shown(text)}")
    return text


def kernel_words(text: str) -> list[str]:
    """Return the words of a kernel command line. Raises ValueError."""
    if printable(text).count('"') % 2:
        raise ValueError(f"a quote has no end, so the kernel takes the rest as one value, in {shown(text)}")
    return text.split()
