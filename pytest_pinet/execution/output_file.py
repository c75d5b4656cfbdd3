"""Writes files to paths that users name, such as ``-o FILE`` and ``--pinet-json PATH``."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_pinet.errors import ConfigError


@contextmanager
def writing(path: Path | str, option: str) -> Iterator[None]:
    """Convert an OSError (disk full, read-only, not a folder) to a ConfigError that names ``option``."""
    try:
        yield
    except (OSError, ValueError) as error:
        # ValueError: the path has a NUL byte.
        why = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(f"cannot write {path}: {why or error}; choose another with {option}") from error


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
    if mode is not None and not stat.S_ISREG(mode):
        _write_into(path, chunks)
    else:
        _replace(path, chunks, mode)


def _write_into(path: Path, chunks: Iterable[bytes]) -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
    for standard in (1, 2):
        # Opened again, a file that a shell writes standard output to would lose what it has.
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(standard)):
                with os.fdopen(os.dup(standard), "wb") as stream:
                    stream.writelines(chunks)
                return
    with path.open("wb") as file:
        file.writelines(chunks)


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
