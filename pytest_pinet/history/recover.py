"""Reads what a killed run left: its ``run.json`` and the lines of ``results.jsonl``, without ``results.json``."""

from __future__ import annotations

import fcntl
import json
from datetime import timedelta
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.records import moment
from pytest_pinet.history.results_file import run_of
from pytest_pinet.model.record.run import RunRecord

# The run's own data, written when it began. The results do not contain these data.
HEAD = "run.json"
LINES = "results.jsonl"


def record_of(lines: Path) -> tuple[RunRecord, int]:
    """Return the record of a killed run from its ``results.jsonl``, and how many lines were incomplete.

    The record is always marked as incomplete. Raises ConfigError if the run still goes on, or if ``run.json`` is
    unusable.
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
    found = run_of({**run, "results": results, "complete": False}, str(lines))
    return found.replace(finished=_last_seen(found)), cut


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


def _results(text: str) -> tuple[list[dict[str, object]], int]:
    """Return the complete results, and the number of incomplete lines. A kill or a full disk cuts a line short."""
    results: list[dict[str, object]] = []
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


def _last_seen(run: RunRecord) -> str:
    """Return the time at which the last complete result ended. The run itself went on after that."""
    times = [run.started]
    for result in run.results:
        try:
            times.append((moment(result.started) + timedelta(seconds=result.seconds)).isoformat())
        except (ValueError, OverflowError):
            continue
    return times[-1]
