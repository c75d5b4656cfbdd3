"""Reads ``results.json`` of any version. Files of older versions lack keys, and must all be accepted."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.run import RunRecord

# The results.json versions that this module reads.
KNOWN_SCHEMAS = (1,)


def read_run(path: Path) -> RunRecord:
    """Read a ``results.json``. Raises ConfigError if it cannot be read, is no JSON, or is no such file."""
    try:
        return _parse(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected a results.json") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}); expected a results.json") from None


def read_whole_run(path: Path) -> RunRecord | None:
    """Read a ``results.json``; None if its run was killed, so that it is missing or cut short. Raises ConfigError."""
    try:
        return _parse(path.read_bytes(), str(path))
    except (OSError, ValueError):
        return None


def _parse(text: bytes, where: str) -> RunRecord:
    """Parse the content of a ``results.json``. Raises ConfigError, or ValueError if it is no JSON."""
    try:
        run = RunRecord.model_validate_json(text)
    except ValidationError:
        # Python's parser also accepts lone surrogates, which stand for undecodable bytes of a console.
        return run_of(json.loads(text), where)
    _check_version(run.schema_version, where)
    return run


def run_of(data: object, where: str = "") -> RunRecord:
    """Return the run of parsed JSON. Raises ConfigError if this is no run, or one of an unknown version."""
    if not isinstance(data, dict) or not isinstance(data.get("results"), list) or "run" not in data:
        raise ConfigError(f"{where or 'this'} is no results.json of pytest-pinet; expected 'run' and 'results' in it")
    _check_version(data.get("schema"), where)
    try:
        return RunRecord.model_validate(data)
    except ValidationError as error:
        raise ConfigError(broken(where, _first(error))) from None


def broken(where: str, what: str) -> str:
    """Return the message about a file with wrong values."""
    return f"{where or 'results.json'} is broken ({what}); check it against 'pinet schema results'"


def _check_version(version: object, where: str) -> None:
    if version not in KNOWN_SCHEMAS:
        message = f"{where or 'results.json'} is of version {version!r}"
        raise ConfigError(f"{message}; expected {KNOWN_SCHEMAS[-1]}: update pytest-pinet")


def _first(error: ValidationError) -> str:
    """Return the first wrong value: its path in the file and the reason."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
