"""Leases: all places of a combination or none.

labgrid has neither reservations of several places nor leases that expire. Here places are tried in sorted order; when
one is taken, all are given back before the next try, so no two runners can wait for each other. A place that a dead
process of this host still holds is taken back at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.identity import Identity

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0


class Leases:
    """The places that this process holds.

    ``on_wait`` is told what is waited for, about once a second; ``before_giving_back`` is called with places that must
    be left before they can be released.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        before_giving_back: Callable[[Iterable[str]], None],
        on_wait: Callable[[str], None],
    ) -> None:
        self._coordinator = coordinator
        self._before_giving_back = before_giving_back
        self._on_wait = on_wait
        self.held: set[str] = set()

    def acquire(self, places: Iterable[str], timeout_s: float) -> None:
        """Hold at least these places; what is held already stays held unless another runner is in the way.

        Raises LeaseError after ``timeout_s``, naming the place, its holder and since when it was waited for.
        """
        wanted = sorted(set(places))
        deadline = Deadline(timeout_s)
        started = last_told = time.monotonic()
        pause = FIRST_PAUSE_S
        while True:
            taken = self._try(wanted)
            if taken is None:
                return
            self.release(self.held)
            place, holder = taken
            waited = time.monotonic() - started
            if holder.is_sibling_of(self._coordinator.identity):
                # Another worker of this run: its tests have deadlines of their own, and end.
                deadline = Deadline(timeout_s)
            if deadline.expired:
                raise LeaseError(
                    f"waited {waited:.0f} s for place {place}, held by {holder}",
                    f"ask {holder.user} on {holder.host}, wait longer with --pinet-acquire-timeout, or: "
                    f"labgrid-client -x {self._coordinator.address} -p {place} release --kick",
                )
            if time.monotonic() - last_told >= 1.0 or pause == FIRST_PAUSE_S:
                last_told = time.monotonic()
                self._on_wait(
                    f"waiting for place {place}: held by {holder} for {waited:.0f} s (timeout {timeout_s:.0f} s)"
                )
            # Jitter, so that two runners that met once do not meet again and again.
            time.sleep(min(pause * random.uniform(0.5, 1.5), deadline.remaining_s))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _try(self, wanted: list[str]) -> tuple[str, Identity] | None:
        """Take what is missing; the first place that somebody else has, or None when all are held."""
        self._coordinator.sync()
        for place in wanted:
            if place in self.held:
                continue
            holder = self._coordinator.holder(place)
            if holder is not None and holder.is_dead:
                self._coordinator.release(place, holder)
                holder = None
            if holder is None and self._coordinator.acquire(place):
                self.held.add(place)
                continue
            self._coordinator.sync()
            return place, holder or self._coordinator.holder(place) or Identity("unknown", "unknown")
        self._coordinator.sync()
        return None

    def check(self, places: Iterable[str]) -> None:
        """Make sure that these places are still ours. Raises LeaseError (or CoordinatorError) when one was lost."""
        self._coordinator.sync()
        for place in places:
            holder = self._coordinator.holder(place)
            if holder != self._coordinator.identity:
                self.held.discard(place)
                now = f"now held by {holder}" if holder else "now held by nobody: did the coordinator restart?"
                raise LeaseError(f"place {place} was lost during the test, {now}", "run the test again")

    def lost(self, places: Iterable[str]) -> set[str]:
        """Those of these places that are not ours (any more): nobody may touch what belongs to them.

        A coordinator that does not answer has given them to nobody else, so they count as ours.
        """
        try:
            self._coordinator.sync()
        except CoordinatorError:
            return set()
        gone = {place for place in places if not self._is_ours(place)}
        self.held -= gone
        return gone

    def _is_ours(self, place: str) -> bool:
        try:
            return self._coordinator.holder(place) == self._coordinator.identity
        except LeaseError:
            # Somebody deleted the place.
            return False

    def release(self, places: Iterable[str]) -> None:
        """Leave and give back these places, as far as they are held. All are tried; then the first error is raised."""
        errors: list[Exception] = []
        leaving = sorted(self.held & set(places))
        if leaving:
            self._before_giving_back(leaving)
        for place in leaving:
            self.held.discard(place)
            try:
                self._coordinator.release(place, self._coordinator.identity)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
