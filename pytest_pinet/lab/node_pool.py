"""The nodes that this process works with: leased, booted and kept between tests that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pytest_pinet.errors import LabError
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.model.lab import Node


class NodePool:
    """Hands out nodes that are ready, and keeps them booted until they are given back.

    A node that could not be brought up is quarantined for the rest of the session: whoever asks for it next gets the
    same error at once instead of waiting for the same deadlines again.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        make_target: Callable[[Node], Any],
        on_wait: Callable[[str], None],
    ) -> None:
        self._make_target = make_target
        self._sessions: dict[str, NodeSession] = {}
        self._quarantine: dict[str, LabError] = {}
        self._leases = Leases(coordinator, self._leave, on_wait)
        self.warnings: list[str] = []

    def get(self, nodes: Iterable[Node], timeout_s: float) -> list[NodeSession]:
        """Lease these nodes, all or none, and bring them up. Raises LabError."""
        wanted = list(nodes)
        for node in wanted:
            if node.name in self._quarantine:
                raise self._quarantine[node.name]
        # A place that was lost unnoticed must be asked for again, and its node is not as we left it.
        self.lost(wanted)
        self._leases.acquire([node.place for node in wanted], timeout_s)
        sessions = [self._session(node) for node in wanted]
        fresh = [session for session in sessions if not session.ready]
        for step in (NodeSession.switch_on, NodeSession.log_in):
            for session in fresh:
                try:
                    step(session)
                except LabError as error:
                    self._quarantine[session.node.name] = error
                    self._leases.release([session.node.place])
                    raise
        return sessions

    def _session(self, node: Node) -> NodeSession:
        if node.place not in self._sessions:
            self._sessions[node.place] = NodeSession(node, self._make_target(node))
        return self._sessions[node.place]

    def check(self, nodes: Iterable[Node]) -> None:
        """Make sure that these nodes are still leased to this process. Raises LeaseError."""
        self._leases.check([node.place for node in nodes])

    def lost(self, nodes: Iterable[Node]) -> list[str]:
        """The names of those of these nodes that are not ours any more; their power stays as it is."""
        by_place = {node.place: node.name for node in nodes if node.place in self._sessions}
        gone = self._leases.lost(by_place)
        for place in sorted(gone):
            try:
                stays_on = self._sessions[place].abandon()
            except Exception as error:
                self.warnings.append(f"could not let go of {by_place[place]}: {_first_line(error)}")
            else:
                if stays_on:
                    self.warnings.append(f"left {by_place[place]} switched on: place {place} is not ours any more")
        return sorted(by_place[place] for place in gone)

    def distrust(self, node: Node) -> None:
        """Log out of a node that stopped answering, so that its next user brings it up anew."""
        self._leave([node.place])

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Leave and release everything but these nodes."""
        self._leases.release(self._leases.held - {node.place for node in nodes})

    def _leave(self, places: Iterable[str]) -> None:
        sessions = [self._sessions[place] for place in places if place in self._sessions]
        lost = set(self.lost(session.node for session in sessions))
        for session in sessions:
            if session.node.name in lost:
                continue
            try:
                session.leave()
            except Exception as error:
                self.warnings.append(f"could not leave {session.node.name} as it was found: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
