"""Limits: what they hold for, their only parser, and what is left of a limit on one link, its threshold.

Lab file, marker, gate call and command line pass their words to this parser, with their origin. A metric of limits is
a member of Metric and a row of _KINDS; its key in the lab file is in ``config/schema.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase

from pytest_pinet.execution.names import unknown
from pytest_pinet.model.figures import FIGURES, Better, Figure
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import (
    CPU_FORM,
    DURATION_FORM,
    PER_SECOND_FORM,
    TOLERANCE_FORM,
    TOLERANCE_PARTS,
    Bitrate,
    CpuCost,
    Duration,
    PerSecond,
    PublishedShare,
    Share,
    Tolerance,
    parse_fraction,
    parse_minimum,
    parse_text,
)
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

MARGINAL = "marginal"
# A link that drops more often in a measurement gives no value, whatever a limit allows.
MOST_DROPS = 10
PART_FORM = "a share such as '0.1%'"
COST_TOLERANCE_FORM = "a share such as '10%', more than 0% and less than 100%"
MARGINAL_FORM = "a share such as '2%', more than 0% and less than 100%"

# A number of link drops is a plain number.
Bound = Bitrate | Share | Tolerance | Duration | CpuCost | PerSecond | int


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
    may lie below its accepted baseline; COST_TOLERANCE, how much more a Gbit may cost the device under test.

    Maxima: RETRANSMITS, as a share of all sent segments; LOSS, as a share of all datagrams; LATENCY, the mean
    round-trip time under load; CPU, the processor time per Gbit/s at the device under test. MAX_DROPS, how often the
    link of the device under test may drop in one measurement, stands alone: it is no cost of a single connection.

    The others are values (``model/figures.py``); each one says whether its limit is a minimum or a maximum.
    """

    GOODPUT = "min"
    SUM = "sum"
    SHARE = "share"
    FAIRNESS = "fairness"
    TOLERANCE = "tolerance"
    COST_TOLERANCE = "cost_tolerance"
    RETRANSMITS = "retransmits"
    LOSS = "loss"
    LATENCY = "latency"
    CPU = "cpu"
    MAX_DROPS = "max_drops"
    TRANSACTIONS = "transactions"
    CONNECTIONS = "connections"
    PACKETS = "packets"
    P50 = "p50"
    P90 = "p90"
    P99 = "p99"
    LATE = "late"
    IDLE_LOSS = "idle_loss"
    FIRST_ANSWER = "first_answer"
    FIRST_SECOND = "first_second"


METRICS = tuple(metric.value for metric in Metric)
# The words of limits, as keywords of a marker or a call.
WORDS = (*METRICS, MARGINAL)
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


def _tolerance(value: object) -> Tolerance:
    return Tolerance.parse(value if isinstance(value, dict) else parse_text(value, TOLERANCE_FORM))


def _between(value: object, form: str) -> Share:
    """A share that is neither 0% nor 100%."""
    share = Share.parse(parse_text(value, form), form)
    if not 0 < share.fraction < 1:
        raise ValueError(f"{value!r} is out of range; expected {form}")
    return share


def _part(value: object) -> Share:
    """A share of segments or datagrams. Bare numbers are refused: ``0.1`` could mean a tenth, or 0.1 %."""
    return Share.parse(parse_text(value, PART_FORM), PART_FORM)


def _above_zero(
    kind: type[Duration | PerSecond | CpuCost], form: str, wrong: str, more: str
) -> Callable[[object], Duration | PerSecond | CpuCost]:
    """Return the reader of such a value. ``wrong`` says what is wrong with 0, and ``more`` what is accepted."""

    def read(value: object) -> Duration | PerSecond | CpuCost:
        found = kind.parse(parse_text(value, form))
        if found == kind(0):
            raise ValueError(f"{value!r} {wrong}; expected {form}, {more}")
        return found

    return read


_latency = _above_zero(Duration, DURATION_FORM, "can never be met", "longer than 0 s")


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_DROPS:
        raise ValueError(f"{value!r} is no number of link drops; expected a whole number from 0 to {MOST_DROPS}")
    return value


def _percent(part: float) -> str:
    return f"{part * 100:.3g}%"


@dataclass(frozen=True)
class _Kind:
    """How the limits of a metric are read, and how sentences name its value and its limit.

    In ``words``, ``{}`` is the bound as it was configured. ``show`` formats a value. ``unknown`` says why a value
    can be unknown, so that its limit cannot be judged.
    """

    read: Callable[[object], Bound]
    noun: str = ""
    words: str = "{}"
    show: Callable[[float], str] = lambda bps: str(Bitrate(bps))
    unknown: str = ""


_KINDS: dict[Metric, _Kind] = {
    Metric.GOODPUT: _Kind(parse_minimum),
    Metric.SUM: _Kind(parse_minimum),
    Metric.TOLERANCE: _Kind(_tolerance),
    Metric.COST_TOLERANCE: _Kind(lambda value: _between(value, COST_TOLERANCE_FORM)),
    Metric.SHARE: _Kind(parse_fraction, "least share", "{} of its fair share for each flow", _percent),
    Metric.FAIRNESS: _Kind(parse_fraction, "Jain's index", "Jain's index {}", lambda index: f"{index:.3f}"),
    Metric.RETRANSMITS: _Kind(
        _part,
        "retransmit rate",
        "at most {} of segments retransmitted",
        _percent,
        "retransmits not judged: the sender does not report them (UDP has none)",
    ),
    Metric.LOSS: _Kind(
        _part,
        "loss",
        "at most {} of datagrams lost",
        _percent,
        "loss not judged: the receiver does not report lost datagrams (TCP has none)",
    ),
    Metric.LATENCY: _Kind(
        _latency,
        "mean round-trip time",
        "at most {} of mean round-trip time",
        lambda seconds: str(Duration(seconds)),
        "latency not judged: the sender does not report its round-trip time (UDP has none)",
    ),
    Metric.CPU: _Kind(
        _above_zero(CpuCost, CPU_FORM, "can never be met", "above 0"),
        "processor time",
        "at most {}",
        lambda percent: str(CpuCost(percent)),
        "cpu not judged: the tool does not report the processor time of the device under test",
    ),
    Metric.MAX_DROPS: _Kind(_count),
}
_READERS: dict[str, Callable[[object], Bound]] = {
    "/s": _above_zero(PerSecond, PER_SECOND_FORM, "is met by anything", "above 0"),
    "s": _latency,
    "share": _part,
}
_KINDS |= {Metric(one.name): _Kind(_READERS[one.unit], one.name, "{}", one.show) for one in FIGURES.values()}


@dataclass(frozen=True)
class Scope:
    """The combinations and directions that a limit holds for.

    Names are globs. ``direction`` None matches both directions. ``both_ways``: only runs with both directions at once
    (True), only one-way runs (False) or all runs (None).
    """

    board: str = "*"
    nic: str = "*"
    topology: str = "*"
    direction: Direction | None = None
    both_ways: bool | None = None

    def facing(self, way: str | None) -> Scope:
        """Return this scope for one of WAYS; None changes nothing. Raises ValueError."""
        if way is None:
            return self
        if way not in WAYS:
            raise ValueError(unknown("direction", way, WAYS))
        direction, both_ways = WAYS[way]
        return replace(self, direction=direction, both_ways=both_ways)

    def matches(self, key: MetricKey) -> bool:
        """Return whether this combination and direction belong to the scope."""
        return (
            fnmatchcase(key.combination.board, self.board)
            and fnmatchcase(key.combination.nic, self.nic)
            and fnmatchcase(key.combination.topology, self.topology)
            and self.direction in (None, key.direction)
            and self.both_ways in (None, key.both_ways)
        )

    @property
    def specificity(self) -> tuple[int, int]:
        """Rank of the scope: the number of selectors without a wildcard, then the number of given selectors."""
        globs = (self.board, self.nic, self.topology)
        ways = (self.direction is not None) + (self.both_ways is True)
        exact = sum(not set(g) & set("*?[") for g in globs)
        given = sum(g != "*" for g in globs)
        return (exact + ways, given + ways)


EVERYWHERE = Scope()


@dataclass(frozen=True)
class Limit:
    """The least (of MAXIMA: the highest) allowed value of one metric, in its scope.

    ``bound`` is a Bitrate or Share for GOODPUT and SUM; a Share for SHARE, FAIRNESS, COST_TOLERANCE, RETRANSMITS and
    LOSS; a Tolerance for TOLERANCE, a Duration for LATENCY, a CpuCost for CPU, a number for MAX_DROPS. ``marginal``: a
    value that meets the bound by less than this share of the bound is marginal. ``source`` says where the limit was
    written (``lab/virtual.yaml:88``, ``min='94%' of the marker`` or ``--pinet-min 90%``).
    """

    bound: Bound
    origin: Origin
    source: str
    scope: Scope = EVERYWHERE
    metric: Metric = Metric.GOODPUT
    marginal: Share | None = None

    @property
    def minimum(self) -> Bitrate | Share:
        """The least rate, or the least share of what is possible. Raises TypeError for metrics without a minimum."""
        if not isinstance(self.bound, Bitrate | Share) or self.metric in MAXIMA:
            raise TypeError(f"a limit of {self.metric} has no minimum")
        return self.bound

    def threshold(self, most: Bitrate | None = None, baseline: Bitrate | None = None) -> Threshold | None:
        """Return the limit on one link; None for a tolerance without a baseline, which cannot be judged.

        ``most`` is the physical limit, or the sent rate if it is lower; limits on goodput need it. A regression exceeds
        both parts of a tolerance. Raises TypeError for a bound that its metric does not have.
        """
        words = str(self.bound)
        match self.bound:
            case Tolerance() if self.metric is Metric.TOLERANCE:
                if baseline is None:
                    return None
                number, words = self.bound.lowest(baseline).bps, f"{words} below the baseline {baseline}"
            case Bitrate() if self.metric in (Metric.GOODPUT, Metric.SUM):
                number = self.bound.bps
            case Share() if self.metric in (Metric.GOODPUT, Metric.SUM):
                if most is None:
                    raise TypeError(f"a limit of {self.metric} needs the physical limit")
                if isinstance(self.bound, PublishedShare) and self.bound.rate is not None:
                    most = min(most, self.bound.rate)
                number = self.bound.fraction * most.bps
                words = f"{Share(self.bound.fraction)} of {most}"
            case Share():
                number = self.bound.fraction
                words = f"{number:.3g}" if self.metric is Metric.FAIRNESS else words
            case Duration():
                number = self.bound.seconds
            case CpuCost():
                number = self.bound.percent
            case PerSecond():
                number = self.bound.number
            case _:
                raise TypeError(f"a limit of {self.metric} has no threshold {self.bound!r}")
        words = _KINDS[self.metric].words.format(words)
        band = None if self.marginal is None else self.marginal.fraction
        relative_to = baseline.bps if baseline is not None and self.metric is Metric.TOLERANCE else None
        return Threshold(self.metric, number, words, self.source, band, relative_to)


@dataclass(frozen=True)
class Threshold:
    """A limit on one link, as results have it; its text is ``94% of 941.5 Mbit/s (lab.yaml:9)``.

    ``number`` is the last value that meets the limit, in the unit of its metric (bit/s, shares from 0 to 1, seconds,
    percent of a core for each Gbit/s). ``words`` is the limit with its unit, as it was configured, and ``source`` says
    where. A value that meets the limit by less than the share ``marginal`` is marginal. ``baseline`` is the accepted
    goodput (bit/s) that the limit is relative to; null for other limits.
    """

    metric: Metric
    number: float
    words: str
    source: str = ""
    marginal: float | None = None
    baseline: float | None = None

    def __str__(self) -> str:
        return f"{self.words} ({self.source})" if self.source else self.words

    @property
    def rate(self) -> Bitrate:
        """The number of a limit on goodput."""
        return Bitrate(self.number)

    @property
    def unknown(self) -> str:
        """Why the value of this metric may be unknown, as a sentence."""
        return _KINDS[self.metric].unknown

    def judge(self, value: float, of: Figure | None = None) -> tuple[Verdict, str]:
        """Return PASS, MARGINAL or FAIL, with a sentence; INVALID for a value that is not finite.

        ``of`` is the kind of the value; None: that of the metric.
        """
        kind = _KINDS[self.metric]
        kind = kind if of is None else replace(kind, noun=of.name, show=of.show)
        noun = f"{kind.noun} " if kind.noun else ""
        if not math.isfinite(value):
            return Verdict.INVALID, f"{noun}{value} is not a finite number: a measurement error"
        figure = of or FIGURES.get(self.metric)
        at_most = self.metric in MAXIMA or (figure is not None and figure.better is Better.DOWN)
        misses = value > self.number if at_most else value < self.number
        relation = f"is {'above' if at_most else 'below'}" if misses else "meets"
        reason = f"{noun}{kind.show(value)} {relation} the limit {kind.show(self.number)}"
        if not noun:
            # Of bit rates only: percents of percents would confuse.
            difference = (value / self.number - 1) * 100 if self.number else 0.0
            reason += f" ({difference:+.1f} %)"
        verdict = Verdict.FAIL if misses else Verdict.PASS
        # A limit of zero has no band.
        if not misses and self.marginal is not None and abs(value - self.number) < self.marginal * self.number:
            verdict, reason = Verdict.MARGINAL, f"{reason}, within the marginal band of {Share(self.marginal)}"
        if self.baseline:
            difference = (value / self.baseline - 1) * 100
            reason += f"; the baseline is {kind.show(self.baseline)} ({difference:+.1f} %)"
        return verdict, reason


def parse_limit(
    metric: Metric,
    value: object,
    origin: Origin,
    source: str,
    scope: Scope = EVERYWHERE,
    marginal: Share | None = None,
) -> Limit:
    """One limit from its written ``value``. Raises ValueError, one sentence that says what is accepted."""
    return Limit(_KINDS[metric].read(value), origin, source, scope, metric, marginal)


def parse_marginal(value: object) -> Share:
    """A marginal band: a result that meets its limit, but lies within this part of it, is marginal (ValueError)."""
    return _between(value, MARGINAL_FORM)


def parse_arguments(given: Mapping[str, object], origin: Origin, scope: Scope = EVERYWHERE) -> list[Limit]:
    """The limits among the keyword arguments of a marker or a call; other arguments and None are skipped.

    A value may be a mapping from direction to value. ``tx`` and ``rx`` then include runs in both directions at once.
    ``marginal`` holds for all the limits. Raises ValueError, one sentence that starts with the argument's name.
    """
    written = {word: given[word] for word in WORDS if given.get(word) is not None}
    limits = []
    word = MARGINAL  # the argument that is being read
    try:
        marginal = parse_marginal(written.pop(word)) if word in written else None
        if marginal is not None and not written:
            raise ValueError(f"a marginal band needs a limit; add one of {', '.join(METRICS)}")
        for word, value in written.items():
            source = f"{word}={value!r} of the {origin.name.lower()}"
            for way, bound in _by_direction(Metric(word), value).items():
                here = scope.facing(way)
                here = replace(here, both_ways=here.both_ways or None)
                limits.append(parse_limit(Metric(word), bound, origin, source, here, marginal))
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None
    return limits


def _by_direction(metric: Metric, value: object) -> Mapping[str | None, object]:
    """The value for each direction (None: the value is no such mapping). A tolerance in parts is one value."""
    parts = TOLERANCE_PARTS if metric is Metric.TOLERANCE else ()
    if not isinstance(value, Mapping) or not value or set(value) & set(parts):
        return {None: value}
    for direction in value:
        if direction not in WAYS:
            raise ValueError(unknown("part or direction" if parts else "direction", str(direction), (*parts, *WAYS)))
    return value
