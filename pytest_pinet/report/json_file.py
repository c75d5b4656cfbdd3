"""Writes the whole run as one JSON file for ``--pinet-json PATH``. The file is complete or does not exist."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.run import RunRecord

OPTION = "--pinet-json"


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Convert an OSError (disk full, read-only, not a folder) to a ConfigError that names ``option``."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}; choose another with {option}") from error


def write_json(path: Path, run: RunRecord, option: str = OPTION) -> None:
    """Write ``run`` to ``path`` atomically, and create missing parents. Raises ConfigError.

    A reader finds the old file or the new one, even if this process is killed in between.
    """
    text = json_text(run)
    with writing(path, option):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file() and not path.is_dir():
            # A device or a pipe such as /dev/stdout must not be replaced by a file.
            path.write_text(text, encoding="ascii")
        else:
            replace_file(path.resolve(), text.encode("ascii"))


def json_text(run: RunRecord) -> str:
    """Return the JSON of a run in ASCII, which escapes lone surrogates from undecodable console bytes."""
    # nan is a bug and not valid JSON.
    return json.dumps(run.dump(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file next to ``path``, then rename it to ``path``. Raises OSError and leaves no temporary file."""
    # Not tempfile: other users cannot read its files, which breaks a CI that collects them.
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
