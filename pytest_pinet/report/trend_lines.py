"""Formats the trend of each metric of a run as one line of the summary."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.builds import name_of
from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import Trend
from pytest_pinet.history.records import figure_of
from pytest_pinet.history.text import spark
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.text_wrap import WIDTH, plain, shorten

_RUNS = 16
# At most this many lines, the worst first. Reports show all.
_LINES = 40
_LABEL, _GAP = 34, "  "


def trend_lines(url: str | None, results: Sequence[ResultRecord], lab: str) -> list[str]:
    """Return a line for each metric with earlier runs, worst first. No lines without a history."""
    if url is None or not results:
        return []
    figures = {
        figure_of(result, way): Verdict(direction.verdict)
        for result in results
        for way, direction in result.directions.items()
    }
    ordered = sorted(figures, key=lambda figure: (SEVERITY.index(figures[figure]), figure))[:_LINES]
    try:
        with open_history(url) as history:
            found = [history.trend(figure, lab=lab) for figure in ordered]
    except ConfigError:
        # The summary already explains why there is no history.
        return []
    known = [trend for trend in found if sum(point.goodput_bps is not None for point in trend.points) > 1]
    if not known:
        return []
    labels = shorten([plain(trend.figure) for trend in known], _LABEL)
    widest = max(map(len, labels.values()))
    head = ["", f"trend of the last {_RUNS} runs, newest at the right (!: failed):"]
    return [*head, *(_line(labels[plain(trend.figure)].ljust(widest), trend) for trend in known)]


def _line(label: str, trend: Trend) -> str:
    course = spark([point for point in trend.points if point.goodput_bps is not None][-_RUNS:])
    line = f"{label}{_GAP}[{course}]"
    if trend.changes:
        change = trend.changes[-1]
        word = "drifting to" if change.gradual else "with"
        line += f"{_GAP}{change.relative * 100:+.1f} % {word} {name_of(change.build_after).partition(' ')[0]}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 2]}.."
