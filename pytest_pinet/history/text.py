"""Describes a trend in words for the terminal, and as data for JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict

from pytest_pinet.history.differences import name_of
from pytest_pinet.history.points import LevelChange, Point, StoredGate, StoredRun, Trend
from pytest_pinet.history.results_file import moment
from pytest_pinet.model.verdict import GATE, SEVERITY, Verdict

# Eight heights, the lowest first: for any terminal, and for a terminal that can show block characters.
ASCII_HEIGHTS = "_.-~=+*#"
BLOCK_HEIGHTS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_SPARKS = 40
_LEAST_RANGE = 0.02


def figure_lines(trend: Trend, heights: str = ASCII_HEIGHTS) -> list[str]:
    """Return a metric's newest value, its course, and where its level moved."""
    last = trend.last
    if last is None:
        return [f"{trend.figure}: no runs"]
    measured = [point for point in trend.points if point.value is not None]
    values = [point.value for point in measured if point.value is not None]
    value, show = _value_text(last), last.kind.show
    emulated = " emulated" if last.emulated else ""
    runs = f"{len(trend.points)} run{'s' if len(trend.points) != 1 else ''}"
    when = f"{last.time:%Y-%m-%d}  {runs}  lab {trend.lab}"
    lines = [f"{trend.figure}  {value}{emulated}  {last.verdict}  {when}"]
    if len(measured) > 1:
        lines.append(f"  [{spark(measured, heights)}] {show(min(values))} to {show(max(values))}")
    lines += [f"  {line}" for change in trend.changes for line in change_lines(change)]
    return lines


def change_lines(change: LevelChange) -> list[str]:
    """Describe where a level moved, the builds before and after, and how certain the place is."""
    show = change.kind.show
    levels = f"{show(change.before)} -> {show(change.after)} ({change.relative * 100:+.1f} %)"
    if change.gradual:
        begin = f"drifts from run {change.last_before} to {change.run} ({change.time:%Y-%m-%d})"
        return [f"{begin}: {levels}; no single build is the cause"]
    builds = f"build before: {name_of(change.build_before)}; after: {name_of(change.build_after)}"
    what = "; ".join(change.differs) if change.differs else "the build is the same: look at the lab"
    lines = [f"moved at run {change.run} ({change.time:%Y-%m-%d}): {levels}", f"  {builds}", f"  differs: {what}"]
    if change.first_possible != change.last_possible:
        lines.append(f"  the change may have begun between run {change.first_possible} and {change.last_possible}")
    return lines


def heights_for(encoding: str | None) -> str:
    """Return the heights that a terminal or a file of this encoding can show. Without an encoding: plain ASCII.

    The console of Linux and a dumb terminal can decode block characters, but have no such characters in their fonts.
    """
    if os.environ.get("TERM") in ("dumb", "linux"):
        return ASCII_HEIGHTS
    try:
        BLOCK_HEIGHTS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII_HEIGHTS
    return BLOCK_HEIGHTS


def course(values: Collection[float], heights: str = ASCII_HEIGHTS) -> str:
    """Return the course of values as one character each."""
    if not values:
        return ""
    low, high = min(values), max(values)
    # A flat course must look flat, so noise is not enlarged.
    room = max(high - low, high * _LEAST_RANGE) or 1.0
    low = min(low, (low + high - room) / 2)
    last = len(heights) - 1
    return "".join(heights[min(math.floor((value - low) / room * len(heights)), last)] for value in values)


def spark(points: Sequence[Point], heights: str = ASCII_HEIGHTS) -> str:
    """Return the course of at most 40 values as one character each; ``!`` for a failed one."""
    shown = points[-_SPARKS:]
    marks = course([point.value or 0.0 for point in shown], heights)
    return "".join("!" if point.verdict is Verdict.FAIL else mark for point, mark in zip(shown, marks, strict=True))


def _value_text(point: Point) -> str:
    """Return what is judged: the instructions of an exact board, or its rate if none were counted; else the value."""
    if point.instructions is not None:
        return f"{point.instructions:.2f} instructions"
    if point.packets_per_second is not None:
        return f"{point.packets_per_second:.2f} pps in virtual time"
    return "no value" if point.value is None else point.kind.show(point.value)


def run_lines(runs: Sequence[StoredRun]) -> list[str]:
    """A line for each run, oldest first."""
    lines = []
    for run in runs:
        verdicts = ", ".join(f"{run.verdicts[v]} {v}" for v in map(str, SEVERITY) if run.verdicts.get(v))
        if run.change is not None:
            verdicts = gate_text(run.change)
        rest = "" if run.complete else "  interrupted"
        lines.append(f"{_run_text(run)}  {verdicts or 'nothing measured'}{rest}")
    return lines or ["no runs"]


def gate_text(gate: StoredGate) -> str:
    """Return the builds of a gate and its verdict in a word."""
    return f"gate of {gate.b.name} against {gate.a.name or 'the running build'}: {GATE[gate.verdict].change}"


def gate_lines(run: StoredRun) -> list[str]:
    """Return the gate of a run: its verdict, and each metric with its change."""
    gate = run.change
    if gate is None:
        return []
    lines = [f"{_run_text(run)}  {gate_text(gate)}", f"  {gate.sentence}"]
    for one in gate.entries:
        change = "" if one.change is None else f"  {one.change * 100:+.2f} %"
        if one.instructions is not None:
            change = "  {:.2f} -> {:.2f} instructions".format(*one.instructions)
        elif one.change is not None and one.interval is not None:
            change += f" ({one.interval[0] * 100:+.2f} to {one.interval[1] * 100:+.2f} %)"
        lines.append(f"  {one.figure}{change}  {gate.word(one)}")
    return lines


def _run_text(run: StoredRun) -> str:
    return f"{run.id}  {moment(run.started):%Y-%m-%d %H:%M}  lab {run.lab}"


def trend_record(trend: Trend) -> dict[str, object]:
    """Return a trend as plain data: values in their unit, times in ISO 8601."""
    return {
        "figure": trend.figure,
        "lab": trend.lab,
        "unit": trend.kind.unit,
        "better": trend.kind.better.value,
        "points": [
            {
                "run": point.run,
                "time": point.time.isoformat(),
                "value": point.value,
                **({"instructions": point.instructions} if point.instructions is not None else {}),
                "verdict": point.verdict.value,
                "limit": point.limit,
                "build": dict(point.build),
                "emulated": point.emulated,
            }
            for point in trend.points
        ],
        "changes": [
            {name: value for name, value in asdict(change).items() if name != "kind"}
            | {"time": change.time.isoformat(), "relative": change.relative}
            for change in trend.changes
        ],
    }
