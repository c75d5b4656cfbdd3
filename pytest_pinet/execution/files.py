"""Paths that users name: what is there, and how a file is written. No question about a path is an error."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pytest_pinet.errors import ConfigError, OutputError
from pytest_pinet.execution.deadline import Deadline


def exists(path: Path | str) -> bool:
    """Return whether there is a file or folder that can be seen."""
    return os.path.exists(path)  # noqa: PTH110


def is_file(path: Path | str) -> bool:
    """Return whether there is a regular file, or a link to one."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path | str) -> bool:
    """Return whether there is a folder, or a link to one."""
    return os.path.isdir(path)  # noqa: PTH112


# How long the program at the other end of a named pipe may take to open the pipe.
READER_TIMEOUT_S = 10.0
# What is written to takes no more: a full disk, a quota, a pipe or a terminal that no program reads, a closed stream.
_NO_MORE = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE, errno.EBADF, errno.ETIMEDOUT,
)  # fmt: skip


@contextmanager
def writing(path: Path | str, option: str = "") -> Iterator[None]:
    """Convert an OSError to an OutputError (disk full) or a ConfigError (not a folder) that names ``option``."""
    try:
        yield
    except (OSError, ValueError) as error:
        # ValueError: the path has a NUL byte.
        no_more = isinstance(error, OSError) and error.errno in _NO_MORE
        advice = f"; choose another with {option}" if option else ""
        raise (OutputError if no_more else ConfigError)(f"cannot write {path}: {reason(error)}{advice}") from error


def reason(error: Exception) -> str:
    """Return why something could not be written."""
    if not isinstance(error, OSError):
        return "its name has a NUL character"
    if isinstance(error, FileExistsError):
        return f"{error.filename} is no folder"
    if error.errno == errno.EBADF:
        return "it is closed, or open only for reading"
    return error.strerror or str(error)


def cache_home() -> Path:
    """Return the folder of the user's caches: ``$XDG_CACHE_HOME``, by default ``~/.cache``."""
    return _home(os.environ.get("XDG_CACHE_HOME"), ".cache")


def state_home() -> Path:
    """Return the folder of what programs of the user keep: ``$XDG_STATE_HOME``, by default ``~/.local/state``."""
    return _home(os.environ.get("XDG_STATE_HOME"), ".local/state")


def _home(named: str | None, usual: str) -> Path:
    # The XDG specification requires to ignore a path that is not absolute.
    found = Path(named or "")
    return found if found.is_absolute() else Path.home() / usual


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file as a whole, and create missing parents. Raises OSError.

    A reader of a regular file finds the old content or the new one, even if this process is killed in between. A
    link, a device or a pipe (``/dev/stdout``) is never replaced: the content is written into it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        mode: int | None = path.lstat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is None or stat.S_ISREG(mode):
        _replace(path, chunks, mode)
        return
    # At the end of the block, the last bytes are written. Their error counts, too.
    with _opened(path) as stream:
        stream.writelines(chunks)


def _opened(path: Path) -> BinaryIO:
    """Open what is no regular file. What is open already is continued after its text. Raises OSError."""
    number = _open_already(path)
    if number is None:
        return os.fdopen(_new_descriptor(path), "wb")
    if number == 1 and sys.stdout is not None:
        sys.stdout.flush()
    # Opened again, a file that a shell writes standard output to would lose what it has.
    return os.fdopen(os.dup(number), "wb")


def _open_already(path: Path) -> int | None:
    """Return the number of the open file that a path leads to: standard output, standard error, or ``/dev/fd/N``."""
    named = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", str(path))
    for number in (1, 2, *([int(named[1])] if named else [])):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(number)):
                return number
    return None


def _new_descriptor(path: Path) -> int:
    # Without O_NONBLOCK, a pipe that no program reads and a serial port without carrier are waited for without an end.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY | os.O_NONBLOCK
    found: list[int] = []

    def opens() -> bool:
        try:
            found.append(os.open(path, flags, 0o666))
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
        return bool(found)

    if not Deadline(READER_TIMEOUT_S).wait_until(opens):
        raise TimeoutError(errno.ETIMEDOUT, f"no program opened this pipe for reading within {READER_TIMEOUT_S:g} s")
    os.set_blocking(found[0], True)
    return found[0]


def _replace(path: Path, chunks: Iterable[bytes], mode: int | None) -> None:
    # Not tempfile: other users cannot read its files, which breaks a CI that collects them.
    temporary = path.with_name(f".{path.name[:60]}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if mode is not None:
                # A file system without modes refuses.
                with suppress(OSError):
                    os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
