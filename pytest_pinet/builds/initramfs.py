"""Makes a small initramfs with the driver firmware of a build, which is loaded before the main initramfs.

A driver in the initramfs loads its firmware before the root file system is mounted. It would find the known-good file
there. The kernel accepts several archives one after the other (Documentation/driver-api/early-userspace/).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from pytest_pinet.builds.tree import built_in_texts
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole

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
