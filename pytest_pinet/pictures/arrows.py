"""Who sends to whom in a combination."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.topology import Topology
from pytest_pinet.model.traffic import Direction


@dataclass(frozen=True)
class Arrow:
    """Traffic along the ends of ``path``, by their numbers: the sender, the NICs that forward it, the receiver.

    ``both``: the receiver sends at the same time.
    """

    path: tuple[int, ...]
    both: bool

    @property
    def hops(self) -> tuple[tuple[int, int], ...]:
        """The parts of the way that lie between two switch ports."""
        return tuple(zip(self.path[::2], self.path[1::2], strict=True))

    @property
    def forwarded(self) -> tuple[tuple[int, int], ...]:
        """The parts of the way that lie inside a node, from one NIC to the other."""
        return tuple(zip(self.path[1:-1:2], self.path[2::2], strict=True))

    def touches(self, end: int) -> bool:
        """Whether it begins, ends or passes there."""
        return end in self.path


def arrows(topology: Topology, direction: Direction) -> list[Arrow]:
    """One for each run of traffic. Raises ValueError for a direction that makes no sense here."""
    found = []
    for run in topology.runs(direction):
        ends = (run.b, run.a) if run.direction is Direction.RX else (run.a, run.b)
        # In a chain everything between 3 and 1 goes through the NICs 2 and 0 of one node.
        inside = ((2, 0) if ends[0] == 3 else (0, 2)) if topology.forwards else ()
        found.append(Arrow((ends[0], *inside, ends[1]), run.direction is Direction.BIDIR))
    return found
