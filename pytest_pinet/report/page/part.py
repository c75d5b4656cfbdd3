"""The page section on one combination: trends, level changes, and a table of its runs."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.history.points import Point
from pytest_pinet.report.charts.axis import rate_text
from pytest_pinet.report.charts.paper import written
from pytest_pinet.report.charts.trend import NARROW, shift_words, trend_chart, trend_words
from pytest_pinet.report.page.words import (
    anchor,
    current,
    kind,
    paragraph,
    runs_table,
    share_text,
    unbroken,
    verdict_html,
)
from pytest_pinet.report.series import FigureSeries
from pytest_pinet.report.text_wrap import first_paragraph

_NARROW_RUNS = 24
# Half a year of daily runs, unless the page becomes too large.
_MANY_RUNS, _USUAL_RUNS, _MANY_FIGURES = 180, 60, 60
# A longer table is not useful; the history has all runs.
_TABLE_RUNS = 60
_HEADS = ("time (UTC)", "verdict", "goodput", "interval", "limit", "of max", "build", "why")


def runs_shown(figures: int) -> int:
    """Return the number of runs in each chart of a page with ``figures`` series."""
    return _MANY_RUNS if figures <= _MANY_FIGURES else _USUAL_RUNS


def combination_section(combination: str, all_series: Sequence[FigureSeries], runs: int) -> str:
    """Return the page section on one combination."""
    # Series without any value come last.
    ordered = sorted(all_series, key=lambda series: not series.measured)
    figures = "".join(_figure(series, runs) for series in ordered)
    good = all(kind(series.latest.verdict) == "good" for series in current(all_series))
    look = "good" if good else "bad"
    return f'<article class="{look}"><h2>{written(combination)}</h2>{figures}</article>'


def _figure(series: FigureSeries, runs: int) -> str:
    dot = series.latest
    name = " ".join(filter(None, (series.traffic, series.direction))) or "runs without a result"
    lines = [f'<h3 id="{anchor(series.key)}" tabindex="-1">{written(name)}</h3>']
    state = [verdict_html(dot.verdict)]
    if dot.goodput_bps is not None:
        state.append(f'<span class="figure">{rate_text(dot.goodput_bps)}</span>')
        state.append(f"{share_text(dot)} of the physical limit" if share_text(dot) else "")
    state += [written(f"limit {rate_text(dot.limit_bps)}") if dot.limit_bps is not None else "no limit"]
    state += [written(f"on {dot.build_name}"), f"{dot.time:%Y-%m-%d %H:%M} UTC"]
    lines.append(f"<p>{' · '.join(filter(None, state))}</p>")
    if dot.reason:
        lines.append(paragraph(first_paragraph(dot.reason), "note"))
    if dot.limited_by:
        lines.append(paragraph(f"Limited by {dot.limited_by}", "note"))
    if series.shifts:
        items = "".join(f"<li>{unbroken(shift_words(shift))}</li>" for shift in series.shifts)
        lines.append(f"<p>Where its level moved:</p><ul>{items}</ul>")
    if series.measured:
        wide, narrow = trend_chart(series, runs), trend_chart(series, _NARROW_RUNS, NARROW)
        lines.append(f'<div class="chart wide">{wide.inline()}</div><div class="chart narrow">{narrow.inline()}</div>')
    else:
        # A series with a traffic name but without values is a ping, which never has goodput.
        lines.append(paragraph("No goodput, and so no trend." if series.traffic else trend_words(series), "muted"))
    lines.append(_runs(series))
    return "".join(lines)


def _runs(series: FigureSeries) -> str:
    """Return the chart's data as a table, for screen readers and for copying."""
    dots = list(series.dots)[-_TABLE_RUNS:][::-1]
    of = f" (of {len(series.dots)})" if len(dots) < len(series.dots) else ""
    return (
        f"<details><summary>Newest {len(dots)} runs{of} as a table</summary>"
        f"{runs_table(f'Runs of {series.figure}', _HEADS, map(_row, dots))}</details>"
    )


def _row(dot: Point) -> str:
    numbers = [
        rate_text(dot.goodput_bps) if dot.goodput_bps is not None else "-",
        " to ".join(map(rate_text, dot.interval_bps)) if dot.interval_bps is not None else "-",
        rate_text(dot.limit_bps) if dot.limit_bps is not None else "-",
        share_text(dot) or "-",
    ]
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    why = written(first_paragraph(dot.reason))
    return (
        f"<tr><td>{dot.time:%Y-%m-%d %H:%M}</td><td>{verdict_html(dot.verdict)}</td>{cells}"
        f"<td>{written(dot.build_name)}</td><td>{why}</td></tr>"
    )
