"""Exports the values of a run as OpenMetrics text, for Prometheus and other readers of its format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_pinet.history.builds import name_of
from pytest_pinet.history.points import Point
from pytest_pinet.model.verdict import SEVERITY


def openmetrics(points: Sequence[Point]) -> str:
    """Return one exposition. If a metric was measured several times, the last value counts.

    The values have no timestamps, because the text file collector of node_exporter and the Pushgateway reject those.
    """
    newest = {(point.lab, point.figure): point for point in points}.values()
    lines: list[str] = []
    rates = (
        ("goodput", "Goodput at the receiver.", [(p, p.goodput_bps) for p in newest]),
        ("limit", "Lowest goodput that meets the limit.", [(p, p.limit_bps) for p in newest]),
        ("physical_limit", "Most goodput that the wire or the bus can carry.", [(p, p.oracle_bps) for p in newest]),
    )
    for name, text, values in rates:
        known = [(_labels(point), value) for point, value in values if value is not None]
        lines += _family(f"pinet_{name}_bits_per_second", "gauge", text, known, "bits_per_second")
    counts = [(_labels(point), point.instructions) for point in newest if point.instructions is not None]
    if counts:
        text = "Instructions for each packet on an exact board."
        lines += _family("pinet_instructions_per_packet", "gauge", text, counts)
    times = [(_labels(point), point.time.timestamp()) for point in newest]
    lines += _family("pinet_measured_timestamp_seconds", "gauge", "Time of the measurement.", times, "seconds")
    states = [
        (_labels(point, ("pinet_verdict", verdict.value)), float(point.verdict is verdict))
        for point in newest
        for verdict in SEVERITY
    ]
    lines += _family("pinet_verdict", "stateset", "Verdict on the metric.", states)
    builds = [(_labels(point, ("build", name_of(point.build)), ("run", point.run)), 1.0) for point in newest]
    lines += _family("pinet_build", "info", "Build that was measured.", builds, suffix="_info")
    return "\n".join([*lines, "# EOF", ""])


def _family(
    name: str, kind: str, text: str, values: Iterable[tuple[str, float]], unit: str = "", suffix: str = ""
) -> list[str]:
    lines = [f"# TYPE {name} {kind}"]
    if unit:
        lines.append(f"# UNIT {name} {unit}")
    lines.append(f"# HELP {name} {text}")
    return lines + [f"{name}{suffix}{labels} {value!r}" for labels, value in values]


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
