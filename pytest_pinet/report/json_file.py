"""``--pinet-json PATH``: the whole run as one JSON file that is either there in full or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.report.record import RunRecord

OPTION = "--pinet-json"


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Turn what the file system refuses (full, read-only, not a folder) into one sentence that names ``option``."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}; choose another with {option}") from error


def write_json(path: Path, run: RunRecord, option: str = OPTION) -> None:
    """Write ``run`` to ``path`` atomically; missing parents are made. Raises ConfigError.

    A reader finds the old file or the new one, also when we are killed in between.
    """
    # A lone surrogate from an undecodable console byte is escaped by ASCII; nan is a bug and no JSON.
    text = json.dumps(run, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
    with writing(path, option):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file() and not path.is_dir():
            # /dev/stdout, a pipe: to replace it would take the device away.
            path.write_text(text, encoding="ascii")
        else:
            replace_file(path.resolve(), text.encode("ascii"))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside ``path``, then put it in its place. Raises OSError and leaves nothing behind."""
    # Not tempfile: its files are unreadable to others, which a CI that collects them trips over.
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
