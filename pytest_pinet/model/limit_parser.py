"""The only parser of limits: lab file, marker, gate call and command line pass their words here, with their origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_pinet.execution.names import unknown
from pytest_pinet.model.limits import WAYS, Bound, InstructionLimit, Limit, Metric, Origin
from pytest_pinet.model.quantities import (
    CPU_FORM,
    DURATION_FORM,
    GROWTH_FORM,
    TOLERANCE_FORM,
    TOLERANCE_PARTS,
    CpuCost,
    Duration,
    Growth,
    Share,
    Tolerance,
    parse_fraction,
    parse_minimum,
    parse_text,
)

MARGINAL = "marginal"
# The word of limits on instructions. Only exact gates count these.
INSTRUCTIONS = "instructions"
METRICS = tuple(metric.value for metric in Metric)
# The words of limits, as keywords of a marker or a call.
WORDS = (*METRICS, MARGINAL)
# A link that drops more often in a measurement gives no value, whatever a limit allows.
MOST_DROPS = 10
PART_FORM = "a share such as '0.1%'"
MARGINAL_FORM = "a share such as '2%', more than 0% and less than 100%"


def _tolerance(value: object) -> Tolerance:
    return Tolerance.parse(value if isinstance(value, dict) else parse_text(value, TOLERANCE_FORM))


def _part(value: object) -> Share:
    """A share of segments or datagrams. Bare numbers are refused: ``0.1`` could mean a tenth, or 0.1 %."""
    return Share.parse(parse_text(value, PART_FORM), PART_FORM)


def _latency(value: object) -> Duration:
    latency = Duration.parse(parse_text(value, DURATION_FORM))
    if not latency.seconds:
        raise ValueError(f"{value!r} can never be met; expected {DURATION_FORM}, longer than 0 s")
    return latency


def _cpu(value: object) -> CpuCost:
    cost = CpuCost.parse(parse_text(value, CPU_FORM))
    if not cost.percent:
        raise ValueError(f"{value!r} can never be met; expected {CPU_FORM}, above 0")
    return cost


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_DROPS:
        raise ValueError(f"{value!r} is no number of link drops; expected a whole number from 0 to {MOST_DROPS}")
    return value


_READERS: dict[Metric, Callable[[object], Bound]] = {
    Metric.GOODPUT: parse_minimum,
    Metric.SUM: parse_minimum,
    Metric.SHARE: parse_fraction,
    Metric.FAIRNESS: parse_fraction,
    Metric.TOLERANCE: _tolerance,
    Metric.RETRANSMITS: _part,
    Metric.LOSS: _part,
    Metric.LATENCY: _latency,
    Metric.CPU: _cpu,
    Metric.MAX_DROPS: _count,
}


def parse_limit(
    metric: Metric,
    value: object,
    origin: Origin,
    source: str,
    board: str = "*",
    nic: str = "*",
    topology: str = "*",
    direction: str | None = None,
    marginal: Share | None = None,
) -> Limit:
    """One limit from its written ``value``. Raises ValueError, one sentence that says what is accepted."""
    if direction is not None and direction not in WAYS:
        raise ValueError(unknown("direction", direction, WAYS))
    way, both_ways = (None, None) if direction is None else WAYS[direction]
    return Limit(_READERS[metric](value), origin, source, board, nic, topology, way, both_ways, metric, marginal)


def parse_marginal(value: object) -> Share:
    """A marginal band: a result that meets its limit, but lies within this part of it, is marginal (ValueError)."""
    band = Share.parse(parse_text(value, MARGINAL_FORM), MARGINAL_FORM)
    if not 0 < band.fraction < 1:
        raise ValueError(f"{value!r} is out of range; expected {MARGINAL_FORM}")
    return band


def parse_arguments(
    given: Mapping[str, object], origin: Origin, board: str = "*", nic: str = "*", topology: str = "*"
) -> list[Limit]:
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
            for direction, bound in _by_direction(Metric(word), value).items():
                limit = parse_limit(Metric(word), bound, origin, source, board, nic, topology, direction, marginal)
                limits.append(replace(limit, both_ways=limit.both_ways or None))
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


def parse_instructions(value: object, source: str) -> list[InstructionLimit]:
    """Limits on instructions: one growth for the sum, or a mapping from globs of functions to growths.

    Raises ValueError, one sentence that starts with the argument's name.
    """
    written = value if isinstance(value, Mapping) else {"": value}
    try:
        return [
            InstructionLimit(Growth.parse(parse_text(bound, GROWTH_FORM)), source, _function(name))
            for name, bound in written.items()
        ]
    except ValueError as error:
        raise ValueError(f"{INSTRUCTIONS}: {error}") from None


def parse_written_instructions(text: str, source: str) -> list[InstructionLimit]:
    """Limits of the command line: ``GROWTH``, or ``FUNCTION=GROWTH``. Raises ValueError."""
    function, equals, growth = text.rpartition("=")
    return parse_instructions({function.strip(): growth.strip()} if equals else growth.strip(), source)


def _function(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is no name of a function; expected a name or glob such as 'gem_rx' or 'gem_*'")
    return name
