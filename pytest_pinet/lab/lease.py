"""Leases: all places of a combination or none.

labgrid has neither reservations of several places nor leases that expire. Here places are acquired in sorted order. If
one is taken, all are given back before the next try, so no two runners can wait for each other. A place of a dead
process on this host is taken back at once. A place of a dead process on another host is taken back when its heartbeat
has stopped (``labgrid/identity``, ``board_locks``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from pytest_pinet.config import labfile
from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.errors import CoordinatorError, LeaseError, SshError
from pytest_pinet.lab.board_locks import BoardLocks
from pytest_pinet.lab.contention import Patience
from pytest_pinet.lab.labgrid.coordinator import RETURN_TIMEOUT_S, Coordinator, address_of
from pytest_pinet.lab.labgrid.identity import Holding, Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.places import Places, agent_of
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
# A random pause, so that two runners that wait for the same place do not collide again and again.
JITTER_S = 0.05
# Longer than the lock of a dead process on another machine lasts, and shorter than the longest test.
TRIAL_LOCK_TIMEOUT_S = 120.0
# A board that has to answer for its lease, and that has no known holder, may just reboot.
SILENT_S = 60.0


@dataclass(frozen=True)
class _Obstacle:
    """Why a place cannot be acquired now: another process holds it, its exporter is away, or its board is silent."""

    place: str
    holding: Holding | None = None
    exporter: str | None = None
    silence: SshError | None = None

    def __str__(self) -> str:
        if self.exporter is not None:
            return f"exporter {self.exporter} of place {self.place} is not connected"
        if self.silence is not None and self.holding is None:
            return self.silence.message
        return f"held by {self.holding or 'an unknown user'}"


class Leases:
    """The places that this process holds.

    ``on_wait`` is called about once a second with a text about what is waited for. ``before_giving_back`` is called
    with the places that are about to be released; it must leave their nodes.
    """

    def __init__(
        self,
        places: Places,
        before_giving_back: Callable[[Iterable[str]], None],
        on_wait: Callable[[str], None],
    ) -> None:
        self._places = places
        self._before_giving_back = before_giving_back
        self._on_wait = on_wait
        self.held: set[str] = set()
        self._leased_at: dict[str, float] = {}
        # The resources of each place when it was last leased.
        self._resources: dict[str, frozenset[tuple[str, ...]]] = {}
        # Places held across a restart of the coordinator; these leases have no resources.
        self._stale: set[str] = set()
        # Places not yet given back, because the coordinator was away.
        self._owed: set[str] = set()

    def acquire(self, places: Iterable[str], timeout_s: float) -> None:
        """Hold at least these places. Places already held stay held unless another runner holds one of the others.

        Raises LeaseError after ``timeout_s`` (as ``Patience`` counts), naming the place, its holder and since when it
        is held; CoordinatorError when the coordinator or an exporter that went away does not come back;
        SshError when a board that must answer for its lease does not.
        """
        wanted = sorted(set(places))
        self.resume(wait=True)
        # Places that are held without their resources are acquired again with them.
        for place in sorted(self.held & set(wanted)):
            if place in self._stale or self._lost_exporter(place) is not None:
                self._places.release(place, self._places.identity)
                self.held.discard(place)
            self._stale.discard(place)
        patience = Patience(timeout_s)
        reported_at = time.monotonic()
        pause = FIRST_PAUSE_S
        while True:
            obstacle = self._try(wanted)
            if obstacle is None:
                return
            self.release(self.held)
            self._raise_if_too_long(obstacle, patience)
            if time.monotonic() - reported_at >= 1.0 or pause == FIRST_PAUSE_S:
                reported_at = time.monotonic()
                self._on_wait(f"waiting for place {obstacle.place}: {obstacle} ({patience.progress})")
            # A change of a place ends the wait at once. Polling finds what the coordinator does not report, such as the
            # death of a process on this host.
            self._places.await_change(min(pause, patience.remaining_s))
            time.sleep(random.uniform(0, JITTER_S))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def acquire_free(self, places: Iterable[str]) -> dict[str, Holding | LeaseError | SshError]:
        """Acquire the places that are free now; for each other place, return its holding or the error of the refusal.

        Does not wait, and so gives no place back. Raises CoordinatorError.
        """
        missing: dict[str, Holding | LeaseError | SshError] = {}
        for place in sorted(set(places)):
            try:
                obstacle = self._try([place])
            except LeaseError as error:
                missing[place] = error
                continue
            if obstacle is not None:
                refused = LeaseError(f"place {place} cannot be acquired: {obstacle}")
                missing[place] = obstacle.holding or obstacle.silence or refused
        return missing

    def _raise_if_too_long(self, obstacle: _Obstacle, patience: Patience) -> None:
        place, exporter = obstacle.place, obstacle.exporter
        holder = obstacle.holding.holder if obstacle.holding else None
        patience.look(f"{place} {obstacle}", holder is not None and holder.is_sibling_of(self._places.identity))
        if exporter is not None:
            left_at = self._places.left_at(exporter)
            gone_s = patience.waited_s if left_at is None else time.monotonic() - left_at
            if gone_s > RETURN_TIMEOUT_S or patience.over:
                raise CoordinatorError(
                    f"the labgrid exporter {exporter} of place {place} went away {gone_s:.0f} s ago and is not back",
                    f"the lab's admin: start labgrid-exporter -c {self._places.address} -n {exporter} again",
                )
        elif obstacle.silence is not None and obstacle.holding is None:
            if patience.over or patience.waited_s > SILENT_S:
                raise obstacle.silence
        elif patience.hangs:
            raise LeaseError(
                f"waited {patience.sibling_s:.0f} s for place {place}, {obstacle}, a worker of this run, "
                "which never released this place",
                "check whether a test of that worker hangs; if its tests need the place for so long, increase "
                "--pinet-acquire-timeout",
            )
        elif patience.over:
            raise LeaseError(
                f"waited {patience.waited} for place {place}, {obstacle}",
                (f"ask {obstacle.holding.whom}, " if obstacle.holding else "")
                + f"increase --pinet-acquire-timeout, or: {self._places.way_to_release(place)}",
            )

    def _try(self, wanted: list[str]) -> _Obstacle | None:
        """Acquire the missing places. Return the obstacle at the first place that cannot be acquired, or None."""
        self._places.sync()
        for place in wanted:
            if place in self.held:
                continue
            missing = [path for path in self._resources.get(place, ()) if not self._places.offered(path)]
            if missing:
                # If acquired now, the lease would not include these resources.
                return _Obstacle(place, exporter=missing[0][0])
            holding = self._places.holding(place)
            if holding is not None and holding.holder.is_dead:
                self._places.release(place, holding.holder)
                holding = None
            if holding is None:
                # Noted before the coordinator answers, so that an interruption leaves nothing behind.
                self.held.add(place)
                if self._acquired(place):
                    self._leased_at[place] = time.monotonic()
                    continue
            self._places.sync()
            holding = holding or self._places.holding(place)
            return _Obstacle(place, holding, silence=self._places.silence(place))
        self._places.sync()
        for place in wanted:
            self._resources[place] = self._places.resources(place) or self._resources.get(place, frozenset())
        return None

    def _acquired(self, place: str) -> bool:
        try:
            done = self._places.acquire(place)
        except LeaseError:
            self.held.discard(place)
            raise
        if not done:
            self.held.discard(place)
        return done

    def resume(self, wait: bool) -> None:
        """Reconnect after the coordinator was away.

        Held places are acquired again if they are free; owed places are released. Raises CoordinatorError while the
        coordinator is away; with ``wait`` only after RETURN_TIMEOUT_S.
        """
        if not self._places.lost:
            return
        self._places.reconnect(wait)
        self._stale |= self.held
        for place in sorted(self.held):
            # While we hold the place, no other process can acquire it before its node is left as it was found.
            with suppress(LeaseError):
                if self._places.holder(place) is None:
                    self._places.acquire(place)
        for place in sorted(self._owed):
            self._places.release(place, self._places.identity)
        self._owed.clear()
        self._places.sync()

    def _lost_exporter(self, place: str) -> str | None:
        """Return an exporter of this place that went away since the lease began, or None."""
        # The exporter may be back, but then its resources are not leased.
        for exporter in sorted({path[0] for path in self._resources.get(place, ())}):
            when = self._places.left_at(exporter)
            if when is not None and when > self._leased_at.get(place, when):
                return exporter
        return None

    def check(self, places: Iterable[str]) -> None:
        """Check that these places are still ours. Raises LeaseError (or CoordinatorError) when one was lost."""
        self._places.sync()
        for place in places:
            holder = self._places.holder(place)
            if holder != self._places.identity:
                self.held.discard(place)
                now = (
                    f"and is held by {holder}" if holder else "and no user holds it: the coordinator may have restarted"
                )
                raise LeaseError(f"place {place} was lost during the test, {now}", "run the test again")
            if place in self._stale:
                raise CoordinatorError(
                    f"the labgrid coordinator at {self._places.address} was away during the test",
                    "run the test again; the lab's admin: find out why it restarted",
                )
            if (exporter := self._lost_exporter(place)) is not None:
                raise CoordinatorError(
                    f"the labgrid exporter {exporter} of place {place} went away during the test",
                    "run the test again; the lab's admin: check that labgrid-exporter runs there",
                )

    def lost(self, places: Iterable[str]) -> set[str]:
        """Return the places that are not ours any more: their nodes and ports must not be touched.

        A coordinator that does not answer has given the places to no other process, so they count as ours.
        """
        try:
            self.resume(wait=False)
            self._places.sync()
        except CoordinatorError:
            return set()
        gone = {place for place in places if not self._is_ours(place)}
        self.held -= gone
        return gone

    def _is_ours(self, place: str) -> bool:
        try:
            return self._places.holder(place) == self._places.identity
        except LeaseError:
            # The place was deleted.
            return False

    def release(self, places: Iterable[str]) -> None:
        """Leave and release these places, if they are held. All are tried; then the first error is raised.

        If the coordinator is away, the places are released when it is back.
        """
        errors: list[Exception] = []
        leaving = sorted(self.held & set(places))
        if leaving:
            self._before_giving_back(leaving)
        for place in leaving:
            try:
                self._hand_back(place)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _hand_back(self, place: str) -> None:
        self.held.discard(place)
        self._stale.discard(place)
        try:
            self._places.release(place, self._places.identity)
        except CoordinatorError:
            self._owed.add(place)

    def settle(self) -> None:
        """Release the places that are still owed. Raises CoordinatorError naming them while the coordinator is away."""
        if not self._owed:
            return
        owed = ", ".join(sorted(self._owed))
        try:
            self.resume(wait=False)
        except CoordinatorError as error:
            raise CoordinatorError(f"could not release place {owed}: {error.message}", error.act) from error

    @contextmanager
    def also(self, place: str, timeout_s: float) -> Iterator[None]:
        """Hold one more place for the block, such as a contention domain's, and keep the places that are held.

        This cannot deadlock: the holder of such a place never waits for nodes. Raises LeaseError.
        """
        patience = Patience(timeout_s)
        while (obstacle := self._try([place])) is not None:
            self._raise_if_too_long(obstacle, patience)
            self._on_wait(f"waiting for place {place}: {obstacle} ({patience.progress})")
            self._places.await_change(min(1.0, patience.remaining_s))
        try:
            yield
        finally:
            self._hand_back(place)


class TrialLocks:
    """The locks on boards that boot builds for a trial: its guard reads them, and each command compares them.

    In a lab without a coordinator they are the leases. In a lab with one, a board without power control gets a lock
    before its first trial, and loses it when the board is given back. ``targets`` makes the target of each node.
    """

    def __init__(self, places: Places, targets: Targets, on_wait: Callable[[str], None]) -> None:
        self._targets = targets
        self._are_leases = isinstance(places, BoardLocks)
        self._locks = places if isinstance(places, BoardLocks) else BoardLocks(places.identity, {})
        self._leases = Leases(self._locks, lambda _: None, on_wait)

    def fence(self, node: Node) -> str:
        """Return the start of each command line on this board; empty if this process does not hold its lock."""
        return self._locks.fence(node.place)

    def hold(self, node: Node, shell: SshShell) -> None:
        """Take the lock on a board before a trial; ``shell`` compares its owner then. Raises LeaseError, SshError."""
        if self._are_leases or node.place in self._leases.held:
            return
        self._locks.add(node.place, agent_of(node, self._targets))
        self._leases.acquire([node.place, *self._leases.held], TRIAL_LOCK_TIMEOUT_S)
        shell.fence_with(self.fence(node))

    def leave_to_guard(self, node: Node) -> None:
        """End the heartbeat of a board that could not be rebooted: the guard of a trial reboots it."""
        self._locks.leave_to_guard(node.place)

    def release(self, places: Iterable[str]) -> None:
        """Remove the locks that are no leases. Raises LeaseError."""
        self._leases.release(places)

    def close(self) -> None:
        """End the connections to boards whose locks are no leases."""
        if not self._are_leases:
            self._locks.close()


def free_places_of(worker: str, run: str, lab_file: str, own: Identity) -> list[str]:
    """Release every place that this worker of this run holds; return the names of the places.

    ``own`` is the identity of the caller, for a separate session. Raises CoordinatorError or LeaseError.
    """
    from labgrid import Environment

    if not labfile.load(lab_file).has_coordinator:
        # The next process that wants one of its boards finds the worker dead, and takes the board at once.
        return []
    with closing(Coordinator(address_of(Environment(str(lab_path(lab_file)))), own)) as coordinator:
        coordinator.sync()
        freed = []
        for place in coordinator.places():
            holder = coordinator.holder(place)
            if holder is not None and holder.is_worker(worker, run):
                coordinator.release(place, holder)
                freed.append(place)
        return freed
