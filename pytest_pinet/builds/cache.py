"""Archives unpacked once, kept by the hash of what they hold: a kernel package takes seconds to unpack."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

# Of a Debian kernel one takes some 400 MB.
KEPT = 8
# Beside them what was read from trees of modules is kept, in little files.
INDEX = "modules-"
INDEXES_KEPT = 64
# What this process uses, by its folder: as long as this descriptor is open nobody else removes it.
_held: dict[Path, int] = {}


def folder() -> Path:
    """Where they are kept: ``$XDG_CACHE_HOME/pytest-pinet/builds``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytest-pinet" / "builds"


def sha256_of(path: Path) -> str:
    """The hash of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack_once(archive: Path, files: Callable[[Path], Iterable[tuple[str, bytes]]]) -> Path:
    """The folder with the files of an archive; ``files`` reads it when that is not there yet. Raises OSError.

    It stays as long as this process lives, whatever others unpack.
    """
    kept = folder()
    wanted = kept / sha256_of(archive)
    if _hold(wanted):
        os.utime(wanted)
        return wanted
    kept.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=kept))
    held = _open(making)
    try:
        # Before others see it; the lock goes with it to its name.
        fcntl.flock(held, fcntl.LOCK_SH)
        for name, data in files(archive):
            target = making / name
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
    """Let go of all but those that were used last, or are in use."""
    indexes: list[tuple[float, Path]] = []
    unpacked: list[tuple[float, Path]] = []
    for path in folder().iterdir():
        with suppress(OSError):  # another process lets go of it, too
            found = path.stat()
            if stat.S_ISDIR(found.st_mode):
                (indexes if path.name.startswith(INDEX) else unpacked).append((found.st_mtime, path))
    for _, path in [*sorted(indexes)[:-INDEXES_KEPT], *sorted(unpacked)[:-KEPT]]:
        _remove(path)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _hold(path: Path) -> bool:
    """Have nobody remove it while this process lives; False where it is not there."""
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
    """Whether it is what was opened, not another one of its name."""
    with suppress(FileNotFoundError):
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    return False


def _remove(path: Path) -> None:
    """At once, for all who look for it; not where somebody holds it."""
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
