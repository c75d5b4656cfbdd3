"""Board x NIC x topology x tuning: what one parametrised test measures."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_pinet.model.lab import Interface, Node, Uplink
from pytest_pinet.model.topology import Topology, parse_topology
from pytest_pinet.model.tuning import Tuning


def combination_id(board: str, nic: str, topology: str, tuning: str = "") -> str:
    """``pi4b:onboard/pair``, or with the key of a tuning ``pi4b:onboard/pair/rps=all``."""
    return f"{board}:{nic}/{topology}{f'/{tuning}' if tuning else ''}"


@dataclass(frozen=True)
class Endpoint:
    """A node and the interface that it takes part with."""

    node: Node
    interface: Interface

    def __str__(self) -> str:
        return str(self.interface)


@dataclass(frozen=True)
class Combination:
    """One board x NIC x topology x tuning; ``ends`` are the interfaces of this lab that will stand for it.

    0 is the one under test. ``uplinks`` has, for each segment of the topology, the cables between switches that it
    needs. The id is made of stable things only, never of node names or readings.
    """

    topology: Topology
    ends: tuple[Endpoint, ...]
    uplinks: tuple[tuple[Uplink, ...], ...]
    tuning: Tuning = field(default_factory=Tuning)

    @classmethod
    def pair(cls, dut: Endpoint, peer: Endpoint) -> Combination:
        """Two interfaces of one switch."""
        return cls(parse_topology("pair"), (dut, peer), ((),))

    @property
    def dut(self) -> Endpoint:
        return self.ends[0]

    @property
    def peer(self) -> Endpoint:
        return self.ends[1]

    @property
    def board(self) -> str:
        return self.dut.node.board.name

    @property
    def nic(self) -> str:
        return self.dut.interface.label

    @property
    def id(self) -> str:
        return combination_id(self.board, self.nic, str(self.topology), self.tuning.key)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that must be leased, sorted by place (the order in which leases are taken)."""
        return tuple(sorted({end.node.name: end.node for end in self.ends}.values(), key=lambda node: node.place))

    @property
    def places(self) -> tuple[str, ...]:
        """The labgrid places of all nodes and uplinks, sorted: what is leased, all or none."""
        uplinks = {uplink.place for segment in self.uplinks for uplink in segment}
        return tuple(sorted(uplinks | {node.place for node in self.nodes}))
