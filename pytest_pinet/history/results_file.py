"""Reads ``results.json``, and what a killed run left.

A killed run leaves its ``run.json`` and the lines of ``results.jsonl``, without ``results.json``.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import quoted
from pytest_pinet.execution.text import parse_json
from pytest_pinet.model.record.result import SCHEMA_VERSION, ResultRecord, RunRecord

# The run's own data, written when it began. The results do not contain these data.
HEAD = "run.json"
LINES = "results.jsonl"
# The records that tests have until they end.
UNENDED = "unended.jsonl"
# The keys that are the same in both lines of a result that a second board completed.
_OF_ONE = ("test", "id", "started")
# A run of 500 combinations takes about 50 MB.
MAX_BYTES = 2**30


def read_run(path: Path) -> RunRecord:
    """Read a ``results.json``. Raises ConfigError if it cannot be read, is no JSON, or is no such file."""
    try:
        return run_of(parse_json(content_of(path)), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected a results.json") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}); expected a results.json") from None


def read_whole_run(path: Path) -> RunRecord | None:
    """Read a ``results.json``; None if its run was killed, so that it is missing or cut short. Raises ConfigError."""
    try:
        return run_of(parse_json(content_of(path)), str(path))
    except (OSError, ValueError):
        return None


def content_of(path: Path) -> bytes:
    """Return the content of a regular file of a possible size. Raises OSError."""
    size = size_of(path)
    if size > MAX_BYTES:
        raise OSError(errno.EFBIG, f"File with more than {MAX_BYTES // 2**30} GiB", str(path))
    return path.read_bytes() if size else b""


def size_of(path: Path) -> int:
    """Return the size of a regular file. Raises OSError.

    A fifo would be read for ever, and a device never ends. A file of /proc has 0 bytes here, and must not be read.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return found.st_size


def run_of(data: object, where: str = "") -> RunRecord:
    """Return the run of JSON that `parse_json` has read.

    Raises ConfigError if this is no run, or one of an unknown version.
    """
    if not isinstance(data, dict) or not isinstance(data.get("results"), list) or "run" not in data:
        raise ConfigError(f"{where or 'this'} is no results.json of pytest-pinet; expected keys 'run' and 'results'")
    if data.get("schema") != SCHEMA_VERSION:
        message = f"{where or 'results.json'} has version {data.get('schema')!r}"
        raise ConfigError(f"{message}; expected {SCHEMA_VERSION}: update pytest-pinet")
    try:
        return RunRecord.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise ConfigError(broken(where, first_problem(error))) from None


def broken(where: str, what: str) -> str:
    """Return the message about a file with wrong values."""
    return f"{where or 'results.json'} is broken ({what}); check it against 'pinet history schema'"


def first_problem(error: ValidationError) -> str:
    """Return the first wrong value: its path in the file and the reason."""
    first = error.errors(include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


def moment(text: str) -> datetime:
    """Parse an ISO 8601 time; without a time zone it is UTC. Raises ValueError."""
    try:
        return in_utc(datetime.fromisoformat(text))
    except OverflowError:
        raise ValueError(f"the time {text} is out of range") from None
    except ValueError:
        raise ValueError(f"expected a time such as '2026-11-28T12:00:00+00:00', got {quoted(text)}") from None


def in_utc(time: datetime) -> datetime:
    """Convert a time to UTC; without a time zone it is UTC already."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def record_of(lines: Path) -> tuple[RunRecord, list[str]]:
    """Return the record of a killed run from its ``results.jsonl``, and a sentence about each line that is left out.

    The record is always marked as incomplete. Raises ConfigError if the run still goes on, or if ``run.json`` is
    unusable.
    """
    head = lines.with_name(HEAD)
    try:
        run = parse_json(content_of(head))
        if goes_on(head):
            raise ConfigError(f"the run of {lines} is still active; wait until it has ended")
        text = content_of(lines).decode(errors="replace")
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: {error.strerror}; expected {HEAD} and {LINES} of one run in a folder"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{head} is no JSON ({error}); expected the file that a run writes when it begins") from None
    if not isinstance(run, dict) or "started" not in run:
        raise ConfigError(f"{head} lacks the key 'started'; expected the file that a run writes when it begins")
    results, left_out = results_in(text, checked=True)
    found = run_of({**run, "results": results, "complete": False}, str(lines))
    found = found.replace(results=(*found.results, *unended_in(lines.with_name(UNENDED))))
    return found.replace(finished=_last_seen(found)), left_out


def unended_in(file: Path) -> list[ResultRecord]:
    """Return the records of the tests that had not ended when a run was killed; none without this file.

    Each line replaces the earlier ones of its test. A test that ended has no record. A kill cuts a line short.
    """
    try:
        lines = content_of(file).decode(errors="replace").splitlines()
    except OSError:
        return []
    left: dict[str, ResultRecord] = {}
    for line in lines:
        try:
            found = parse_json(line)
            if not isinstance(found, dict):
                continue
            if found.get("left") is None:
                left.pop(str(found.get("test")), None)
                continue
            record = ResultRecord.model_validate_json(json.dumps(found["left"]), strict=True)
            left[record.test] = record
        except ValueError:
            continue
    return [*left.values()]


def goes_on(head: Path) -> bool:
    """Return whether the process that wrote ``head`` is alive. The system removes its lock when the process dies."""
    try:
        with head.open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        # The file does not exist, or its file system has no locks.
        return False
    return False


def results_in(text: str, checked: bool = False) -> tuple[Sequence[object], list[str]]:
    """Return the results (JSON objects) in the text of a ``results.jsonl``, and a sentence about each other line.

    A result that a second board completed has two lines, of which the later one counts. A kill or a full disk cuts a
    line short. ``checked``: each result must also be whole.
    """
    results: list[dict[str, object]] = []
    left_out: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            result = parse_json(line)
            if not isinstance(result, dict):
                raise ValueError("this is no result")
            if checked:
                ResultRecord.model_validate_json(json.dumps(result), strict=True)
        except ValueError as error:
            why = first_problem(error) if isinstance(error, ValidationError) else error
            left_out.append(f"line {number} is left out, because it is incomplete or wrong ({why})")
            continue
        if result.get("second_board") is not None:
            results = [one for one in results if any(one.get(key) != result.get(key) for key in _OF_ONE)]
        results.append(result)
    return results, left_out


def _last_seen(run: RunRecord) -> str:
    """Return the time at which the last complete result ended. The run itself went on after that."""
    times = [run.started]
    for result in run.results:
        try:
            times.append((moment(result.started) + timedelta(seconds=result.seconds)).isoformat())
        except (ValueError, OverflowError):
            continue
    return times[-1]
