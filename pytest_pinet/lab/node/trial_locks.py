"""The locks on boards that boot builds for a trial: the guard of a trial reads them, and each command compares them.

In a lab without a coordinator they are the leases. In a lab with one, a board without power control gets a lock before
its first trial, and loses it when the board is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pytest_pinet.lab.board_lock.locks import BoardLocks
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.places import Places, agent_of

# Longer than the lock of a dead process on another machine lasts, and shorter than the longest test.
TIMEOUT_S = 120.0


class TrialLocks:
    """``places`` keeps the leases of the lab. ``targets`` makes the target of each node."""

    def __init__(self, places: Places, targets: Targets, on_wait: Callable[[str], None]) -> None:
        self._targets = targets
        self._are_leases = isinstance(places, BoardLocks)
        self._locks = places if isinstance(places, BoardLocks) else BoardLocks(places.identity, {})
        self._leases = Leases(self._locks, lambda _: None, on_wait)

    def attach(self, session: NodeSession) -> None:
        """Make a session lock its board before a trial, and compare the owner of the lock in each command."""
        session.login.fence = lambda: self._locks.fence(session.node.place)
        session.lock_for_trial = lambda: self._hold(session)

    def _hold(self, session: NodeSession) -> None:
        place = session.node.place
        if self._are_leases or place in self._leases.held:
            return
        self._locks.add(place, agent_of(session.node, self._targets))
        self._leases.acquire([place, *self._leases.held], TIMEOUT_S)
        session.shell.fence = self._locks.fence(place)

    def leave_to_guard(self, session: NodeSession) -> None:
        """End the heartbeat of a board that could not be rebooted: the guard of a trial reboots it."""
        self._locks.leave_to_guard(session.node.place)

    def release(self, places: Iterable[str]) -> None:
        """Remove the locks that are no leases. Raises LeaseError."""
        self._leases.release(places)

    def close(self) -> None:
        """End the connections to boards whose locks are no leases."""
        if not self._are_leases:
            self._locks.close()
