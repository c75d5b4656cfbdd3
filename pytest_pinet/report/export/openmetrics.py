"""Exports the values of a run for Prometheus: as OpenMetrics text, and in Prometheus' own text format.

The Pushgateway and node_exporter take Prometheus' own format. Both refuse the types ``stateset`` and ``info`` of
OpenMetrics (Pushgateway 1.5.1: ``unknown metric type "stateset"``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_pinet.history.differences import name_of
from pytest_pinet.history.points import Point
from pytest_pinet.history.records import newest
from pytest_pinet.model.figures import GOODPUT, Better, Figure
from pytest_pinet.model.verdict import SEVERITY


@dataclass(frozen=True)
class MetricFamily:
    """One family of samples: the labels and the value of each. ``suffix`` belongs to the names of its samples."""

    name: str
    kind: str
    text: str
    samples: Sequence[tuple[str, float]]
    unit: str = ""
    suffix: str = ""

    @property
    def lines(self) -> list[str]:
        """The samples as text."""
        return [f"{self.name}{self.suffix}{labels} {value!r}" for labels, value in self.samples]


def openmetrics(points: Sequence[Point]) -> str:
    """Return one exposition. If a metric was measured several times, the last value counts.

    The values have no timestamps, because the text file collector of node_exporter and the Pushgateway reject those.
    """
    lines: list[str] = []
    for family in families(points):
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        lines += [f"# HELP {family.name} {family.text}", *family.lines]
    return "\n".join([*lines, "# EOF", ""])


def families(points: Sequence[Point]) -> Iterator[MetricFamily]:
    """Yield all families. If a metric was measured several times, its last value counts."""
    latest = newest(points)
    goodput = [point for point in latest if point.kind == GOODPUT]
    rates = (
        ("goodput", "Goodput at the receiver.", [p.value for p in goodput]),
        ("limit", "Lowest goodput that meets the limit.", [p.limit for p in goodput]),
        ("physical_limit", "Most goodput that the wire or the bus can carry.", [p.oracle for p in goodput]),
    )
    for name, text, values in rates:
        known = _known(goodput, values)
        yield MetricFamily(f"pinet_{name}_bits_per_second", "gauge", text, known, "bits_per_second")
    for kind in dict.fromkeys(point.kind for point in latest if point.kind != GOODPUT):
        yield from _of_kind(kind, [point for point in latest if point.kind == kind])
    exact = (
        ("instructions_per_packet", "Instructions for each packet", [p.instructions for p in latest]),
        ("packets_per_second", "Packets (requests: answers) in virtual time", [p.packets_per_second for p in latest]),
    )
    for name, text, values in exact:
        if counts := _known(latest, values):
            yield MetricFamily(f"pinet_{name}", "gauge", f"{text} on an exact board.", counts)
    times = [(_labels(point), point.time.timestamp()) for point in latest]
    yield MetricFamily("pinet_measured_timestamp_seconds", "gauge", "Time of the measurement.", times, "seconds")
    states = [
        (_labels(point, ("pinet_verdict", verdict.value)), float(point.verdict is verdict))
        for point in latest
        for verdict in SEVERITY
    ]
    yield MetricFamily("pinet_verdict", "stateset", "Verdict on the metric.", states)
    builds = [(_labels(point, ("build", name_of(point.build)), ("run", point.run)), 1.0) for point in latest]
    yield MetricFamily("pinet_build", "info", "Build that was measured.", builds, suffix="_info")


# The base units of OpenMetrics, and the size of ours in them.
_UNITS = {
    "/s": ("per_second", 1.0),
    "s": ("seconds", 1.0),
    "share": ("ratio", 1.0),
    "/Gbit": ("per_gigabit", 1.0),
    "ms/Gbit": ("seconds_per_gigabit", 1e-3),
}


def _of_kind(kind: Figure, points: Sequence[Point]) -> Iterator[MetricFamily]:
    """Yield the families of values beside goodput: ``pinet_p50_seconds``, ``pinet_p50_limit_seconds``."""
    name = kind.name.removesuffix("-per-gbit").replace("-", "_")
    unit, size = _UNITS[kind.unit]
    word = "Highest" if kind.better is Better.DOWN else "Lowest"
    for part, text, values in (
        ("", f"Value {name}.", [p.value for p in points]),
        ("_limit", f"{word} {name} that meets the limit.", [p.limit for p in points]),
    ):
        if known := [(labels, value * size) for labels, value in _known(points, values)]:
            yield MetricFamily(f"pinet_{name}{part}_{unit}", "gauge", text, known, unit)


def _known(points: Sequence[Point], values: Sequence[float | None]) -> list[tuple[str, float]]:
    """Return the labels of the points that have a value, with the value."""
    return [(_labels(point), value) for point, value in zip(points, values, strict=True) if value is not None]


def _labels(point: Point, *more: tuple[str, str]) -> str:
    own = (
        ("figure", point.figure),
        ("combination", point.combination),
        ("direction", point.direction),
        ("lab", point.lab),
        ("emulated", "true" if point.emulated else "false"),
        *([("scale", f"{point.scale:g}")] if point.scale != 1 else []),
        *more,
    )
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in own) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def prometheus(points: Sequence[Point]) -> str:
    """Return the samples of ``openmetrics`` as gauges, without timestamps, which the Pushgateway refuses."""
    lines: list[str] = []
    for family in families(points):
        name = f"{family.name}{family.suffix}"
        lines += [f"# HELP {name} {family.text}", f"# TYPE {name} gauge", *family.lines]
    return "".join(f"{line}\n" for line in lines)
