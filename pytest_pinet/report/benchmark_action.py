"""Exports the values of a run as ``customBiggerIsBetter`` JSON of github-action-benchmark. Other tools read it, too."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_pinet.history.builds import name_of
from pytest_pinet.history.points import Point
from pytest_pinet.history.records import newest
from pytest_pinet.report.sentences import scales_text


def benchmark_action(points: Sequence[Point]) -> str:
    """Return a JSON list with name, unit, value, range and extra of each metric that has a value."""
    known = [point for point in newest(points) if point.goodput_bps is not None or point.packets_per_second is not None]
    return json.dumps([_entry(point) for point in known], indent=1) + "\n"


def _entry(point: Point) -> dict[str, object]:
    # Of exact boards, fewer instructions are better: a reader that takes larger values for better ones gets the rate.
    unit, value = "packets/s", point.packets_per_second
    if point.goodput_bps is not None:
        unit, value = "Mbit/s", point.goodput_bps / 1e6
    assert value is not None, "chosen for it"
    entry: dict[str, object] = {"name": point.figure, "unit": unit, "value": round(value, 3)}
    if point.goodput_bps is not None and point.interval_bps is not None:
        low, high = point.interval_bps
        entry["range"] = f"\u00b1 {max(point.goodput_bps - low, high - point.goodput_bps) / 1e6:.3f}"
    said = [f"verdict {point.verdict}", f"build {name_of(point.build)}", f"lab {point.lab}", f"run {point.run}"]
    if point.emulated:
        said.append("emulated, exact" if point.is_exact else "emulated")
    if point.packets_per_second is not None:
        said.append(f"{point.packets_per_second:.2f} packets per second")
    if point.instructions is not None:
        said.append(f"{point.instructions:.2f} instructions per packet")
    if scaled := scales_text([point.scale]):
        said.append(scaled)
    entry["extra"] = "\n".join(said)
    return entry
