"""Write a ``newc`` cpio archive, the format of an initramfs. Needs neither root nor a tool."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field


@dataclass
class Archive:
    """An archive whose entries belong to root, in the order of their addition. Parent directories are added."""

    _parts: list[bytes] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def directory(self, path: str, mode: int = 0o755) -> None:
        """Add a directory and its parents, if they are missing."""
        parent, _, _ = path.rpartition("/")
        if path and path not in self._known:
            self.directory(parent)
            self._add(path, stat.S_IFDIR | mode, b"")

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Add a regular file."""
        self.directory(path.rpartition("/")[0])
        self._add(path, stat.S_IFREG | mode, data)

    def symlink(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.directory(path.rpartition("/")[0])
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path: str, major: int, minor: int, mode: int = 0o600) -> None:
        """Add a character device, such as the console that init writes to."""
        self.directory(path.rpartition("/")[0])
        self._add(path, stat.S_IFCHR | mode, b"", (major, minor))

    def packed(self) -> bytes:
        """Return the archive. Another archive may be appended to it."""
        trailer = _entry("TRAILER!!!", 0, b"", (0, 0), 0)
        data = b"".join([*self._parts, trailer])
        return data + bytes(-len(data) % 512)

    def _add(self, path: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._known.add(path)
        self._parts.append(_entry(path, mode, data, device, len(self._known)))


def _entry(path: str, mode: int, data: bytes, device: tuple[int, int], inode: int) -> bytes:
    # Field order and padding: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
