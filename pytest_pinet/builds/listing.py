"""What the files of a folder are, by their names and places; a package or an archive is such a folder once unpacked."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_pinet.builds.archives import MAX_ARCHIVE, MAX_FILES, is_archive
from pytest_pinet.builds.kernel_files import is_module
from pytest_pinet.builds.tree import is_tree
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import is_folder
from pytest_pinet.execution.names import nearest, quoted

# A kernel package has 100 MB.
MAX_BYTES = 2**30
_LONGEST_PATH = 400
OVERLAYS = "overlays"
TREE_ENDINGS = (".dtb", ".dtbo")
CONFIG, CMDLINE = "config.txt", "cmdline.txt"
# Image (make), Image--6.12.25-r0-raspberrypi4-64.bin (Yocto), vmlinuz-6.12.25 (packages), kernel8_rt.img (firmware).
_KERNEL = re.compile(r"(?:Image|zImage|vmlinuz)(?:[-._].*)?|kernel[-+.\w]*\.img")
_INITRAMFS = ("initrd", "initramfs")
# Endings of texts and checksums beside a kernel or an initramfs, and the image with an initramfs in it.
_NEITHER = re.compile(r".*\.(?:txt|conf|json|manifest|cfg|its|sig|asc|hmac|sha\d+\w*|sha\d+sum|md5|old|bak|d|cmd)")
_INITRAMFS_INSIDE = "-initramfs"
# Files beside a compiled kernel that no board reads.
_BESIDE = ("System.map", "config-", "README", "vmlinux", "Module.symvers", "modules.", "symvers", "COPYING", "LICEN")
_PROGRAM = re.compile(r".*\.(?:o|a|c|h|S|mod|order|dts|dtsi|py|sh)|Makefile|Kbuild|Kconfig")
# Folders of packages with documents, headers and sources. DKMS keeps the module that it replaced in the last.
_SKIPPED = ("usr/share", "usr/src", "usr/include", "usr/lib/debug", "original_module")
# These folders are read even if they are links.
_TOP = ("lib", "usr", "modules", "boot")
# Folders of device trees only.
_TREES = ("dtbs", "broadcom", OVERLAYS)
FIRMWARE = "firmware"


@dataclass
class Listing:
    """The parts that a folder may have, as files. ``left_out`` are paths in it that are no part of a build.

    ``tree_folders`` are folders of device trees only, and ``firmware`` is a folder for /lib/firmware.
    """

    kernels: list[Path] = field(default_factory=list)
    initramfs: list[Path] = field(default_factory=list)
    trees: list[Path] = field(default_factory=list)
    modules: list[Path] = field(default_factory=list)
    device_trees: list[Path] = field(default_factory=list)
    overlays: list[Path] = field(default_factory=list)
    tree_folders: list[Path] = field(default_factory=list)
    firmware: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    archives: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def list_folder(root: Path, where: Where) -> Listing:
    """Return the parts in a folder and the folders in it. Raises ConfigError.

    Of several names of one file, the shortest counts. What a part must not be (a link to a folder or to nothing, a
    fifo, a device) is refused by name.
    """
    found = Listing()
    if root.name.endswith(TREE_ENDINGS):
        raise no_tree(root, where)
    if is_tree(root):
        _add_tree(found, root, where)
        return found
    for number, path in enumerate(_walk(root, root, where, found)):
        if number == MAX_FILES:
            raise too_large(root, where)
        role = _role(found, path, path.parent == root)
        if role is not None:
            if is_folder(path):
                raise linked(path, where)
            role.append(existing(path, where, "file"))
        elif not path.name.startswith(_BESIDE) and not _PROGRAM.fullmatch(path.name):
            found.left_out.append(str(path.relative_to(root)))
    for one in (found.kernels, found.initramfs, found.device_trees, found.overlays, found.archives):
        one[:] = _named_once(one)
    return found


def _role(found: Listing, path: Path, at_top: bool) -> list[Path] | None:
    """Return the list of the parts that a file belongs to by its name; None if it is no part."""
    name = path.name
    if is_module(name):
        return found.modules
    if path.suffix == ".dtbo" or (path.suffix == ".dtb" and path.parent.name == OVERLAYS):
        # overlays/overlay_map.dtb tells the firmware which overlay fits which model.
        return found.overlays
    if path.suffix == ".dtb":
        return found.device_trees
    if name in (CONFIG, CMDLINE) and at_top:
        return found.texts
    if is_archive(name):
        return found.archives
    if _NEITHER.fullmatch(name):
        return None
    if _KERNEL.fullmatch(name) and _INITRAMFS_INSIDE not in name:
        return found.kernels
    return found.initramfs if name.startswith(_INITRAMFS) else None


def _named_once(paths: list[Path]) -> list[Path]:
    """Return one name for each file: the shortest, which is the link that Yocto makes for its newest file.

    A file beside such links, which no link names, is of an earlier build.
    """
    by_file: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda path: (len(path.name), len(path.parts), path)):
        by_file.setdefault(path.resolve(), path)
    linked = {file.parent for file, path in by_file.items() if path != file and path.is_symlink()}
    return sorted(
        path
        for file, path in by_file.items()
        if not (file.parent in linked and not path.is_symlink() and _is_dated(path.name))
    )


def _is_dated(name: str) -> bool:
    """Return whether a name has the time of a build, as Yocto writes it: Image--6.12.25-r0-board-20260901101500.bin."""
    return re.search(r"-20\d{6}(\d{6})?\b", name) is not None


def _walk(root: Path, folder: Path, where: Where, found: Listing) -> Iterator[Path]:
    """Yield all files and links below a folder, except hidden files and the folders that it adds."""
    for entry in entries_in(folder, where):
        path = folder / entry.name
        if entry.name.endswith(TREE_ENDINGS) and (entry.name.startswith(".") or is_folder(path)):
            raise no_tree(path, where)
        if entry.name.startswith("."):
            continue
        if not is_folder(path) or (entry.is_symlink() and not _is_top(root, path)):
            yield path
        elif folder == root and entry.name == FIRMWARE:
            found.firmware.append(path)
        elif folder == root and entry.name in _TREES:
            found.tree_folders.append(path)
        elif is_tree(path):
            _add_tree(found, path, where)
        elif not path.as_posix().endswith(_SKIPPED):
            yield from _walk(root, path, where, found)


def _is_top(root: Path, path: Path) -> bool:
    """Return whether a link at the top of a folder stands for a part of it that is elsewhere (lib -> /build/lib)."""
    return path.parent == root and path.name in _TOP and not path.resolve().is_relative_to(root.resolve())


def _add_tree(found: Listing, tree: Path, where: Where) -> None:
    """Add a tree of modules, and what packages of Fedora and Arch have in it: the kernel and its device trees."""
    found.trees.append(tree)
    for entry in entries_in(tree, where):
        if entry.is_file() and _KERNEL.fullmatch(entry.name):
            found.kernels.append(tree / entry.name)
        elif entry.is_dir(follow_symlinks=False) and entry.name in ("dtb", "dtbs"):
            for path in files_in(tree / entry.name, where):
                if (role := _role(found, path, False)) is not None:
                    role.append(path)


def no_tree(path: Path, where: Where) -> ConfigError:
    """Return the error for a folder with the name of a device tree, and for an ending without a name."""
    what = "is a folder" if path.is_dir() else "has no name before its ending"
    return ConfigError(f"{path} {what}; expected a file such as {OVERLAYS}/vc4.dtbo", where)


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


def entries_in(folder: Path, where: Where) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted. Raises ConfigError."""
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(folder, error, where) from None


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
            raise too_large(folder, where)
    return sorted(found)


def _below(folder: Path, where: Where) -> Iterator[Path]:
    """Yield everything in a folder and the folders in it that is no folder."""
    for entry in entries_in(folder, where):
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path, where)
        elif is_folder(path):
            raise linked(path, where)
        else:
            yield path


def linked(path: Path, where: Where) -> ConfigError:
    """Return the error for a link to a folder in the place of a part."""
    return ConfigError(f"{path} is a link to a folder, which is not followed; copy the folder here", where)


def too_large(folder: Path, where: Where) -> ConfigError:
    """Return the error for a folder with too many files."""
    most = f"{MAX_FILES} files and {MAX_ARCHIVE // 2**30} GiB"
    return ConfigError(f"the folder {folder} is too large for a part of a build; at most {most} are read", where)
