"""The parts of a build, collected from files, folders, packages and archives; not yet checked against each other."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from pytest_pinet.builds.archives import Unreadable, archive_files
from pytest_pinet.builds.cache import unpack_once
from pytest_pinet.builds.kernel_files import is_module
from pytest_pinet.builds.listing import (
    CMDLINE,
    CONFIG,
    OVERLAYS,
    TREE_ENDINGS,
    Listing,
    files_in,
    filled,
    list_folder,
    no_tree,
)
from pytest_pinet.builds.not_a_build import SOURCE_TREE
from pytest_pinet.builds.tree import built_in_texts
from pytest_pinet.config.section import read_text
from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import shown
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, BuildSettings, BuildSource

_FILE, _FOLDER = 0o100644, 0o040755
_TRAILER = "TRAILER!!!"
# The next file is placed directly behind this one, and the kernel needs it at a multiple of 4 (firmware issue 1843).
_BLOCK = 512
# The kernel also finds these (CONFIG_FW_LOADER_COMPRESS).
_PACKED = (".xz", ".zst")


def early_firmware(build: Build) -> tuple[BuildFile, ...]:
    """Return the firmware files that drivers of the build may load from the initramfs.

    If the build has no kernel, its drivers are the board's, and all its firmware files are returned.
    """
    files = build.of(BuildFileRole.FIRMWARE)
    if not build.of(BuildFileRole.MODULES):
        return files
    patterns = {pattern for module in build.modules.values() for pattern in module.firmware}
    for tree in build.of(BuildFileRole.MODULES):
        patterns |= {value for _, key, value in built_in_texts(Path(tree.path)) if key == "firmware"}
    return tuple(file for file in files if any(fnmatchcase(_plain(file.name), pattern) for pattern in patterns))


def _plain(name: str) -> str:
    return next((name.removesuffix(ending) for ending in _PACKED if name.endswith(ending)), name)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a cpio archive in the format newc, with these files and their folders. Paths have no leading slash."""
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents if str(folder) != "."}
    data = b"".join(_member(number, name, _FOLDER, b"") for number, name in enumerate(sorted(folders), start=1))
    data += b"".join(
        _member(number, name, _FILE, content)
        for number, (name, content) in enumerate(sorted(files.items()), start=len(folders) + 1)
    )
    data += _member(0, _TRAILER, 0, b"")
    return data + b"\0" * (-len(data) % _BLOCK)


def _member(number: int, name: str, mode: int, content: bytes) -> bytes:
    # inode, mode, uid, gid, links, mtime, size, 4 device numbers, length of the name, checksum
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


# The device trees in a package that the firmware of a Raspberry Pi can load.
_PI_TREES = "bcm27", "bcm28"


@dataclass
class BuildPart:
    """A file, or the folder of a tree of modules. ``where`` is the place that names it.

    ``is_named`` is False for a file that a folder or archive happens to have.
    """

    role: BuildFileRole
    path: Path
    where: Where
    name: str = ""
    is_named: bool = True


@dataclass
class BuildContents:
    """The files of a build, and its settings. ``left_out`` are files beside them that are no part of it."""

    name: str
    where: Where
    files: list[BuildPart] = field(default_factory=list)
    settings: BuildSettings = field(default_factory=BuildSettings)
    source: BuildSource | None = None
    left_out: list[str] = field(default_factory=list)

    def of(self, role: BuildFileRole) -> list[BuildPart]:
        return [part for part in self.files if part.role is role]

    def add(self, role: BuildFileRole, paths: Iterable[Path], where: Where, is_named: bool = True) -> None:
        self.files += [BuildPart(role, path, where, is_named=is_named) for path in paths]

    def add_settings(self, more: BuildSettings) -> None:
        """Add settings behind the earlier ones."""
        own = vars(self.settings)
        self.settings = BuildSettings(**{name: own[name] + value for name, value in vars(more).items()})

    def describe(self, source: BuildSource) -> None:
        """Say where the kernel comes from."""
        self.source = source

    def leave_out(self, files: Iterable[str]) -> None:
        """Name files that are no part of the build."""
        self.left_out += files

    def add_listing(self, found: Listing, where: Where) -> None:
        """Add all parts that a folder, a package or an archive has. Raises ConfigError."""
        self.add(BuildFileRole.KERNEL, found.kernels, where, is_named=False)
        self.add(BuildFileRole.INITRAMFS, found.initramfs, where)
        self.add(BuildFileRole.MODULES, found.trees, where)
        self.add(BuildFileRole.MODULE, found.modules, where)
        self.add(BuildFileRole.DEVICE_TREE, _for_pis(found.device_trees), where)
        self.add(BuildFileRole.OVERLAY, found.overlays, where)
        for folder in found.tree_folders:
            self.add_device_trees(folder, where)
        for folder in found.firmware:
            self.add_firmware(folder, where)
        for text in found.texts:
            if text.name == CONFIG:
                lines = _config_lines(read_text(text, "lines for config.txt"), str(text))
                self.add_settings(BuildSettings(config=tuple(lines)))
            else:
                words = _cmdline_words(read_text(text, "words to append to cmdline.txt"), str(text))
                self.add_settings(BuildSettings(cmdline=tuple(words)))
        self.leave_out(found.left_out)

    def add_modules(self, path: Path, where: Where) -> None:
        """Add a module, or the modules of a folder, a package or an archive. Raises ConfigError."""
        filled(path, where, "module, folder or archive of modules")
        if path.is_file() and is_module(path.name):
            self.add(BuildFileRole.MODULE, [path], where)
            return
        found = list_folder(path if path.is_dir() else unpack([path], where), where)
        if not (found.trees or found.modules):
            raise ConfigError(
                f"{path} contains no modules; expected a folder lib/modules/RELEASE, as 'make modules_install' creates "
                "it",
                where,
            )
        self.add(BuildFileRole.MODULES, found.trees, where)
        self.add(BuildFileRole.MODULE, found.modules, where)

    def add_device_trees(self, path: Path, where: Where) -> None:
        """Add a device tree or an overlay, or all of a folder as ``make dtbs_install`` makes it. Raises ConfigError.

        The folder may be flat, or have folders of vendors and of kernel releases (dtbs/RELEASE/broadcom/, overlays/).
        Of device trees for many boards, only the trees for a Raspberry Pi are added.
        """
        found = files_in(path, where) if path.is_dir() else [path]
        # Also empty folders, which have no file.
        inside = [Path(base, name) for base, names, _ in os.walk(path) for name in names]
        if wrong := next((one for one in (path, *inside) if one.name.endswith(TREE_ENDINGS) and one.is_dir()), None):
            raise no_tree(wrong, where)
        trees: list[Path] = []
        for entry in found:
            # overlays/overlay_map.dtb tells the firmware which overlay fits which model.
            if entry.suffix == ".dtbo" or (entry.suffix == ".dtb" and entry.parent.name == OVERLAYS):
                self.add(BuildFileRole.OVERLAY, [entry], where)
            elif entry.suffix == ".dtb":
                trees.append(entry)
            elif not path.is_dir() or not entry.name.startswith("README"):
                raise ConfigError(f"{entry} is not a device tree; expected *.dtb or *.dtbo", where)
        if path.is_dir() and not any(entry.suffix in TREE_ENDINGS for entry in found):
            raise ConfigError(f"{path} contains no device trees; expected *.dtb or *.dtbo", where)
        self.add(BuildFileRole.DEVICE_TREE, _for_pis(trees), where)

    def add_firmware(self, folder: Path, where: Where) -> None:
        """Add the files that drivers load from /lib/firmware, by their path there."""
        for entry in files_in(folder, where):
            self.files.append(BuildPart(BuildFileRole.FIRMWARE, entry, where, str(entry.relative_to(folder))))


def _for_pis(trees: list[Path]) -> list[Path]:
    """Return the device trees for a Raspberry Pi; if there are none, all that have different names."""
    ours = [tree for tree in trees if tree.name.startswith(_PI_TREES)]
    return ours or list({tree.name: tree for tree in trees}.values())


def unpack(archives: Sequence[Path], where: Where) -> Path:
    """Return a folder of the cache with the files of all these archives: packages may split one kernel.

    Raises ConfigError.
    """
    at = archives[0]
    seen: dict[str, tuple[str, Path]] = {}

    def files(archive: Path) -> Iterator[tuple[str, bytes]]:
        nonlocal at
        at = archive
        for name, data in archive_files(archive):
            if PurePosixPath(name).name == "MAINTAINERS":
                raise Unreadable(f"it is {SOURCE_TREE}")
            own = hashlib.sha256(data).hexdigest()
            known, other = seen.setdefault(name, (own, archive))
            if known != own and other == archive:
                raise Unreadable(f"it has {name} twice, with different content")
            if known != own:
                raise Unreadable(f"its {name} differs from that of {other}; name the packages of one kernel")
            yield name, data

    try:
        for archive in archives:
            filled(archive, where, "package or archive")
        return unpack_once(archives, files)
    except (Unreadable, OSError, ValueError) as error:
        # ValueError: a name in the archive has a NUL byte.
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{at} cannot be unpacked: {reason}", where) from None


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
