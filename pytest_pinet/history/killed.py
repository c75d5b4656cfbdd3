"""What a killed run left: no ``results.json``, but its ``run.json`` and the lines of ``results.jsonl``."""

from __future__ import annotations

import fcntl
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.records import moment

# The run when it began: what its results do not say of themselves.
HEAD = "run.json"
LINES = "results.jsonl"


def record_of(lines: Path) -> tuple[dict[str, Any], int]:
    """The record of a killed run from its ``results.jsonl``, never a complete one, and how many lines were cut short.

    Raises ConfigError where the run still goes on, or nothing says what it was.
    """
    head = lines.with_name(HEAD)
    if goes_on(head):
        raise ConfigError(f"the run of {lines} still goes on; expected one that was killed: wait until it has ended")
    try:
        run = json.loads(head.read_text(encoding="utf-8"))
        text = lines.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: {error.strerror}; expected {HEAD} and {LINES} of one run in a folder"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{head} is no JSON ({error}); expected what a run writes when it begins") from None
    if not isinstance(run, dict) or "started" not in run:
        raise ConfigError(f"{head} has no 'started'; expected what a run writes when it begins")
    results, cut = _results(text)
    return {**run, "results": results, "complete": False, "finished": _last_seen(run, results)}, cut


def goes_on(head: Path) -> bool:
    """Whether the process that wrote ``head`` lives; the system takes its lock away when it dies."""
    try:
        with head.open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        # It is not there, or on a file system without locks.
        return False
    return False


def _results(text: str) -> tuple[list[dict[str, Any]], int]:
    """A kill, or a full disk, cuts a line short."""
    results: list[dict[str, Any]] = []
    cut = 0
    for line in filter(str.strip, text.splitlines()):
        try:
            result = json.loads(line)
        except ValueError:
            result = None
        if isinstance(result, dict):
            results.append(result)
        else:
            cut += 1
    return results, cut


def _last_seen(run: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """When the last result that is there was complete; the run itself went on for a while."""
    times = [str(run["started"])]
    for result in results:
        try:
            times.append((moment(result["started"]) + timedelta(seconds=float(result["seconds"]))).isoformat())
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return times[-1]
