"""Simulates xdist's workers in simulated time, with the scheduler of a real run.

A simulated worker follows xdist's rules: it runs a test only if it knows the next one, or knows that there is none. A
test first waits for its places (all or none), works, waits for its domains in order of arrival, measures, and works
again. The worker keeps the places for its next test, as a real one does.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations
from types import SimpleNamespace
from typing import Any

from pytest_pinet.scheduling.planner import Needs, PlannedTest
from pytest_pinet.scheduling.workers import PlannedScheduling


@dataclass(frozen=True)
class Outcome:
    """The duration of a simulated run (s), and the processor time (s) of the scheduler, which never waits."""

    makespan_s: float
    decisions: int
    decision_s: float
    longest_decision_s: float
    order: tuple[tuple[int, str], ...]


class _Worker:
    """xdist's WorkerController, together with the worker behind it."""

    def __init__(self, name: str, run: _Run) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.queue: deque[int] = deque()
        self.running: int | None = None
        self.dead = False
        self._run = run

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down, "xdist does not take tests after a shutdown"
        self.queue.extend(indices)
        self._run.at(0.0, self.start)

    def shutdown(self) -> None:
        self.shutting_down = True
        self._run.at(0.0, self.start)

    def start(self) -> None:
        if self.dead or self.running is not None or not self.queue or (len(self.queue) < 2 and not self.shutting_down):
            return
        self.running = self.queue.popleft()
        self._run.lease(self)


@dataclass
class _Run:
    jobs: Sequence[PlannedTest]
    actual: Mapping[int, tuple[float, float]]
    now: float = 0.0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    held: dict[str, _Worker] = field(default_factory=dict)
    waiting: list[_Worker] = field(default_factory=list)
    measuring: dict[str, _Worker] = field(default_factory=dict)
    queued: list[_Worker] = field(default_factory=list)
    order: list[tuple[int, str]] = field(default_factory=list)
    crew: list[_Worker] = field(default_factory=list)
    scheduler: Any = None
    times: list[float] = field(default_factory=list)
    _number: int = 0

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self.events, (self.now + delay_s, self._number, action))

    def _job(self, worker: _Worker) -> PlannedTest:
        assert worker.running is not None
        return self.jobs[worker.running]

    def lease(self, worker: _Worker) -> None:
        self.waiting.append(worker)
        self._grant_places()

    def _grant_places(self) -> None:
        for worker in list(self.waiting):
            places = self._job(worker).needs.places
            if any(self.held.get(place, worker) is not worker for place in places):
                # All or none: while this worker waits, others may have the places it kept.
                for place in [p for p, holder in self.held.items() if holder is worker]:
                    del self.held[place]
                continue
            self.waiting.remove(worker)
            self.held.update(dict.fromkeys(places, worker))
            self.order.append((self._job(worker).index, worker.gateway.id))
            total_s, traffic_s = self.actual[self._job(worker).index]
            self.at((total_s - traffic_s) / 2, lambda w=worker: self._enter(w))  # type: ignore[misc]

    def _enter(self, worker: _Worker) -> None:
        if not worker.dead:
            self.queued.append(worker)
            self._grant_domains()

    def _grant_domains(self) -> None:
        claimed: set[str] = set()
        for worker in list(self.queued):
            domains = self._job(worker).needs.domains
            if not (domains & self.measuring.keys() or domains & claimed):
                self.queued.remove(worker)
                self.measuring.update(dict.fromkeys(domains, worker))
                self.at(self.actual[self._job(worker).index][1], lambda w=worker: self._leave(w))  # type: ignore[misc]
            claimed |= domains

    def _leave(self, worker: _Worker) -> None:
        if worker.dead:
            return
        for domain in self._job(worker).needs.domains:
            del self.measuring[domain]
        self._grant_domains()
        total_s, traffic_s = self.actual[self._job(worker).index]
        self.at((total_s - traffic_s) / 2, lambda: self._finish(worker))

    def _finish(self, worker: _Worker) -> None:
        if worker.dead:
            return
        index, worker.running = worker.running, None
        kept = self.jobs[worker.queue[0]].needs.places if worker.queue else frozenset()
        for place in [p for p, holder in self.held.items() if holder is worker and p not in kept]:
            del self.held[place]
        self._grant_places()
        self.timed(lambda: self.scheduler.mark_test_complete(worker, index))
        worker.start()

    def kill(self, worker: _Worker) -> None:
        """Let a worker die. Its places, domains and tests are released, except the test that it ran.

        xdist starts another worker instead.
        """
        worker.dead = True
        for owned in (self.held, self.measuring):
            for name in [n for n, holder in owned.items() if holder is worker]:
                del owned[name]
        for line in (self.waiting, self.queued):
            if worker in line:
                line.remove(worker)
        self.timed(lambda: self.scheduler.remove_node(worker))
        self._grant_places()
        self._grant_domains()
        self.hire(f"gw{len(self.crew)}")
        self.timed(self.scheduler.schedule)

    def hire(self, name: str) -> None:
        """Start a worker, which collects the tests."""
        worker = _Worker(name, self)
        self.crew.append(worker)
        self.scheduler.add_node(worker)
        self.scheduler.add_node_collection(worker, [str(job.index) for job in self.jobs])

    def timed(self, decide: Callable[[], object]) -> None:
        started = time.thread_time()
        decide()
        self.times.append(time.thread_time() - started)


def simulate(
    jobs: Sequence[PlannedTest],
    workers: int,
    actual: Mapping[int, tuple[float, float]] | None = None,
    kill_at_s: float | None = None,
) -> Outcome:
    """Simulate a run of all jobs. ``actual`` has total and traffic seconds by index, if they differ from the estimates.

    At ``kill_at_s`` the first worker dies. ``order`` of the outcome has the index of each started job and its worker's
    name.
    """
    run = _Run(jobs, actual or {job.index: (job.total_s, job.traffic_s) for job in jobs})
    options = {"tx": [f"{workers}*popen"], "maxschedchunk": None}
    config: Any = SimpleNamespace(getvalue=options.get, getoption=options.get)
    run.scheduler = PlannedScheduling(config, None, lambda _: list(jobs), clock=lambda: run.now)
    for number in range(workers):
        run.hire(f"gw{number}")
    run.timed(run.scheduler.schedule)
    if kill_at_s is not None:
        run.at(kill_at_s, lambda: run.kill(run.crew[0]))
    last_s = 0.0
    while run.events:
        run.now, _, action = heapq.heappop(run.events)
        action()
        if run.scheduler.tests_finished:
            for worker in run.crew:
                if not worker.shutting_down and not worker.dead:
                    worker.shutdown()
        if any(worker.running is not None for worker in run.crew if not worker.dead):
            last_s = run.now
    assert not run.scheduler.has_pending, "tests were left"
    return Outcome(run.now if kill_at_s is None else last_s, len(run.times), sum(run.times), max(run.times),
                   tuple(run.order))  # fmt: skip


def shortest(jobs: Sequence[PlannedTest], actual: Mapping[int, tuple[float, float]], workers: int) -> float:
    """Return the makespan (s) with the best order of combinations, for labs of at most six.

    A worker runs all tests of a combination one after another, in their order; a real run may change that order, and so
    can be a little quicker. All orders are simulated, each cut into parts for the workers in every way.
    """
    groups: dict[Needs, list[int]] = {}
    for job in jobs:
        groups.setdefault(job.needs, []).append(job.index)
    assert len(groups) <= 6, "too many combinations to try all orders"
    return min(
        _fixed(jobs, actual, [[i for group in order[a:b] for i in group] for a, b in pairwise((0, *cuts, len(groups)))])
        for order in permutations(groups.values())
        for cuts in combinations(range(len(groups) + 1), workers - 1)
    )


def _fixed(
    jobs: Sequence[PlannedTest], actual: Mapping[int, tuple[float, float]], plans: Sequence[Sequence[int]]
) -> float:
    """Return the makespan (s) if each worker runs the tests of its plan, in order."""
    run = _Run(jobs, actual, scheduler=SimpleNamespace(mark_test_complete=lambda *_: None))
    for number, plan in enumerate(plans):
        worker = _Worker(f"gw{number}", run)
        worker.queue.extend(plan)
        run.crew.append(worker)
        worker.shutdown()
    while run.events:
        run.now, _, action = heapq.heappop(run.events)
        action()
    return run.now
