"""The places of a lab: each node is leased by its place, at labgrid's coordinator or by a lock file on its board."""

from __future__ import annotations

from typing import Protocol

from pytest_pinet.errors import SshError
from pytest_pinet.lab.board_locks import BoardLocks
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Holding, Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lock_agent import Agent
from pytest_pinet.model.lab import Lab, Node


class Places(Protocol):
    """What keeps the leases of a lab. ``holder`` and ``holding`` are as of the last ``sync``.

    ``dead_after_s`` is how long the lease of a dead process of another host lasts at most.
    """

    address: str
    identity: Identity
    dead_after_s: float

    @property
    def lost(self) -> bool: ...

    def sync(self) -> None: ...

    def reconnect(self, wait: bool) -> None: ...

    def places(self) -> list[str]: ...

    def holder(self, place: str) -> Identity | None: ...

    def holding(self, place: str) -> Holding | None: ...

    def silence(self, place: str) -> SshError | None: ...

    def acquire(self, place: str) -> bool: ...

    def release(self, place: str, holder: Identity) -> None: ...

    def way_to_release(self, place: str) -> str: ...

    def await_change(self, timeout_s: float) -> None: ...

    def resources(self, place: str) -> frozenset[tuple[str, ...]]: ...

    def offered(self, path: tuple[str, ...]) -> bool: ...

    def left_at(self, exporter: str) -> float | None: ...

    def close(self) -> None: ...


def open_places(lab: Lab, targets: Targets, identity: Identity) -> Places:
    """Return what keeps the leases of this lab. Raises CoordinatorError, and ConfigError if labgrid makes no target."""
    if not lab.has_coordinator:
        return BoardLocks(identity, {node.place: agent_of(node, targets) for node in lab.nodes.values()})
    coordinator = Coordinator(targets.address, identity)
    coordinator.expand_places()
    return coordinator


def agent_of(node: Node, targets: Targets) -> Agent:
    """Return what reads and writes the lock file on the board of this node. Raises ConfigError if it has no ssh."""
    return Agent(node.name, *targets.way_to(node), node.patience)
