"""The nodes that this process works with: leased, booted and kept between tests that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pytest_pinet.errors import CoordinatorError, LabError, LeaseError, QuarantineError, first_line
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.lab.quarantine import Quarantine
from pytest_pinet.lab.runner import session_of
from pytest_pinet.model.lab import Node
from pytest_pinet.steps import doing

_STEPS = {NodeSession.reset_if_due: "reset", NodeSession.switch_on: "power on", NodeSession.log_in: "boot and log in"}


class NodePool:
    """Hands out nodes that are ready, and keeps them booted until they are given back.

    A node that could not be brought up is out of service for the rest of the run: whoever asks for it next is told so
    at once, instead of waiting for the same deadlines again. ``folder`` is that of the run, which gets the records of
    the consoles (``console/NODE.log``) and tells all workers of the run what is out of service.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        make_target: Callable[[Node], Any],
        on_wait: Callable[[str], None],
        folder: Path | None = None,
    ) -> None:
        self._make_target = make_target
        self._sessions: dict[str, NodeSession] = {}
        self._consoles = folder / "console" if folder is not None else None
        self._quarantine = Quarantine(folder / "quarantine" if folder is not None else None)
        self._leases = Leases(coordinator, self._give_back, on_wait)
        self.warnings: list[str] = []

    def get(
        self, nodes: Iterable[Node], timeout_s: float, reset: bool = False, more: Iterable[str] = ()
    ) -> list[NodeSession]:
        """Lease these nodes, all or none, and bring them up; with ``reset`` they are booted although they have power.

        ``more`` are places that are leased with them, such as those of uplinks.

        Raises LabError, or QuarantineError when one is out of service.
        """
        wanted = list(nodes)
        self._check_service(wanted)
        self._leases.resume(wait=True)
        # A place that was lost unnoticed must be asked for again, and its node is not as we left it.
        self.lost(wanted)
        places = [*(node.place for node in wanted), *more]
        with doing(f"lease {', '.join(places)}"):
            self._leases.acquire(places, timeout_s)
        # Meanwhile another worker may have found out.
        self._check_service(wanted)
        sessions = [self._session(node) for node in wanted]
        for session in sessions:
            # Of an idle node, between two tests.
            for finding in session.unheard() if session.ready else ():
                self.warnings.append(f"{finding.kind} on {finding.node} between two tests {finding}: booted it anew")
                session.reset_due = True
            session.reset_due |= reset
        fresh = [session for session in sessions if session.reset_due or not session.ready]
        # All are switched off before the first is switched on again, so that they rest at the same time.
        for step in _STEPS:
            for session in fresh:
                try:
                    with doing(f"{_STEPS[step]} {session.node.name}"):
                        step(session)
                except (CoordinatorError, LeaseError):
                    # Not the node's fault.
                    raise
                except LabError as error:
                    self._quarantine.add(session.node.name, error.message)
                    self._leases.release([session.node.place])
                    raise
        return sessions

    def _check_service(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            reason = self._quarantine.reason(node.name)
            if reason is not None:
                raise QuarantineError(f"{node.name} is out of service for the rest of this run: {reason}")

    def _session(self, node: Node) -> NodeSession:
        if node.place not in self._sessions:
            session = self._sessions[node.place] = session_of(node, self._make_target)
            if session.record is not None:
                session.record.node = node.name
                session.record.keep_in(self._consoles / f"{node.name}.log" if self._consoles is not None else None)
        return self._sessions[node.place]

    def check(self, places: Iterable[str]) -> None:
        """Make sure that these places are still leased to this process. Raises LeaseError."""
        self._leases.check(places)

    def lost(self, nodes: Iterable[Node]) -> list[str]:
        """The names of those of these nodes that are not ours any more; their power stays as it is."""
        by_place = {node.place: node.name for node in nodes if node.place in self._sessions}
        gone = self._leases.lost(by_place)
        for place in sorted(gone):
            try:
                stays_on = self._sessions[place].abandon()
            except Exception as error:
                self.warnings.append(f"could not let go of {by_place[place]}: {first_line(error)}")
            else:
                if stays_on:
                    self.warnings.append(f"left {by_place[place]} switched on: place {place} is not ours any more")
        return sorted(by_place[place] for place in gone)

    def lost_places(self, places: Iterable[str]) -> set[str]:
        """Those of these places that are no node's, such as those of uplinks, and are not ours any more."""
        return self._leases.lost(place for place in places if place not in self._sessions)

    def distrust(self, node: Node, reset: bool = False) -> None:
        """Log out of a node that stopped answering, so that its next user brings it up anew.

        With ``reset`` it is booted before anybody uses it again, since its kernel broke.
        """
        self._leave([node.place])
        if reset and node.place in self._sessions:
            self._sessions[node.place].reset_due = True

    def take_warnings(self) -> list[str]:
        """What a user should know of, since the last call."""
        warnings, self.warnings = self.warnings, []
        for session in self._sessions.values():
            warnings += session.take_warnings()
        return warnings

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Leave and release everything but these nodes."""
        self._leases.release(self._leases.held - {node.place for node in nodes})

    def settle(self) -> None:
        """Give back what could not be given back in time. Raises CoordinatorError, naming it."""
        self._leases.settle()

    def also(self, place: str, timeout_s: float) -> AbstractContextManager[None]:
        """Hold one more place, which is no node's, for a while. Raises LeaseError."""
        return self._leases.also(place, timeout_s)

    def _give_back(self, places: Iterable[str]) -> None:
        leaving = list(places)
        self._leave(leaving)
        lost = set(self.lost(self._sessions[place].node for place in leaving if place in self._sessions))
        for session in (self._sessions[place] for place in leaving if place in self._sessions):
            if session.node.name in lost:
                continue
            for finding in session.unheard():
                self.warnings.append(f"{finding.kind} on {finding.node} after its last test {finding}")
            try:
                session.mend()
            except Exception as error:
                self.warnings.append(f"could not boot {session.node.name} anew: {first_line(error)}")

    def _leave(self, places: Iterable[str]) -> None:
        sessions = [self._sessions[place] for place in places if place in self._sessions]
        lost = set(self.lost(session.node for session in sessions))
        for session in sessions:
            if session.node.name in lost:
                continue
            try:
                session.leave()
            except Exception as error:
                self.warnings.append(f"could not leave {session.node.name} as it was found: {first_line(error)}")
