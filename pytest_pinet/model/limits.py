"""A limit, and where it was written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase

from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, CpuCost, Duration, Growth, Share, Tolerance
from pytest_pinet.model.traffic import Direction

# A number of link drops is a plain number.
Bound = Bitrate | Share | Tolerance | Duration | CpuCost | int


class Origin(IntEnum):
    """The origin of a limit. Of equally specific limits the higher one wins; from CALL on the origin alone decides."""

    LAB_FILE = 1
    MARKER = 2
    CALL = 3
    COMMAND_LINE = 4


class Metric(StrEnum):
    """The metrics of limits, by the words for them in lab files, markers and calls.

    Minima: GOODPUT of the NIC under test (of each NIC, if several pairs run at once); SUM of all flows; SHARE, the
    lowest share of its fair rate that a flow got; FAIRNESS, Jain's index over these shares; TOLERANCE, how far goodput
    may lie below its accepted baseline.

    Maxima: RETRANSMITS, as a share of all sent segments; LOSS, as a share of all datagrams; LATENCY, the mean
    round-trip time under load; CPU, the processor time per Gbit/s at the device under test. MAX_DROPS, how often the
    link of the device under test may drop in one measurement, stands alone: it is no cost of a single connection.
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
    MAX_DROPS = "max_drops"


# The metrics whose limit is a maximum for each connection.
MAXIMA = (Metric.RETRANSMITS, Metric.LOSS, Metric.LATENCY, Metric.CPU)

# The directions that a limit can name: the one-way direction, and whether both directions run at once.
WAYS: dict[str, tuple[Direction | None, bool]] = {
    "tx": (Direction.TX, False),
    "rx": (Direction.RX, False),
    "bidir": (None, True),
    "bidir-tx": (Direction.TX, True),
    "bidir-rx": (Direction.RX, True),
}


@dataclass(frozen=True)
class Limit:
    """The least (of MAXIMA: the highest) allowed value of one metric, for the combinations that the selectors match.

    ``bound`` is a Bitrate or Share for GOODPUT and SUM; a Share for SHARE, FAIRNESS, RETRANSMITS and LOSS; a Tolerance
    for TOLERANCE, a Duration for LATENCY, a CpuCost for CPU, a number for MAX_DROPS. ``marginal``: a value that meets
    the bound by less than this share of the bound is marginal. Selectors are globs; ``direction`` None matches both
    directions. ``both_ways``: the limit applies only to runs with both directions at once (True), only to one-way runs
    (False) or to all runs (None). ``source`` says where the limit was written (``lab/virtual.yaml:88``, ``min='94%' of
    the marker`` or ``--pinet-min 90%``).
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
        """The least rate, or the least share of what is possible. Raises TypeError for metrics without a minimum."""
        if not isinstance(self.bound, Bitrate | Share) or self.metric in MAXIMA:
            raise TypeError(f"a limit of {self.metric} has no minimum")
        return self.bound

    def matches(self, key: MetricKey) -> bool:
        """Whether this limit applies to this combination and direction."""
        return (
            fnmatchcase(key.combination.board, self.board)
            and fnmatchcase(key.combination.nic, self.nic)
            and fnmatchcase(key.combination.topology, self.topology)
            and self.direction in (None, key.direction)
            and self.both_ways in (None, key.both_ways)
        )

    @property
    def specificity(self) -> tuple[int, int]:
        """Rank of the limit: the number of selectors without a wildcard, then the number of given selectors."""
        globs = (self.board, self.nic, self.topology)
        ways = (self.direction is not None) + (self.both_ways is True)
        exact = sum(not set(g) & set("*?[") for g in globs)
        given = sum(g != "*" for g in globs)
        return (exact + ways, given + ways)


@dataclass(frozen=True)
class InstructionLimit:
    """How much the instructions for each packet may grow in an exact gate.

    ``function`` is a glob of names of functions, each of which has this limit; empty: the limit holds for the sum of
    all functions. ``source`` says where the limit was written.
    """

    bound: Growth
    source: str
    function: str = ""

    def __str__(self) -> str:
        return f"{self.bound} ({self.source})"
