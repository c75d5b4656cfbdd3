"""The planner's state during a run: the tests that are left, and the tests and places that each worker has."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from pytest_pinet.scheduling.plan import Needs, PlannedTest

Worker = Hashable
_NONE: frozenset[str] = frozenset()


@dataclass(eq=False)
class Group:
    """Tests with the same needs that no worker has got yet. ``owner`` is the worker that has begun the group."""

    needs: Needs
    number: int
    jobs: deque[PlannedTest] = field(default_factory=deque)
    total_s: float = 0.0
    owner: Worker | None = None


@dataclass(eq=False)
class Load:
    """The unfinished tests of a worker, in order. ``since``: begin of the first. ``ended``: it gets no more tests."""

    pending: deque[PlannedTest] = field(default_factory=deque)
    since: float = 0.0
    ended: bool = False


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
