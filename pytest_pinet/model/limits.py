"""A limit as somebody wrote it, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase

from pytest_pinet.model.quantities import Bitrate, CpuCost, Duration, Share
from pytest_pinet.model.tolerance import Tolerance
from pytest_pinet.model.traffic import Direction

Bound = Bitrate | Share | Tolerance | Duration | CpuCost


class Origin(IntEnum):
    """Who set a value; a higher origin beats a lower one of the same specificity, and from CALL on in any case."""

    LAB_FILE = 1
    MARKER = 2
    CALL = 3
    COMMAND_LINE = 4


class Metric(StrEnum):
    """What a limit limits; the words that stand in lab files, markers and calls.

    Minima: GOODPUT is that of the NIC under test (of each of them, where several pairs run at once); SUM that of all
    flows; SHARE the least that a flow got of its fair share; FAIRNESS Jain's index over what the flows got of theirs;
    TOLERANCE how far goodput may lie below its accepted baseline.
    Maxima: RETRANSMITS of all segments that were sent; LOSS of all datagrams; LATENCY the mean round-trip time under
    load; CPU the processor time for each Gbit/s at the device under test.
    """

    GOODPUT = "min"
    SUM = "sum"
    SHARE = "share"
    FAIRNESS = "fairness"
    TOLERANCE = "tolerance"
    RETRANSMITS = "retransmits"
    LOSS = "loss"
    LATENCY = "latency"
    CPU = "cpu"

    def __str__(self) -> str:
        return self.value


# The metrics that are limited from above.
MAXIMA = (Metric.RETRANSMITS, Metric.LOSS, Metric.LATENCY, Metric.CPU)

# How a limit names the runs that it speaks of: the one-way direction, and whether both run at once.
WAYS: dict[str, tuple[Direction | None, bool]] = {
    "tx": (Direction.TX, False),
    "rx": (Direction.RX, False),
    "bidir": (None, True),
    "bidir-tx": (Direction.TX, True),
    "bidir-rx": (Direction.RX, True),
}


@dataclass(frozen=True)
class Limit:
    """What one metric must at least, or of MAXIMA may at most, be for the combinations that its selectors match.

    ``bound`` is a Bitrate or Share for GOODPUT and SUM, a Share for SHARE, FAIRNESS, RETRANSMITS and LOSS, a Tolerance,
    Duration or CpuCost for those. ``marginal``: the part of it within which a value that holds it is marginal.

    Selectors are globs; ``direction`` None means either. ``both_ways`` tells whether it speaks of runs in which both
    directions run at once (None: of these and of one-way runs). ``source`` says where it was written
    (``lab/virtual.yaml:88``, ``min='94%' of the marker`` or ``--pinet-min 90%``).
    """

    bound: Bound
    origin: Origin
    source: str
    board: str = "*"
    nic: str = "*"
    topology: str = "*"
    direction: Direction | None = None
    both_ways: bool | None = None
    metric: Metric = Metric.GOODPUT
    marginal: Share | None = None

    @property
    def minimum(self) -> Bitrate | Share:
        """The least rate, or share of what is possible; only of metrics whose limit is one (TypeError)."""
        if not isinstance(self.bound, Bitrate | Share) or self.metric in MAXIMA:
            raise TypeError(f"a limit of {self.metric} has no minimum")
        return self.bound

    def matches(self, board: str, nic: str, topology: str, direction: Direction, both_ways: bool) -> bool:
        """Whether this limit speaks of that combination and one-way direction of a run."""
        return (
            fnmatchcase(board, self.board)
            and fnmatchcase(nic, self.nic)
            and fnmatchcase(topology, self.topology)
            and self.direction in (None, direction)
            and self.both_ways in (None, both_ways)
        )

    @property
    def specificity(self) -> tuple[int, int]:
        """Ascending rank: first how many selectors are given without a wildcard, then how many at all."""
        globs = (self.board, self.nic, self.topology)
        ways = (self.direction is not None) + (self.both_ways is True)
        exact = sum(not set(g) & set("*?[") for g in globs)
        given = sum(g != "*" for g in globs)
        return (exact + ways, given + ways)
