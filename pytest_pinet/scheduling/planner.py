"""Plans which worker runs which test next, from the needs and the expected seconds of each test."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from pytest_pinet.execution.files import write_file
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.results_file import read_whole_run, results_in

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
    write_file(folder / FILE, [json.dumps(tests).encode()])


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
    """Estimates by node ID, from the latest run of each test.

    A test that did not run gets the median of its function with other parameters, or else that of all tests.
    """

    def __init__(self, known: Mapping[str, Estimate]) -> None:
        super().__init__(known)
        self._usual = _typical(list(known.values()))
        functions = grouped((_function(nodeid), one) for nodeid, one in known.items())
        self._functions = {function: _typical(each) for function, each in functions.items()}

    @classmethod
    def of_earlier_runs(cls, runs: Path) -> Estimates:
        """Read the results of the latest runs below this folder. The latest result of each test counts."""
        known: dict[str, Estimate] = {}
        for file in sorted(runs.glob("*/results.jsonl"), reverse=True)[:_LATEST_RUNS]:
            known = _read(file) | known
        return cls(known)

    def __missing__(self, nodeid: str) -> Estimate:
        return self._functions.get(_function(nodeid), self._usual)

    def total_s(self, nodeid: str, first_s: float) -> float:
        """Return the duration of a test; ``first_s`` if its function has never run."""
        return self[nodeid].total_s if _function(nodeid) in self._functions else first_s


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _typical(each: Sequence[Estimate]) -> Estimate:
    if not each:
        return Estimate(DEFAULT_TOTAL_S, DEFAULT_TRAFFIC_S)
    return Estimate(median([one.total_s for one in each]), median([one.traffic_s for one in each]))


def skipped_before(runs: Path, names: Collection[str]) -> dict[str, str]:
    """Return the reason for each of these tests that its latest run skipped. The names are those after the file."""
    reasons: dict[str, str] = {}
    for file in sorted(runs.glob("*/results.json"), reverse=True)[:_LATEST_RUNS]:
        if reasons.keys() >= set(names):
            break
        if (run := read_whole_run(file)) is not None:
            ended = {one.test.rpartition("::")[2]: "" for one in run.results}
            reasons = {one.id: one.reason for one in run.skipped} | ended | reasons
    return {name: reasons[name] for name in names if reasons.get(name)}


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


# The weight of a crowded domain. Example: a worker would measure half of its time in a domain that is always busy (the
# shares add up to 1.5). A group on which the end of the run depends fully then ranks like one on which it depends half.
CROWD_COST = 1.0
NODE_WEIGHT = 0.2
# From this penalty on, a test that needs no lab runs first.
FULL = 0.5


class Planner:
    """Hands out tests. ``now`` is the caller's clock in seconds; only differences count."""

    def __init__(self, jobs: Sequence[PlannedTest]) -> None:
        self._groups: dict[Needs, Group] = {}
        self._fillers: deque[PlannedTest] = deque()
        self._loads: dict[Worker, Load] = {}
        # Seconds of work left for each place and domain.
        self._left: dict[str, float] = {}
        # Seconds of all work left, and of each domain's work if one worker did it.
        self._work_s = 0.0
        self._serial: dict[str, float] = {}
        # How many tests no worker has got yet.
        self.unassigned = 0
        for job in jobs:
            self._add(job)

    @property
    def workers(self) -> list[Worker]:
        return list(self._loads)

    def add_worker(self, worker: Worker) -> None:
        self._loads[worker] = Load()

    def pending(self, worker: Worker) -> list[PlannedTest]:
        """Return the tests that a worker has got and not finished, in its order."""
        return list(self._loads[worker].pending)

    def done(self, worker: Worker, index: int, now: float) -> None:
        self._weigh(self._loads[worker].finish(index, now), -1.0)

    def remove_worker(self, worker: Worker) -> list[PlannedTest]:
        """Remove a worker and free its group. Return its unfinished tests for ``requeue``, the running one first."""
        load = self._loads.pop(worker)
        for job in load.pending:
            self._weigh(job, -1.0)
        for group in self._groups.values():
            if group.owner is worker:
                group.leave()
        return list(load.pending)

    def requeue(self, job: PlannedTest) -> None:
        """Hand out this test again, before the other tests of its group."""
        self._add(job, first=True)

    def next(self, worker: Worker, now: float) -> PlannedTest | None:
        """Return the test after a worker's pending ones; None if there is none now. With pending tests it then ends."""
        group = self._own_group(worker)
        if group is None:
            group, filler = self._free_group(worker, now)
            if self._fillers and filler:
                return self._give(worker, self._fillers.popleft(), now)
            if group is None:
                return None
            group.begin(worker)
        assert group.jobs, "an exhausted group has no owner"
        return self._give(worker, group.take(), now)

    def _give(self, worker: Worker, job: PlannedTest, now: float) -> PlannedTest:
        self.unassigned -= 1
        self._loads[worker].add(job, now)
        return job

    def _own_group(self, worker: Worker) -> Group | None:
        pending = self._loads[worker].pending
        group = self._groups.get(pending[-1].needs) if pending else None
        if group is not None and group.owner is worker and group.jobs:
            return group
        return None

    def _free_group(self, worker: Worker, now: float) -> tuple[Group | None, bool]:
        """Choose an unowned group, and return whether a test that needs no lab should come before it.

        Among the groups whose nodes are free when this worker is, choose the most urgent one, less the expected waiting
        time for others of its domain. A worker that cannot wait gets the group that is free first.
        """
        load = self._loads[worker]
        free_s = load.ends(now)
        busy_until = self._busy_until(worker, now)
        shares = self._shares(worker)
        # No run ends earlier than its busiest node or domain, or than all of its workers together.
        rest_s = max(self._work_s / len(self._loads), max(self._left.values(), default=0.0), 1e-9)
        unowned = [group for group in self._groups.values() if group.jobs and group.owner is None]
        crowds = {
            domains: max([0.0, *(shares.get(domain, 0.0) + self._share(domain) - 1.0 for domain in domains)])
            for domains in {group.needs.domains for group in unowned}
        }

        def start(group: Group) -> float:
            return max(free_s, *(busy_until.get(place, 0.0) for place in group.needs.places))

        def rank(group: Group) -> tuple[float, float, float]:
            score = self._urgency(group) / rest_s - crowds[group.needs.domains] * CROWD_COST
            return score, self._priority(group), group.total_s

        best = max((group for group in unowned if start(group) == free_s), key=rank, default=None)
        if best is None and load.pending:
            return min(unowned, key=lambda group: (start(group), -self._priority(group)), default=None), True
        return best, best is None or crowds[best.needs.domains] >= FULL

    def _share(self, domain: str) -> float:
        """Return the share of its time in which a worker measures in this domain."""
        return self._left[_domain(domain)] / max(self._serial[domain], 1e-9)

    def _shares(self, worker: Worker) -> dict[str, float]:
        """Return, by domain, the sum of the shares of all other workers that are in a domain now."""
        shares: dict[str, float] = {}
        for other, load in self._loads.items():
            if other is not worker and load.pending:
                job = load.pending[-1]
                for domain in job.needs.domains:
                    shares[domain] = shares.get(domain, 0.0) + job.traffic_s / max(job.total_s, 1e-9)
        return shares

    def _urgency(self, group: Group) -> float:
        """Return how much the end of the run depends on a group (s): the work of its busiest node or domain.

        If the domain decides, its busiest node still goes first. Otherwise one worker would be left alone at the end.
        """
        domain_s = max((self._left[_domain(domain)] for domain in group.needs.domains), default=0.0)
        priority = self._priority(group)
        return max(priority, domain_s) + priority * NODE_WEIGHT

    def _priority(self, group: Group) -> float:
        """Return the work left on the group's busiest node."""
        return max(self._left[place] for place in group.needs.places)

    def _busy_until(self, worker: Worker, now: float) -> dict[str, float]:
        """Return when other workers will have finished with each place that they use."""
        until: dict[str, float] = {}
        for other, load in self._loads.items():
            if other is worker or not load.pending:
                continue
            end = now - min(now - load.since, load.pending[0].total_s)
            for job in load.pending:
                end += job.total_s
                # The rest of the worker's own group follows its last pending test.
                rest = self._groups[job.needs].total_s if job is load.pending[-1] and job.needs.places else 0.0
                for place in job.needs.places:
                    until[place] = max(until.get(place, 0.0), end + rest)
        return until

    def _add(self, job: PlannedTest, first: bool = False) -> None:
        self.unassigned += 1
        self._weigh(job, 1.0)
        if not job.needs.places:
            (self._fillers.appendleft if first else self._fillers.append)(job)
            return
        group = self._groups.get(job.needs)
        if group is None:
            group = self._groups[job.needs] = Group(job.needs)
        group.add(job, first)

    def _weigh(self, job: PlannedTest, sign: float) -> None:
        """Add a test to the work that is left (``sign`` 1), or remove it (-1)."""
        self._work_s += sign * job.total_s
        for place in job.needs.places:
            self._left[place] = self._left.get(place, 0.0) + sign * job.total_s
        for domain in job.needs.domains:
            self._left[_domain(domain)] = self._left.get(_domain(domain), 0.0) + sign * job.traffic_s
            self._serial[domain] = self._serial.get(domain, 0.0) + sign * job.total_s


def _domain(name: str) -> str:
    """Return a domain's key, which differs from the names of places."""
    return f"domain {name}"
