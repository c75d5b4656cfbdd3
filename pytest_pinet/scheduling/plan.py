"""What the planner works with: the needs and the expected duration of each test, and the state of groups and workers.

The workers collect the tests, and the controller collects none. So the workers write the needs to a file.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from pytest_pinet.history.results_file import results_in

FILE = "plan.json"
WORKER_INPUT = "pinet_run_folder"
# A test with the usual 5 s after 1 s of warm-up, plus wiring, evidence and undo.
DEFAULT_TOTAL_S = 9.0
DEFAULT_TRAFFIC_S = 6.5
# Time besides traffic: opening and closing the link.
AROUND_S = 1.5
_LATEST_RUNS = 5
Worker = Hashable


@dataclass(frozen=True)
class Needs:
    """The places that a test holds and the contention domains in which it measures; empty if it needs no lab."""

    places: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PlannedTest:
    """A test: its number in the collection, its expected duration, and the part that measures alone in its domains."""

    index: int
    needs: Needs
    total_s: float
    traffic_s: float


def joined(needs: Mapping[str, Needs]) -> dict[str, Needs]:
    """Join the needs of tests that share nodes, directly or through others: one worker then runs all of these tests."""
    parts: list[Needs] = []
    for need in needs.values():
        touching = [part for part in parts if not part.places.isdisjoint(need.places)]
        places = need.places.union(*(part.places for part in touching))
        domains = need.domains.union(*(part.domains for part in touching))
        parts = [*(part for part in parts if part not in touching), Needs(places, domains)]
    return {nodeid: next(part for part in parts if need.places <= part.places) for nodeid, need in needs.items()}


def write(folder: Path, needs: Mapping[str, Needs]) -> None:
    """Write the needs by node ID, whole or not at all. All workers write the same, so the last one may win."""
    tests = {nodeid: [sorted(need.places), sorted(need.domains)] for nodeid, need in needs.items()}
    draft = folder / f".{FILE}.{os.getpid()}"
    draft.write_text(json.dumps(tests), encoding="utf-8")
    draft.replace(folder / FILE)


def read(folder: Path) -> dict[str, Needs]:
    """Return the needs by node ID; empty if no worker has written the file yet."""
    try:
        tests = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {nodeid: Needs(frozenset(places), frozenset(domains)) for nodeid, (places, domains) in tests.items()}


@dataclass(frozen=True)
class Estimate:
    """Duration of a whole test, and its part in which traffic runs, in seconds."""

    total_s: float
    traffic_s: float


class Estimates(dict[str, Estimate]):
    """Estimates by node ID, from the latest run of each test. Other tests get the median."""

    def __init__(self, known: Mapping[str, Estimate]) -> None:
        super().__init__(known)
        total = median([e.total_s for e in known.values()]) if known else DEFAULT_TOTAL_S
        traffic = median([e.traffic_s for e in known.values()]) if known else DEFAULT_TRAFFIC_S
        self._usual = Estimate(total, traffic)

    @classmethod
    def of_earlier_runs(cls, runs: Path) -> Estimates:
        """Read the results of the latest runs below this folder. The latest result of each test counts."""
        known: dict[str, Estimate] = {}
        for file in sorted(runs.glob("*/results.jsonl"), reverse=True)[:_LATEST_RUNS]:
            known = _read(file) | known
        return cls(known)

    def __missing__(self, nodeid: str) -> Estimate:
        return self._usual


def _read(file: Path) -> dict[str, Estimate]:
    """Return the estimates of one file. The measurements of a test are added; broken or empty lines are ignored."""
    found: dict[str, Estimate] = {}
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # another user's file, or removed meanwhile
        return found
    for result in results_in(text)[0]:
        try:
            if not isinstance(result, dict):
                continue
            nodeid, seconds, traffic_s = result["test"], float(result["seconds"]), float(result["traffic_seconds"])
            # A comparison of builds is estimated for one turn.
            turns = len(result["change"]["turns"]) or 1 if result.get("change") else 1
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(nodeid, str) and traffic_s > 0:
            before = found.get(nodeid, Estimate(AROUND_S, 0.0))
            found[nodeid] = Estimate(before.total_s + seconds / turns, before.traffic_s + traffic_s / turns)
    return found


@dataclass(eq=False)
class Group:
    """Tests with the same needs that no worker has got yet. ``owner`` is the worker that has begun the group."""

    needs: Needs
    number: int
    jobs: deque[PlannedTest] = field(default_factory=deque)
    total_s: float = 0.0
    owner: Worker | None = None

    def add(self, job: PlannedTest, first: bool) -> None:
        """Add a test, ``first`` before the others."""
        (self.jobs.appendleft if first else self.jobs.append)(job)
        self.total_s += job.total_s

    def begin(self, worker: Worker) -> None:
        """Give the group to a worker."""
        self.owner = worker

    def leave(self) -> None:
        """Free the group: any worker can take its tests."""
        self.owner = None

    def take(self) -> PlannedTest:
        """Return the next test of the group, which then belongs to a worker."""
        job = self.jobs.popleft()
        self.total_s -= job.total_s
        if not self.jobs:
            # Any worker can take tests that come back to this group after a crash.
            self.leave()
        return job


@dataclass(eq=False)
class Load:
    """The unfinished tests of a worker, in order. ``since``: begin of the first."""

    pending: deque[PlannedTest] = field(default_factory=deque)
    since: float = 0.0

    def add(self, job: PlannedTest, now: float) -> None:
        """Add a test. The worker begins it at once if it is the only one."""
        self.pending.append(job)
        if len(self.pending) == 1:
            self.since = now

    def finish(self, index: int, now: float) -> PlannedTest:
        """Remove a finished test, which the next one follows, and return it."""
        job = next(job for job in self.pending if job.index == index)
        self.pending.remove(job)
        self.since = now
        return job

    def ends(self, now: float) -> float:
        """Return when the worker will have finished its tests."""
        if not self.pending:
            return now
        first_s = self.pending[0].total_s
        return now + sum(job.total_s for job in self.pending) - min(now - self.since, first_s)
