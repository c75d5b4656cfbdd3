"""The lock files of all boards of a lab, behind the same interface as labgrid's coordinator.

The place of a node is its board, whatever the lab file calls the node. The lock of a dead process of this host is
removed at once. The lock of a dead process of another host is removed when its heartbeat has not changed for
``DEAD_S``. Time in which the board does not answer does not count: a board may reboot while it is leased.
"""

from __future__ import annotations

import getpass
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from pytest_pinet.errors import LeaseError, SshError
from pytest_pinet.lab.labgrid.identity import BEAT_S, Holding, Identity, Watch
from pytest_pinet.lab.lock_agent import FOLDER, Agent, LockState, fence

# Longer than with a coordinator: after a reboot the holder needs some seconds to log in again.
DEAD_S = 30.0


class BoardLocks:
    """The places of a lab without a coordinator. ``agents`` has the agent of each place."""

    address = "this lab"
    lost = False
    dead_after_s = DEAD_S + 3 * BEAT_S

    def __init__(self, identity: Identity, agents: Mapping[str, Agent]) -> None:
        self.identity = identity
        self._agents: dict[str, Agent] = {}
        # The last known state of each lock, and the places that were looked at since the last ``sync``.
        self._known: dict[str, LockState] = {}
        self._fresh: set[str] = set()
        self._silent: dict[str, SshError] = {}
        self._looked: dict[str, float] = {}
        self._watches: dict[str, Watch] = {}
        self._hearts: dict[str, _Heart] = {}
        # The places whose locks stay after their release, because a trial still runs there.
        self._left: set[str] = set()
        # The owner's lines in locks that may be ours, but are not used: no answer, or Ctrl-C.
        self._owed: dict[str, str] = {}
        for place, agent in agents.items():
            self.add(place, agent)

    def add(self, place: str, agent: Agent) -> None:
        """Add a place, unless it is known."""
        if place not in self._agents:
            self._agents[place], self._watches[place] = agent, Watch(DEAD_S)

    def sync(self) -> None:
        """Make the next ``holding`` of each place ask its board."""
        self._fresh.clear()

    def reconnect(self, wait: bool) -> None:
        """Never called: no connection of all places can be lost."""

    def places(self) -> list[str]:
        return sorted(self._agents)

    def holder(self, place: str) -> Identity | None:
        """Return the holder of this place. Raises LeaseError if there is no such place, or the board refuses us."""
        holding = self.holding(place)
        return holding.holder if holding is not None else None

    def holding(self, place: str) -> Holding | None:
        """Return the holder of this place; the last known one if the board does not answer. Raises LeaseError."""
        if place not in self._fresh:
            self._request(place, "look")
        if place in self._silent and place in self._hearts:
            # A board that does not answer has given its lock to no other process.
            return Holding(self.identity, None)
        found = self._known_holding(place)
        if found is not None and found.holder == self.identity and place not in self._hearts:
            # It could not be removed, or was left to the guard of a trial: this process may take it again.
            return None
        return found

    def _known_holding(self, place: str) -> Holding | None:
        state = self._known.get(place)
        return Holding.of_line(state.owner) if state is not None else None

    def silence(self, place: str) -> SshError | None:
        """Return why the board does not answer; None if it answers."""
        return self._silent.get(place)

    def resources(self, place: str) -> frozenset[tuple[str, ...]]:
        """Return no resource: they are in the lab file and need no exporter."""
        return frozenset()

    def offered(self, path: tuple[str, ...]) -> bool:
        return True

    def left_at(self, exporter: str) -> float | None:
        return None

    def await_change(self, timeout_s: float) -> None:
        """Wait. A lock file reports no change."""
        time.sleep(timeout_s)

    def acquire(self, place: str) -> bool:
        """Try to acquire a place; return False if another process holds it. Raises LeaseError if the board refuses."""
        self.holding(place)
        held = self._known_holding(place)
        if place in self._silent:
            return False
        owner = f"{self.identity} {time.time():.0f} {getpass.getuser()}"
        if held is not None and held.holder == self.identity:
            # This process could not remove its lock, because the board did not answer.
            owner = self._known[place].owner
        # Before the board answers: after an interruption, `release` and `close` remove the lock. They leave a lock that
        # the guard of a trial needs.
        if place not in self._left:
            self._owed[place] = owner
        state = self._request(place, "take", 1, owner)
        if state is None:
            return False
        self._owed.pop(place, None)
        self._left.discard(place)
        if not state.owner:
            raise LeaseError(
                f"{place} cannot be leased: its lock file cannot be written ({FOLDER})",
                f"on {place}: check that its card is neither full nor read-only",
            )
        if state.owner != owner:
            return False
        self._hearts[place] = _Heart(self._agents[place], owner)
        return True

    def release(self, place: str, holder: Identity) -> None:
        """Remove the lock if ``holder`` still holds it. Raises LeaseError.

        If the board does not answer, the lock is removed when we close. If it does not answer then, others remove the
        lock later, since its heartbeat has stopped.
        """
        own = holder == self.identity
        if own and place in self._left:
            return
        heart = self._hearts.pop(place, None) if own else None
        if heart is not None:
            self._owed[place] = heart.owner
            heart.stop()
        if own and place in self._owed:
            if self._request(place, "drop", owner=self._owed[place]) is not None:
                del self._owed[place]
        elif (held := self._known_holding(place)) is not None and held.holder == holder:
            self._request(place, "drop", owner=self._known[place].owner)

    def leave_to_guard(self, place: str) -> None:
        """End the heartbeat and leave the lock, so that the guard of a trial reboots the board.

        Others remove the lock later, as that of a dead process.
        """
        self._left.add(place)
        if (heart := self._hearts.pop(place, None)) is not None:
            heart.stop()

    def fence(self, place: str) -> str:
        """Return the start of each command line on this board; empty if this process does not hold it."""
        heart = self._hearts.get(place)
        return fence(heart.owner) if heart is not None else ""

    def way_to_release(self, place: str) -> str:
        """Return the command by which a person removes the lock."""
        return f"ssh {self._agents[place].login} sudo rm {FOLDER}/lock"

    def close(self) -> None:
        """End the connections. Locks that are still held stay, without a heartbeat."""
        for place, owner in self._owed.items():
            with suppress(SshError, LeaseError):
                self._agents[place].request("drop", owner=owner)
        self._owed.clear()
        for heart in self._hearts.values():
            heart.stop()
        self._hearts.clear()
        for agent in self._agents.values():
            with suppress(Exception):
                agent.close()

    def _request(self, place: str, verb: str, count: int = 0, owner: str = "") -> LockState | None:
        """Send a request to a board. Return None, and remember why, if it does not answer."""
        self._fresh.add(place)
        agent = self._agents.get(place)
        if agent is None:
            raise LeaseError(f"this lab has no board for place {place!r} (it has: {', '.join(self.places())})")
        try:
            state = agent.request(verb, count, owner)
        except SshError as error:
            self._silent[place] = error
            self._looked.pop(place, None)
            return None
        self._silent.pop(place, None)
        self._known[place] = state
        return self._without_dead(place, agent, state)

    def _without_dead(self, place: str, agent: Agent, state: LockState) -> LockState:
        """Remove the lock of a holder whose heartbeat has stopped."""
        held = Holding.of_line(state.owner)
        now = time.monotonic()
        watched_s = min(now - self._looked.get(place, now), 2 * BEAT_S)
        self._looked[place] = now
        counts = {held.holder: state.count} if held is not None and held.holder != self.identity else {}
        if self._watches[place].look(counts, watched_s):
            with suppress(SshError):
                count = -1 if state.count is None else state.count
                state = self._known[place] = agent.request("evict", count, state.owner)
        return state


class _Heart:
    """The heartbeat of one lock that this process holds."""

    def __init__(self, agent: Agent, owner: str) -> None:
        self.owner = owner
        self._agent = agent
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pinet-board-lock", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        count = 1
        while not self._stopped.wait(BEAT_S):
            count += 1
            # A board that does not answer may reboot. `take` writes a lock that a crash of the board has lost again.
            with suppress(SshError, LeaseError):
                self._agent.request("take", count, self.owner)

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            # A request to a board that does not answer ends by its own deadline, and does no harm then.
            self._thread.join(BEAT_S)
