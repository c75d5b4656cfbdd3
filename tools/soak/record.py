"""Reads and writes docs/contributing/soak.json: every statement with its results, by commit, date and machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Runs:
    """Runs of one statement at one commit on one machine. The date is that of the latest run."""

    commit: str
    machine: str
    date: str
    runs: int
    failures: int
    reason: str = ""
    """Why the latest failure failed."""

    def plus(self, more: Runs) -> Runs:
        """Return both added up."""
        return replace(
            more,
            runs=self.runs + more.runs,
            failures=self.failures + more.failures,
            reason=more.reason or self.reason,
        )


@dataclass(frozen=True)
class Statement:
    """A statement: its sentence, the required runs, the allowed failures, and the results so far."""

    statement: str
    family: str
    test: str
    runs: int
    allowed: int
    minutes: float
    results: tuple[Runs, ...] = field(default=())

    @property
    def ran(self) -> int:
        """Return the runs so far."""
        return sum(result.runs for result in self.results)

    @property
    def failures(self) -> int:
        """Return the failed runs so far."""
        return sum(result.failures for result in self.results)

    @property
    def complete(self) -> bool:
        """Whether it has all required runs."""
        return self.ran >= self.runs

    @property
    def state(self) -> str:
        """Return the state as the page prints it."""
        if not self.ran:
            return "not yet run"
        if self.failures > self.allowed:
            return "not held"
        return "held" if self.complete else "held so far"

    def with_runs(self, found: Runs) -> Statement:
        """Return the statement with these runs added. Runs of the same commit and machine are summed."""
        same = [old for old in self.results if (old.commit, old.machine) == (found.commit, found.machine)]
        others = tuple(old for old in self.results if old not in same)
        for old in same:
            found = old.plus(found)
        return replace(self, results=(*others, found))


def load(path: Path) -> list[Statement]:
    """Return the statements of this file; none if there is no file."""
    if not path.exists():
        return []
    entries = json.loads(path.read_text())["statements"]
    return [Statement(**{**entry, "results": tuple(Runs(**one) for one in entry["results"])}) for entry in entries]


def save(path: Path, statements: Sequence[Statement]) -> None:
    """Write the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps({"statements": [asdict(one) for one in statements]}, indent=2, ensure_ascii=False)
    try:
        draft.write_text(f"{text}\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def merged(collected: Sequence[Mapping[str, Any]], known: Sequence[Statement]) -> list[Statement]:
    """Return the current statements of the tests, with the results of unchanged ones.

    A statement with another sentence or another number of allowed failures is a new one without runs.
    """
    results = {(old.statement, old.allowed): old.results for old in known}
    found = [Statement(**one) for one in collected]
    sentences = [one.statement for one in found]
    for twice in sorted({sentence for sentence in sentences if sentences.count(sentence) > 1}):
        raise SystemExit(f"two tests make the same statement: {twice}")
    return [replace(one, results=results.get((one.statement, one.allowed), ())) for one in found]
