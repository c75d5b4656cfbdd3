"""The traffic flows of a combination: senders, forwarding NICs and receivers."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.topology import Topology
from pytest_pinet.model.traffic import Direction


@dataclass(frozen=True)
class FlowArrow:
    """One flow. ``path`` lists end numbers: the sender, the NICs that forward, the receiver.

    ``both`` means that the receiver sends at the same time.
    """

    path: tuple[int, ...]
    both: bool

    @property
    def hops(self) -> tuple[tuple[int, int], ...]:
        """Return the parts of the path between two switch ports."""
        return tuple(zip(self.path[::2], self.path[1::2], strict=True))

    @property
    def forwarded(self) -> tuple[tuple[int, int], ...]:
        """Return the parts of the path inside a node, from one NIC to the other."""
        return tuple(zip(self.path[1:-1:2], self.path[2::2], strict=True))


def arrows(topology: Topology, direction: Direction) -> list[FlowArrow]:
    """Return one arrow per run of traffic. Raises ValueError if the topology does not support the direction."""
    found = []
    for run in topology.runs(direction):
        ends = (run.b, run.a) if run.direction is Direction.RX else (run.a, run.b)
        # In a chain all traffic between 3 and 1 goes through the NICs 2 and 0 of one node.
        inside = ((2, 0) if ends[0] == 3 else (0, 2)) if topology.forwards else ()
        found.append(FlowArrow((ends[0], *inside, ends[1]), run.direction is Direction.BIDIR))
    return found
