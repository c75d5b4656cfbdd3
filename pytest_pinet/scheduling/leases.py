"""Which worker holds which places, told from what workers were given and have finished, without asking them."""

from __future__ import annotations

from pytest_pinet.scheduling.work import Worker

_NONE: frozenset[str] = frozenset()


class Leases:
    """A worker takes all places of a test or none, in the order of asking, and keeps those that its next test needs."""

    def __init__(self) -> None:
        self._holder: dict[str, Worker] = {}
        self._held: dict[Worker, frozenset[str]] = {}
        self._waiting: dict[Worker, frozenset[str]] = {}
        self._since: dict[Worker, float] = {}
        self._latest = 0.0

    def ask(self, worker: Worker, places: frozenset[str], now: float) -> None:
        """A worker comes to a test that needs these places."""
        self._latest = now
        self._waiting[worker] = places
        self._grant()

    def release(self, worker: Worker, now: float, keep: frozenset[str] = _NONE) -> None:
        """A worker has finished a test; ``keep`` has the places that its next one needs."""
        self._latest = now
        self._since.pop(worker, None)
        self._drop(worker, keep)
        self._grant()

    def remove(self, worker: Worker) -> None:
        """A worker is gone, and with it all that it held and waited for."""
        self._waiting.pop(worker, None)
        self._since.pop(worker, None)
        self._drop(worker)
        self._grant()

    def since(self, worker: Worker) -> float | None:
        """Since when a worker has had the places of its first test; None while it waits for them."""
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
                # All or none: what it kept for this test, others may have meanwhile.
                self._drop(worker)
                continue
            del self._waiting[worker]
            self._holder.update(dict.fromkeys(places, worker))
            self._held[worker] = places
            self._since[worker] = self._latest
