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
_NONE: frozenset[str] = frozenset()


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
    """The unfinished tests of a worker, in order. ``since``: begin of the first. ``ended``: it gets no more tests."""

    pending: deque[PlannedTest] = field(default_factory=deque)
    since: float = 0.0
    ended: bool = False

    def add(self, job: PlannedTest, now: float) -> bool:
        """Add a test. Return whether the worker begins it at once."""
        self.pending.append(job)
        if len(self.pending) == 1:
            self.since = now
        return len(self.pending) == 1

    def finish(self, index: int, now: float) -> PlannedTest:
        """Remove a finished test, which the next one follows, and return it."""
        job = next(job for job in self.pending if job.index == index)
        self.pending.remove(job)
        self.since = now
        return job

    def end(self) -> None:
        """Give the worker no more tests; if it waits without one, it may still get one later."""
        self.ended = bool(self.pending)


class WorkerLeases:
    """The places that each worker holds or waits for: all places of a test or none, in the order of requests."""

    def __init__(self) -> None:
        self._holder: dict[str, Worker] = {}
        self._held: dict[Worker, frozenset[str]] = {}
        self._waiting: dict[Worker, frozenset[str]] = {}
        self._since: dict[Worker, float] = {}
        self._latest = 0.0

    def request(self, worker: Worker, places: frozenset[str], now: float) -> None:
        """Request the places of a worker's next test."""
        self._latest = now
        self._waiting[worker] = places
        self._grant()

    def release(self, worker: Worker, now: float, keep: frozenset[str] = _NONE) -> None:
        """Release the places of a finished test, except ``keep``, the places that the worker's next test needs."""
        self._latest = now
        self._since.pop(worker, None)
        self._drop(worker, keep)
        self._grant()

    def remove(self, worker: Worker) -> None:
        """Forget a worker that is gone, with all places that it held or waited for."""
        self._waiting.pop(worker, None)
        self._since.pop(worker, None)
        self._drop(worker)
        self._grant()

    def since(self, worker: Worker) -> float | None:
        """Return when a worker got the places of its first test; None while it waits for them."""
        return self._since.get(worker)

    def _drop(self, worker: Worker, keep: frozenset[str] = _NONE) -> None:
        held = self._held.pop(worker, _NONE)
        for place in held - keep:
            del self._holder[place]
        if held & keep:
            self._held[worker] = held & keep

    def _grant(self) -> None:
        for worker, places in list(self._waiting.items()):
            if any(self._holder.get(place, worker) is not worker for place in places):
                # All or none: other workers may use the kept places meanwhile.
                self._drop(worker)
                continue
            del self._waiting[worker]
            self._holder.update(dict.fromkeys(places, worker))
            self._held[worker] = places
            self._since[worker] = self._latest
