"""Board x NIC x topology: what one parametrised test measures."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.lab import Interface, Node


@dataclass(frozen=True)
class Endpoint:
    """A node and the interface that it takes part with."""

    node: Node
    interface: Interface

    def __str__(self) -> str:
        return str(self.interface)


@dataclass(frozen=True)
class Combination:
    """One board x NIC x topology; ``dut`` and ``peer`` are the nodes of this lab that will stand for it.

    The id is made of stable things only, never of node names, readings or values.
    """

    topology: str
    dut: Endpoint
    peer: Endpoint

    @property
    def board(self) -> str:
        return self.dut.node.board.name

    @property
    def nic(self) -> str:
        return self.dut.interface.label

    @property
    def id(self) -> str:
        return f"{self.board}:{self.nic}/{self.topology}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that must be leased, sorted by place (the order in which leases are taken)."""
        return tuple(sorted({e.node.name: e.node for e in (self.dut, self.peer)}.values(), key=lambda n: n.place))
