"""Keeps unpacked archives by the hash of their content, because unpacking a kernel package takes seconds."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")
# A Debian kernel takes about 400 MB.
KEPT = 8
# The data read from module trees are kept beside the archives, in small files.
INDEX = "modules-"
INDEXES_KEPT = 64
# Open descriptors of the folders that this process uses. No other process removes a folder while it is open here.
_held: dict[Path, int] = {}


def folder() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME/pytest-pinet/builds``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytest-pinet" / "builds"


def sha256_of(path: Path) -> str:
    """Return the hash of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_once(sha256: str, name: str, kind: TypeAdapter[T], read: Callable[[], T]) -> T:
    """Return what ``read`` returns for data of this hash; from the file ``name`` of the cache if it is there."""
    kept = folder() / f"{INDEX}{sha256}" / name
    with suppress(OSError, ValueError):
        known = kind.validate_json(kept.read_bytes())
        os.utime(kept.parent)
        return known
    found = read()
    # Only a cache, which other processes may change. ValueError: a path is not UTF-8.
    with suppress(OSError, ValueError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{secrets.token_hex(8)}")
        fresh.write_bytes(kind.dump_json(found))
        fresh.replace(kept)
    return found


def unpack_once(archives: Sequence[Path], files: Callable[[Path], Iterable[tuple[str, bytes]]]) -> Path:
    """Return the folder with the files of these archives, which ``files`` reads if the folder is missing.

    Raises OSError. The folder stays while this process lives.
    """
    hashes = [sha256_of(archive) for archive in archives]
    key = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return keep_once(key, lambda: (file for archive in archives for file in files(archive)))


def keep_once(name: str, files: Callable[[], Iterable[tuple[str, bytes]]]) -> Path:
    """Return the folder ``name`` of the cache. ``files`` yields its files if it is missing. Raises OSError."""
    kept = folder()
    wanted = kept / name
    if _hold(wanted):
        os.utime(wanted)
        return wanted
    kept.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=kept))
    held = _open(making)
    try:
        # Lock the folder before other processes see it. The lock stays when the folder is renamed.
        fcntl.flock(held, fcntl.LOCK_SH)
        for path, data in files():
            target = making / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        making.chmod(0o755)
        try:
            making.rename(wanted)
            _held[wanted] = held
        except OSError:
            # Another process was faster.
            if not _hold(wanted):
                raise
    finally:
        if _held.get(wanted) != held:
            os.close(held)
        shutil.rmtree(making, ignore_errors=True)
    prune()
    return wanted


def prune() -> None:
    """Remove all folders except the most recently used ones and the ones in use."""
    indexes: list[tuple[float, Path]] = []
    unpacked: list[tuple[float, Path]] = []
    for path in folder().iterdir():
        with suppress(OSError):  # another process may remove it, too
            found = path.stat()
            if stat.S_ISDIR(found.st_mode):
                (indexes if path.name.startswith(INDEX) else unpacked).append((found.st_mtime, path))
    for _, path in [*sorted(indexes)[:-INDEXES_KEPT], *sorted(unpacked)[:-KEPT]]:
        _remove(path)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _hold(path: Path) -> bool:
    """Keep other processes from removing the folder while this process lives.

    Return False if there is no such folder.
    """
    if path in _held:
        if _is(path, _held[path]):
            return True
        os.close(_held.pop(path))
    while path.exists():
        with suppress(FileNotFoundError):  # removed meanwhile
            held = _open(path)
            fcntl.flock(held, fcntl.LOCK_SH)
            if _is(path, held):
                _held[path] = held
                return True
            os.close(held)
    return False


def _is(path: Path, descriptor: int) -> bool:
    """Return whether the path is still the opened folder, not a new one of the same name."""
    with suppress(FileNotFoundError):
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    return False


def _remove(path: Path) -> None:
    """Remove a folder atomically, unless a process uses it."""
    gone = path.with_name(f".gone-{secrets.token_hex(8)}")
    try:
        seen = _open(path)
    except OSError:
        return
    try:
        fcntl.flock(seen, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is(path, seen):
            return
        path.rename(gone)
    except OSError:
        return
    finally:
        os.close(seen)
    shutil.rmtree(gone, ignore_errors=True)
