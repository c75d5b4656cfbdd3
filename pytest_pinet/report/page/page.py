"""The whole report page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from markupsafe import Markup

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.differences import release_of
from pytest_pinet.history.points import EMULATED, RUN, SCALE, VERDICT, Point, StoredRun
from pytest_pinet.model.record.change import EXACT
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.charts.paper import COLOURS, DARK, LIGHT, rules, variables
from pytest_pinet.report.charts.trend import shift_words, sparkline, trend_words
from pytest_pinet.report.page.change import GATE_HEADS, change_section, earlier_gates
from pytest_pinet.report.page.panels import CombinationChart, PageData, PageLinks
from pytest_pinet.report.page.templating import (
    anchor,
    current,
    hash_of,
    kind,
    lead,
    look,
    loss_sentence,
    marks,
    metric_name,
    own_file,
    render,
    share_text,
)
from pytest_pinet.report.sentences import changes_text, scales_text
from pytest_pinet.report.text_wrap import count, first_paragraph, value_text
from pytest_pinet.report.trends import FigureSeries

_MOST_CHANGES = 20
# Fewer results are seen at a glance, without filters.
_FILTERED = 8


@dataclass(frozen=True)
class Grid:
    """The newest results of one lab: the metrics of each NIC and board, the worst first."""

    boards: Sequence[str]
    nics: Sequence[str]
    cells: dict[tuple[str, str], list[dict[str, object]]]


def page(
    all_series: Sequence[FigureSeries],
    made: datetime,
    changed: RunRecord | None = None,
    links: PageLinks | None = None,
    gates: Sequence[StoredRun] = (),
    folder: Path | None = None,
    reviewed: bool = True,
) -> str:
    """Return the report as one HTML file. The newest A/B run, whose files are in ``folder``, comes first.

    ``gates`` are runs of the history. ``reviewed``: what users accepted or acknowledged is known.
    """
    links = links or PageLinks()
    shown = [series for series in all_series if series.points]
    labs = sorted({series.lab for series in shown})
    by_lab = {lab: [series for series in shown if series.lab == lab] for lab in labs}
    data = PageData(links)
    combinations = [
        _combination(own, data, links, lab if len(labs) > 1 else "")
        for lab in labs
        for own in _by_combination(by_lab[lab])
    ]
    change = Markup()
    if changed is not None and changed.change is not None:
        change = change_section(changed, changed.change, links.folder(str(folder or "")))
    moved = _moved(shown)
    newest = current(shown)
    earlier = earlier_gates(gates, changed)
    style = f":root{{{variables(LIGHT)}}}@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}{rules()}"
    script = own_file("page.js")
    verdicts = {verdict for series in shown for verdict in series.points.column(VERDICT)}
    title = f"Network throughput of lab {labs[0]}" if len(labs) == 1 and labs[0] else "Network throughput"
    gates_title = "Gated changes"
    if changed is not None and changed.change is not None and changed.change.baseline == EXACT:
        gates_title = f"Earlier gates of {changed.change.b.name}"
        title = title if shown else f"Exact gate of {changed.change.b.name}"
    return render(
        "page.html",
        title=title,
        gates_title=gates_title,
        style=Markup(style) + own_file("style.css"),
        script=script,
        script_hash=hash_of(script),
        marks=marks(),
        metrics=bool(shown) or not (change or earlier),
        filters=len(newest) >= _FILTERED,
        lead=lead(newest),
        facts=_facts(shown, reviewed),
        notes=_notes(shown),
        change=change,
        gates=earlier,
        exact_heads=GATE_HEADS,
        attention=_attention(shown, made.date()),
        known=_losses(shown, made.date(), are_open=False),
        moved=moved[:_MOST_CHANGES],
        more_moved=max(len(moved) - _MOST_CHANGES, 0),
        grids=[(lab, _grid(current(own))) for lab, own in by_lab.items()],
        has_baselines=any(series.band is not None for series in shown),
        shown_verdicts=[one for one in reversed(SEVERITY) if one in verdicts],
        combinations=combinations,
        made=f"{made:%Y-%m-%d %H:%M}",
        data=data.markup(),
    )


def _by_combination(of_lab: Sequence[FigureSeries]) -> list[list[FigureSeries]]:
    """Return the series of each combination, by name. Series without any value come last."""
    found = grouped((str(series.combination), series) for series in of_lab)
    return [sorted(found[name], key=lambda series: not series.measured) for name in sorted(found)]


def _grid(all_series: Sequence[FigureSeries]) -> Grid:
    cells: dict[tuple[str, str], list[dict[str, object]]] = {}
    for series in sorted(all_series, key=lambda one: (SEVERITY.index(one.latest.verdict), one.figure)):
        here, dot = series.combination, series.latest
        cells.setdefault((here.nic, here.board), []).append({
            "series": series,
            "what": " ".join(filter(None, (here.topology, here.tuning, series.traffic, series.direction))),
            "value": value_text(dot.value, dot.kind, "no value"),
            "share": share_text(dot),
            "look": look(series),
            "level": changes_text(series.level),
            "spark": Markup(sparkline(series).inline(label=False)),
        })  # fmt: skip
    return Grid(sorted({board for _, board in cells}), sorted({nic for nic, _ in cells}), cells)


def _facts(shown: Sequence[FigureSeries], reviewed: bool) -> str:
    """Return what was measured, since when, how new it is, and whether decisions of users were read."""
    if not shown:
        return ""
    newest = max((series.latest for series in shown), key=lambda dot: dot.time)
    runs = {run for series in shown for run in series.points.column(RUN)}
    first = min(series.points[0].time for series in shown)
    combinations = len({series.combination for series in shown})
    # The driver is that of one NIC.
    release = release_of(newest.build.get("uname"))
    kernel = f" on {release}" if release else ""
    unsure = not reviewed and any(series.level.loss is not None for series in shown)
    unknown = " Made without the lab file: accepted or acknowledged losses may look open." if unsure else ""
    metrics = f"{count(len(current(shown)), 'metric')} of {count(combinations, 'combination')}"
    return (
        f"{metrics}, {count(len(runs), 'run')} since "
        f"{first:%Y-%m-%d}; newest {newest.time:%Y-%m-%d %H:%M} UTC{kernel}.{unknown}"
    )


def _notes(shown: Sequence[FigureSeries]) -> list[str]:
    """Return what is to be known of all values."""
    found = []
    if any(True in series.points.column(EMULATED) for series in shown):
        found.append("Values are emulated: the lab sets the rates of its links itself.")
    scales = {scale for series in shown for scale in series.points.column(SCALE)}
    if scaled := scales_text(scales):
        found.append(f"{'In some runs' if 1 in scales else 'In all runs'} {scaled}.")
    return found


def _losses(shown: Sequence[FigureSeries], today: date, are_open: bool) -> list[tuple[FigureSeries, str]]:
    """Return the open losses or the acknowledged ones, the largest first, each with its size and its cause."""
    losses = ((series.level.loss, series) for series in current(shown))
    found = [(loss, series) for loss, series in losses if loss is not None and loss.is_open is are_open]
    found.sort(key=lambda one: (-abs(one[0].relative), one[1].figure))
    return [(series, loss_sentence(loss, today)) for loss, series in found]


def _attention(shown: Sequence[FigureSeries], today: date) -> list[tuple[FigureSeries, bool, str]]:
    """Return the results that are not good now, then the open losses, the largest first.

    Each has whether it is a loss, and why it needs attention.
    """
    bad = [series for series in current(shown) if kind(series.latest.verdict) == "bad"]
    found = [(series, False, first_paragraph(series.latest.reason)) for series in bad]
    return found + [(series, True, text) for series, text in _losses(shown, today, are_open=True)]


def _moved(shown: Sequence[FigureSeries]) -> list[tuple[datetime, FigureSeries, str]]:
    """Return the level changes, newest first, without the changes of losses, which have lists of their own."""
    found = [
        (shift.time, series, shift_words(shift))
        for series in shown
        for shift in series.changes
        if (loss := series.level.loss) is None or loss.change is not shift
    ]
    return sorted(found, key=lambda one: (one[0], one[1].figure), reverse=True)


def _combination(all_series: Sequence[FigureSeries], data: PageData, links: PageLinks, lab: str) -> Markup:
    """Return the section on one combination: a panel for each metric, notes, level changes.

    ``lab`` is the name of its lab if the page has several.
    """
    chart = CombinationChart(all_series)
    of = all_series[0].combination
    key = f"trends-{anchor(f'{all_series[0].lab} {of}')}"
    data.add(key, chart, all_series)
    newest = current(all_series)
    # Runs without a result are marks on the axis, unless the combination has nothing else.
    drawn = [series for series in all_series if series.measured or series.traffic] or all_series
    latest = max((series.latest for series in all_series), key=lambda dot: dot.time)
    # The words by which a reader can filter the metrics.
    words = {series.latest.verdict.value for series in newest}
    words |= {"moved" for series in newest if series.level.loss is not None}
    return render(
        "combination.html",
        key=key,
        of=of,
        lab=lab,
        look="good" if all(look(series) == "good" for series in newest) else "bad",
        verdicts=" ".join(sorted(words)),
        panels=[_panel(series, chart) for series in drawn],
        hidden=[series for series in all_series if series not in drawn],
        newest=f"{latest.time:%Y-%m-%d %H:%M} UTC, {latest.build_name}",
        axis=chart.axis(),
        notes=_series_notes(newest),
        shifts=[f"{metric_name(series)}: {shift_words(shift)}" for series in all_series for shift in series.changes],
        runs=count(len(chart.runs), "run"),
        links=_links(chart, latest, links),
        raw=_raw_files(newest, links),
    )


def _panel(series: FigureSeries, chart: CombinationChart) -> dict[str, object]:
    dot = series.latest
    # A series with a traffic name but without values is a ping, which never has goodput.
    trend = trend_words(series)
    words = "This metric has no value, so there is no trend." if series.traffic else trend
    return {
        "series": series,
        "name": metric_name(series),
        "value": value_text(dot.value, dot.kind, ""),
        "share": share_text(dot),
        "limit": f"limit {value_text(dot.limit, dot.kind)}" if dot.limit is not None else "no limit",
        "level": changes_text(series.level),
        "svg": chart.panel(series, f"Trend of {series.figure}: {trend}") if series.measured else "",
        "words": words,
    }


def _series_notes(all_series: Sequence[FigureSeries]) -> list[tuple[str, str]]:
    """Return why verdicts are not good, and what limited the goodput, each with its look.

    Metrics for which the same holds share a note.
    """
    found: list[tuple[tuple[str, str], str]] = []
    for series in all_series:
        dot, name = series.latest, metric_name(series)
        if dot.reason and (dot.verdict is Verdict.MARGINAL or kind(dot.verdict) == "bad"):
            found.append(((COLOURS[dot.verdict], first_paragraph(dot.reason)), name))
        if dot.limited_by:
            found.append((("", f"limited by {dot.limited_by}"), name))
    return [(look, f"{', '.join(names)}: {text}") for (look, text), names in grouped(found).items()]


def _raw_files(all_series: Sequence[FigureSeries], links: PageLinks) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the raw files of each newest result with their addresses, below its metrics and the number of files."""
    found = grouped(((one.latest.folder, one.latest.artefacts), metric_name(one)) for one in all_series)
    listed = [
        (names, [(name.rpartition("/")[2], href) for name in files if (href := links.file(folder, name))])
        for (folder, files), names in found.items()
    ]
    return [(f"{count(len(files), 'raw file')} of {', '.join(names)}", files) for names, files in listed if files]


def _links(chart: CombinationChart, latest: Point, links: PageLinks) -> list[tuple[str, str]]:
    """Return the links of the newest run: its results and commit, and the run before it."""
    found = [("results.json", address)] if (address := links.file(latest.folder, "results.json")) else []
    before = [run for run in chart.runs if run.run != latest.run]
    if before and (there := links.folder(before[-1].folder)):
        found.append((f"previous run, {before[-1].time:%Y-%m-%d}", f"{there}/results.json"))
    name, address = links.commit(latest.build)
    return [*found, *([(f"commit {name}", address)] if address else [])]
