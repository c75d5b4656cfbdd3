"""A combination: board x NIC x topology x tuning, which one parametrised test measures."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_pinet.model.lab import Interface, Node, Uplink
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.topology import Topology, parse_topology
from pytest_pinet.model.tuning import Tuning


@dataclass(frozen=True)
class Endpoint:
    """A node and the interface that it uses in a combination."""

    node: Node
    interface: Interface

    def __str__(self) -> str:
        return str(self.interface)


@dataclass(frozen=True)
class Combination:
    """One board x NIC x topology x tuning, with the interfaces of this lab that represent it.

    ``ends`` are these interfaces; end 0 is under test. ``uplinks`` has the necessary cables between switches, for each
    segment of the topology. The id depends only on stable properties, never on node names or measured values.
    """

    topology: Topology
    ends: tuple[Endpoint, ...]
    uplinks: tuple[tuple[Uplink, ...], ...]
    tuning: Tuning = field(default_factory=Tuning)

    @classmethod
    def pair(cls, dut: Endpoint, peer: Endpoint) -> Combination:
        """Return the pair of two interfaces on the same switch."""
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
    def identity(self) -> CombinationId:
        return CombinationId(self.board, self.nic, self.topology.name, self.tuning.key)

    @property
    def id(self) -> str:
        return str(self.identity)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes to lease, sorted by place: the order in which leases are taken."""
        return tuple(sorted({end.node.name: end.node for end in self.ends}.values(), key=lambda node: node.place))

    @property
    def places(self) -> tuple[str, ...]:
        """The labgrid places of all nodes and uplinks, sorted. Either all of them are leased or none."""
        uplinks = {uplink.place for segment in self.uplinks for uplink in segment}
        return tuple(sorted(uplinks | {node.place for node in self.nodes}))
