"""The whole report page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pytest_pinet.history.points import Point
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import SEVERITY
from pytest_pinet.report.charts.paper import DARK, LIGHT, rules, variables, written
from pytest_pinet.report.charts.trend import NARROW, shift_words, sparkline, trend_chart, trend_words
from pytest_pinet.report.diagrams.facts import count
from pytest_pinet.report.page.change import change_section
from pytest_pinet.report.page.words import (
    anchor,
    current,
    kind,
    lead,
    paragraph,
    runs_table,
    share_text,
    unbroken,
    verdict_html,
)
from pytest_pinet.report.sentences import scales_text
from pytest_pinet.report.text_wrap import first_paragraph, rate
from pytest_pinet.report.trends import FigureSeries

_STYLE = Path(__file__).with_name("style.css")
# The browser may only display this page: no scripts, no network.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_MOST_CHANGES = 20
_NARROW_RUNS = 24
# Half a year of daily runs, unless the page becomes too large.
_MANY_RUNS, _USUAL_RUNS, _MANY_FIGURES = 180, 60, 60
# A longer table is not useful; the history has all runs.
_TABLE_RUNS = 60
_HEADS = ("time (UTC)", "verdict", "goodput", "interval", "limit", "of max", "build", "why")
# The text below the grid explains the share. A screen reader needs the explanation at each share.
_OF = '<span class="away"> of the physical limit</span>'


def page(all_series: Sequence[FigureSeries], made: datetime, changed: RunRecord | None = None) -> str:
    """Return the report as one HTML file. The newest A/B run comes first."""
    shown = [series for series in all_series if series.dots]
    labs = sorted({series.lab for series in shown})
    title = f"Network throughput of lab {labs[0]}" if labs and len(labs) == 1 and labs[0] else "Network throughput"
    by_lab = [[series for series in shown if series.lab == lab] for lab in labs]
    grids = "".join(
        (f"<h3>Lab {written(lab)}</h3>" if len(labs) > 1 else "") + _grid(current(own))
        for lab, own in zip(labs, by_lab, strict=True)
    )
    runs = _MANY_RUNS if len(shown) <= _MANY_FIGURES else _USUAL_RUNS
    parts = "".join(_parts(own, runs) for own in by_lab)
    style = (
        f":root{{{variables(LIGHT)}}}@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}"
        f"{rules()}{_STYLE.read_text(encoding='utf-8')}"
    )
    change = change_section(changed, changed.change) if changed is not None and changed.change is not None else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{written(title)}</title><style>{style}</style></head><body>"
        f'<a class="skip" href="#{"figures" if shown or changed is None else "change"}">Skip to the results</a>'
        f"<header><h1>{written(title)}</h1>{_lead(shown, changed)}{_facts(shown)}</header><main>"
        f"{change}{_attention(shown)}"
        f"{_figures(grids) if shown or changed is None else ''}{parts}</main>"
        f"<footer><p>Made by pytest-pinet on {made:%Y-%m-%d %H:%M} UTC.</p></footer></body></html>\n"
    )


def _lead(shown: Sequence[FigureSeries], changed: RunRecord | None) -> str:
    """Return the summary sentence, unless the page shows only a change, which has its own sentence."""
    return paragraph(lead(current(shown)), "lead") if shown or changed is None else ""


def _figures(grids: str) -> str:
    return (
        '<section id="figures" aria-labelledby="figures-head"><h2 id="figures-head">Newest results</h2>'
        '<label class="filter"><input type="checkbox" id="only-bad">only what is not good</label>'
        f"{grids}"
        '<p class="muted">Each cell: verdict, goodput at the receiver, its share of what the link can physically '
        "carry, and its newest runs with the limit dashed.</p></section>"
    )


def _grid(all_series: Sequence[FigureSeries]) -> str:
    """Return a table. On narrow screens each row becomes a card; its roles keep it a table for screen readers."""
    boards = sorted({series.combination.board for series in all_series})
    nics = sorted({series.combination.nic for series in all_series})
    cells: dict[tuple[str, str], list[FigureSeries]] = {}
    for series in all_series:
        cells.setdefault((series.combination.nic, series.combination.board), []).append(series)
    head = "".join(f'<th role="columnheader" scope="col">{written(board)}</th>' for board in boards)
    rows = []
    for nic in nics:
        columns = "".join(_cell(board, cells.get((nic, board), ())) for board in boards)
        rows.append(f'<tr role="row"><th role="rowheader" scope="row">{written(nic)}</th>{columns}</tr>')
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Results by board and NIC">'
        '<table class="grid" role="table"><thead role="rowgroup"><tr role="row">'
        f'<th role="columnheader" scope="col">NIC \\ board</th>{head}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(rows)}</tbody></table></div>'
    )


def _cell(board: str, found: Sequence[FigureSeries]) -> str:
    if not found:
        return '<td role="cell" class="none">-</td>'
    ordered = sorted(found, key=lambda series: (SEVERITY.index(series.latest.verdict), series.figure))
    return f'<td role="cell" data-board="{written(board)}">{"".join(map(_grid_figure, ordered))}</td>'


def _grid_figure(series: FigureSeries) -> str:
    """Return one result of a cell, as a link to its section."""
    dot, here = series.latest, series.combination
    what = " ".join(filter(None, (here.topology, here.tuning, series.traffic, series.direction)))
    value = rate(dot.goodput_bps) if dot.goodput_bps is not None else "no rate" if series.traffic else "no value"
    share = share_text(dot)
    return (
        f'<a class="cell {kind(dot.verdict)}" href="#{anchor(series.key)}">'
        f'<span class="what">{written(what)}</span>{verdict_html(dot.verdict)}'
        f'<span class="figure">{value}</span>'
        f'<span class="share">{share}{_OF if share else ""}</span>'
        f'<span class="spark">{sparkline(series).inline(label=False)}</span></a>'
    )


def _parts(of_lab: Sequence[FigureSeries], runs: int) -> str:
    combinations: dict[str, list[FigureSeries]] = {}
    for series in of_lab:
        combinations.setdefault(str(series.combination), []).append(series)
    return "".join(_combination(name, combinations[name], runs) for name in sorted(combinations))


def _facts(shown: Sequence[FigureSeries]) -> str:
    if not shown:
        return ""
    newest = max((series.latest for series in shown), key=lambda dot: dot.time)
    runs = {dot.run for series in shown for dot in series.dots}
    first = min(series.dots[0].time for series in shown)
    metrics = sum(bool(series.measured) for series in shown)
    combinations = len({series.combination for series in shown})
    lines = paragraph(
        f"{count(metrics, 'metric')} of {count(combinations, 'combination')}, {count(len(runs), 'run')} since "
        f"{first:%Y-%m-%d}; newest {newest.time:%Y-%m-%d %H:%M} UTC on {newest.build_name}.",
        "muted",
    )
    if any(dot.emulated for series in shown for dot in series.dots):
        lines += paragraph(
            "Values are emulated: the lab sets the rates of its links itself, or counts instructions.", "note"
        )
    if scaled := scales_text(dot.scale for series in shown for dot in series.dots):
        some = "In some runs" if any(dot.scale == 1 for series in shown for dot in series.dots) else "In all runs"
        lines += paragraph(f"{some} {scaled}.", "note")
    return lines


def _attention(shown: Sequence[FigureSeries]) -> str:
    """Return the results that are not good now, and the level changes, newest first."""
    bad = [series for series in current(shown) if kind(series.latest.verdict) == "bad"]
    items = [
        f'<li>{verdict_html(series.latest.verdict)} <a href="#{anchor(series.key)}">{written(series.figure)}</a>'
        f" {unbroken(series.latest.reason.strip().partition(chr(10))[0])}</li>"
        for series in bad
    ]
    moved = [
        (dot.time, series, shift)
        for series in shown
        for shift in series.shifts
        for dot in series.dots
        if dot.run == shift.run
    ]
    newest = sorted(moved, key=lambda one: (one[0], one[1].figure), reverse=True)
    changes = [
        f'<li>{when:%Y-%m-%d} <a href="#{anchor(series.key)}">{written(series.figure)}</a> '
        f"{unbroken(shift_words(shift))}</li>"
        for when, series, shift in newest[:_MOST_CHANGES]
    ]
    if len(newest) > _MOST_CHANGES:
        changes.append(f"<li>and {len(newest) - _MOST_CHANGES} older ones</li>")
    found = f"<h2>What needs attention</h2><ul>{''.join(items)}</ul>" if items else ""
    found += f"<h2>Level changes</h2><ul>{''.join(changes)}</ul>" if changes else ""
    return f"<section>{found}</section>" if found else ""


def _combination(combination: str, all_series: Sequence[FigureSeries], runs: int) -> str:
    """Return the section on one combination: trends, level changes, and a table of its runs."""
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
        state.append(f'<span class="figure">{rate(dot.goodput_bps)}</span>')
        state.append(f"{share_text(dot)} of the physical limit" if share_text(dot) else "")
    state += [written(f"limit {rate(dot.limit_bps)}") if dot.limit_bps is not None else "no limit"]
    state += [written(f"on {dot.build_name}"), f"{dot.time:%Y-%m-%d %H:%M} UTC"]
    lines.append(f"<p>{' · '.join(filter(None, state))}</p>")
    if dot.reason:
        lines.append(paragraph(first_paragraph(dot.reason), "note"))
    if dot.limited_by:
        lines.append(paragraph(f"Limited by {dot.limited_by}", "note"))
    if series.shifts:
        items = "".join(f"<li>{unbroken(shift_words(shift))}</li>" for shift in series.shifts)
        lines.append(f"<p>Level changes:</p><ul>{items}</ul>")
    if series.measured:
        wide, narrow = trend_chart(series, runs), trend_chart(series, _NARROW_RUNS, NARROW)
        lines.append(f'<div class="chart wide">{wide.inline()}</div><div class="chart narrow">{narrow.inline()}</div>')
    else:
        # A series with a traffic name but without values is a ping, which never has goodput.
        words = "This metric has no goodput, so there is no trend." if series.traffic else trend_words(series)
        lines.append(paragraph(words, "muted"))
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
        rate(dot.goodput_bps) if dot.goodput_bps is not None else "-",
        " to ".join(map(rate, dot.interval_bps)) if dot.interval_bps is not None else "-",
        rate(dot.limit_bps) if dot.limit_bps is not None else "-",
        share_text(dot) or "-",
    ]
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    why = written(first_paragraph(dot.reason))
    return (
        f"<tr><td>{dot.time:%Y-%m-%d %H:%M}</td><td>{verdict_html(dot.verdict)}</td>{cells}"
        f"<td>{written(dot.build_name)}</td><td>{why}</td></tr>"
    )
