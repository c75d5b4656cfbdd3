"""The planner as xdist asks for it: a scheduler that feeds workers one test at a time.

A worker runs a test only when it has been told the next one, or that there is none; so each has two tests pending, or
has been shut down, or waits with none for others to finish.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from xdist.scheduler import LoadScheduling

from pytest_pinet.scheduling.plan import Job
from pytest_pinet.scheduling.planner import Planner

ENOUGH = 2


class PlannedScheduling(LoadScheduling):  # type: ignore[misc]  # xdist is not in this environment for users without it
    """Plans when the tests that were collected need a lab, and is xdist's own ``load`` when none does.

    ``jobs_of`` turns the collected node ids into jobs, or None when none of them needs a lab.
    """

    def __init__(
        self,
        config: Any,
        log: Any,
        jobs_of: Callable[[Sequence[str]], list[Job] | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, log)
        self._jobs_of = jobs_of
        self._clock = clock
        self._jobs: list[Job] = []
        self._planner: Planner | None = None

    @property
    def nodes(self) -> list[Any]:
        """All workers."""
        return super().nodes if self._planner is None else list(self._planner.workers)

    @property
    def tests_finished(self) -> bool:
        """Whether every worker may be told that nothing more comes."""
        if self._planner is None:
            return bool(super().tests_finished)
        return self._planner.unassigned == 0 and all(
            len(self._planner.pending(worker)) < ENOUGH for worker in self._planner.workers
        )

    @property
    def has_pending(self) -> bool:
        """Whether anything is still to be run."""
        if self._planner is None:
            return bool(super().has_pending)
        return self._planner.unassigned > 0 or any(self._planner.pending(w) for w in self._planner.workers)

    def add_node(self, node: Any) -> None:
        """A worker has started; it is given tests once it has collected."""
        super().add_node(node)

    def schedule(self) -> None:
        """All workers have collected, or another one has."""
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
            # A replacement is in ``node2collection`` only when it has collected the same.
            if node in self.node2collection and node not in self._planner.workers:
                self._planner.add_worker(node)
        self._feed_all()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """A worker has finished a test, and runs the next one as soon as it knows another."""
        if self._planner is None:
            super().mark_test_complete(node, item_index, duration)
            return
        self._planner.done(node, item_index, self._clock())
        self._feed(node)
        # Its nodes may be free now for those that wait with nothing.
        for other in self._planner.workers:
            if not self._planner.pending(other):
                self._feed(other)

    def mark_test_pending(self, item: str) -> None:
        """Run a test again that a crash cut short (pytest-rerunfailures asks for it)."""
        if self._planner is None:
            super().mark_test_pending(item)
            return
        assert self.collection is not None
        self._planner.requeue(self._jobs[self.collection.index(item)])
        self._feed_all()

    def remove_node(self, node: Any) -> str | None:
        """A worker has ended; returns the test that it was running when it died, and gives the others away."""
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
        # One test each in turn, so that the first worker does not take what the others could begin with.
        workers = self._planner.workers
        for worker in workers:
            if not self._planner.pending(worker):
                self._give(worker)
        for worker in workers:
            self._feed(worker)

    def _feed(self, node: Any) -> None:
        """Give a worker what lets it go on; without anything more for it, let it end when it has done what it has."""
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
