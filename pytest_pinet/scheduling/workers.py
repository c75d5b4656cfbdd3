"""Connects the planner to xdist: a scheduler that gives workers one test at a time.

A worker runs a test only when it knows the next one, or knows that there is none. So each worker has two tests pending,
or is shutting down, or waits without a test until others have finished. The planner keeps the tests of the same boards
on one worker, because a worker holds the leases of its boards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from xdist.scheduler import LoadScheduling

from pytest_pinet.scheduling.planner import PlannedTest, Planner

ENOUGH = 2


class PlannedScheduling(LoadScheduling):  # type: ignore[misc]  # xdist has no type information
    """Plans the tests. If none needs a lab (``jobs_of`` returns None), it is xdist's own ``load`` scheduler."""

    def __init__(
        self,
        config: Any,
        log: Any,
        jobs_of: Callable[[Sequence[str]], list[PlannedTest] | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, log)
        self._jobs_of = jobs_of
        self._clock = clock
        self._jobs: list[PlannedTest] = []
        self._planner: Planner | None = None

    @property
    def nodes(self) -> list[Any]:
        return super().nodes if self._planner is None else list(self._planner.workers)

    @property
    def tests_finished(self) -> bool:
        """Return whether every worker can be shut down after its pending tests."""
        if self._planner is None:
            return bool(super().tests_finished)
        return self._planner.unassigned == 0 and all(
            len(self._planner.pending(worker)) < ENOUGH for worker in self._planner.workers
        )

    @property
    def has_pending(self) -> bool:
        if self._planner is None:
            return bool(super().has_pending)
        return self._planner.unassigned > 0 or any(self._planner.pending(w) for w in self._planner.workers)

    def schedule(self) -> None:
        """Start or continue the run: all workers have collected, or a further one has."""
        if self._planner is None and self.collection is None:
            jobs = self._jobs_of(next(iter(self.node2collection.values())))
            if jobs is None:
                super().schedule()
                return
            if not self._check_nodes_have_same_collection():
                self.log("**Different tests collected, aborting run**")
                return
            self.collection: list[str] | None = next(iter(self.node2collection.values()))
            self._jobs, self._planner = jobs, Planner(jobs)
        if self._planner is None:
            super().schedule()
            return
        for node in self.node2pending:
            # ``node2collection`` has a replacement worker only if it collected the same tests.
            if node in self.node2collection and node not in self._planner.workers:
                self._planner.add_worker(node)
        self._feed_all()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note a finished test. The worker runs its next one as soon as it knows another."""
        if self._planner is None:
            super().mark_test_complete(node, item_index, duration)
            return
        self._planner.done(node, item_index, self._clock())
        self._feed(node)
        # The boards of this test may be free now for workers that wait without a test.
        for other in self._planner.workers:
            if not self._planner.pending(other):
                self._feed(other)

    def mark_test_pending(self, item: str) -> None:
        """Run a test again that a crash interrupted (for pytest-rerunfailures)."""
        if self._planner is None:
            super().mark_test_pending(item)
            return
        assert self.collection is not None
        self._planner.requeue(self._jobs[self.collection.index(item)])
        self._feed_all()

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker that ended. Return the test that it ran when it died, and free its other tests."""
        if self._planner is None or node not in self._planner.workers:
            crashed: str | None = super().remove_node(node)
            return crashed
        self.node2pending.pop(node)
        lost = self._planner.remove_worker(node)
        for job in reversed(lost[1:]):
            self._planner.requeue(job)
        self._feed_all()
        assert self.collection is not None
        return self.collection[lost[0].index] if lost else None

    def _feed_all(self) -> None:
        assert self._planner is not None
        # One test for each worker in turn, so that the first worker does not take tests that others could begin with.
        workers = self._planner.workers
        for worker in workers:
            if not self._planner.pending(worker):
                self._give(worker)
        for worker in workers:
            self._feed(worker)

    def _feed(self, node: Any) -> None:
        """Give a worker the tests that it needs to go on. If there are none, shut it down after its pending tests."""
        assert self._planner is not None
        if node.shutting_down:
            return
        while len(self._planner.pending(node)) < ENOUGH:
            if not self._give(node):
                if self._planner.pending(node) or not self._planner.unassigned:
                    node.shutdown()
                return

    def _give(self, node: Any) -> bool:
        assert self._planner is not None
        if node.shutting_down:
            return False
        job = self._planner.next(node, self._clock())
        if job is not None:
            node.send_runtest_some([job.index])
        return job is not None
