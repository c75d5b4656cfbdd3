"""What a limit may hold, for each metric, and how it is read."""

from __future__ import annotations

from collections.abc import Callable

from pytest_pinet.model.limits import Bound, Metric
from pytest_pinet.model.quantities import (
    CPU_FORM,
    DURATION_FORM,
    SHARE_FORM,
    CpuCost,
    Duration,
    Share,
    parse_fraction,
    parse_minimum,
)
from pytest_pinet.model.tolerance import Tolerance

PART_FORM = "a share such as '0.1%'"


def _text(value: object, form: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not {form}")
    return value


def _rate_or_share(value: object) -> Bound:
    if not isinstance(value, str):
        raise ValueError(f"expected a limit with a unit, such as '94%' or '2.3 Gbit/s', got {value!r}")
    return parse_minimum(value)


def _part(value: object) -> Share:
    """A share of segments or datagrams. Bare numbers are refused: ``0.1`` could mean a tenth, or 0.1 %."""
    text = _text(value, PART_FORM)
    if not text.strip().endswith("%"):
        raise ValueError(f"{value!r} is not {PART_FORM}")
    return Share.parse(text)


def _latency(value: object) -> Duration:
    latency = Duration.parse(_text(value, DURATION_FORM))
    if not latency.seconds:
        raise ValueError(f"{value!r} can never be met; expected {DURATION_FORM}, longer than nothing")
    return latency


def _cpu(value: object) -> CpuCost:
    cost = CpuCost.parse(_text(value, CPU_FORM))
    if not cost.percent:
        raise ValueError(f"{value!r} can never be met; expected {CPU_FORM}, more than nothing")
    return cost


_READERS: dict[Metric, Callable[[object], Bound]] = {
    Metric.GOODPUT: _rate_or_share,
    Metric.SUM: _rate_or_share,
    Metric.SHARE: parse_fraction,
    Metric.FAIRNESS: parse_fraction,
    Metric.TOLERANCE: Tolerance.parse,
    Metric.RETRANSMITS: _part,
    Metric.LOSS: _part,
    Metric.LATENCY: _latency,
    Metric.CPU: _cpu,
}


def parse_bound(metric: Metric, value: object) -> Bound:
    """Read what somebody wrote as the limit of ``metric``. Raises ValueError that says what is accepted."""
    return _READERS[metric](value)


def parse_marginal(value: object) -> Share:
    """Read a marginal band: the part of its limit within which a figure that holds it is marginal (ValueError)."""
    band = Share.parse(_text(value, SHARE_FORM))
    if not 0 < band.fraction < 1:
        raise ValueError(f"{value!r} is no band; expected {SHARE_FORM}, more than 0% and less than 100%")
    return band
