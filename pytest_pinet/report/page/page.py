"""The whole report page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from markupsafe import Markup

from pytest_pinet.history.builds import release_of
from pytest_pinet.history.points import EMULATED, RUN, SCALE, VERDICT, Point, StoredRun
from pytest_pinet.model.record.change import ChangeHeadRecord
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.model.verdict import SEVERITY
from pytest_pinet.report.charts.paper import DARK, LIGHT, clean, rules, variables
from pytest_pinet.report.charts.trend import shift_words, sparkline, trend_words
from pytest_pinet.report.diagrams.facts import count
from pytest_pinet.report.losses import changes_text
from pytest_pinet.report.page.change import change_section, earlier_gates
from pytest_pinet.report.page.data import PageData
from pytest_pinet.report.page.links import PageLinks
from pytest_pinet.report.page.panels import CombinationChart
from pytest_pinet.report.page.templating import hash_of, own_file, render
from pytest_pinet.report.page.unit import PageUnit
from pytest_pinet.report.page.words import (
    anchor,
    current,
    kind,
    known_loss,
    lead,
    look,
    loss_sentence,
    marks,
    metric_name,
    open_loss,
    share_text,
)
from pytest_pinet.report.sentences import scales_text
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.report.trends import FigureSeries

_MOST_CHANGES = 20


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
    shown = [series for series in all_series if series.dots]
    changed_head = changed.change if changed is not None else None
    unit = PageUnit.of(_rates(shown, changed_head, gates))
    labs = sorted({series.lab for series in shown})
    by_lab = {lab: [series for series in shown if series.lab == lab] for lab in labs}
    data = PageData(unit, links)
    combinations = [
        _combination(own, unit, data, links, lab if len(labs) > 1 else "")
        for lab in labs
        for own in _by_combination(by_lab[lab])
    ]
    change = Markup()
    if changed is not None and changed_head is not None:
        change = change_section(changed, changed_head, unit, links.folder(str(folder or "")))
    moved = _moved(shown, unit)
    style = f":root{{{variables(LIGHT)}}}@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}{rules()}"
    script = own_file("page.js")
    verdicts = {verdict for series in shown for verdict in series.dots.column(VERDICT)}
    # Charts and headings come as HTML, which the templates do not clean.
    return clean(
        render(
            "page.html",
            title=f"Network throughput of lab {labs[0]}" if len(labs) == 1 and labs[0] else "Network throughput",
            style=Markup(style) + own_file("style.css"),
            script=script,
            script_hash=hash_of(script),
            marks=marks(),
            metrics=bool(shown),
            lead=unit.sentence(lead(current(shown))),
            facts=_facts(shown, reviewed),
            notes=_notes(shown),
            change=change,
            gates=earlier_gates([one for one in gates if changed is None or not one.id.startswith(changed.run)], unit),
            attention=_attention(shown, unit, made.date()),
            known=_known(shown, unit, made.date()),
            moved=moved[:_MOST_CHANGES],
            more_moved=max(len(moved) - _MOST_CHANGES, 0),
            grids=[(lab, _grid(current(own), unit)) for lab, own in by_lab.items()],
            unit=unit,
            has_baselines=any(series.band_bps is not None for series in shown),
            shown_verdicts=[one for one in reversed(SEVERITY) if one in verdicts],
            combinations=combinations,
            made=f"{made:%Y-%m-%d %H:%M}",
            data=data.markup(),
        )
    )


def _rates(
    shown: Sequence[FigureSeries], head: ChangeHeadRecord | None, gates: Sequence[StoredRun]
) -> Iterator[float | None]:
    """Yield the rates that decide the unit of the page."""
    for series in shown:
        yield from (series.latest.goodput_bps, series.latest.limit_bps)
    for entry in head.entries if head is not None else ():
        yield from (entry.a_bps, entry.b_bps)
    for run in gates:
        for one in run.gate.metrics if run.gate is not None else ():
            yield from (one.a_bps, one.b_bps)


def _by_combination(of_lab: Sequence[FigureSeries]) -> list[list[FigureSeries]]:
    """Return the series of each combination, by name. Series without any value come last."""
    found: dict[str, list[FigureSeries]] = {}
    for series in of_lab:
        found.setdefault(str(series.combination), []).append(series)
    return [sorted(found[name], key=lambda series: not series.measured) for name in sorted(found)]


def _grid(all_series: Sequence[FigureSeries], unit: PageUnit) -> Grid:
    cells: dict[tuple[str, str], list[dict[str, object]]] = {}
    for series in sorted(all_series, key=lambda one: (SEVERITY.index(one.latest.verdict), one.figure)):
        here, dot = series.combination, series.latest
        cells.setdefault((here.nic, here.board), []).append({
            "series": series,
            "what": " ".join(filter(None, (here.topology, here.tuning, series.traffic, series.direction))),
            "value": unit.number(dot.goodput_bps) if dot.goodput_bps is not None else "no value",
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
    runs = {run for series in shown for run in series.dots.column(RUN)}
    first = min(series.dots[0].time for series in shown)
    metrics = sum(bool(series.measured) for series in shown)
    combinations = len({series.combination for series in shown})
    # The driver is that of one NIC.
    release = release_of(newest.build.get("uname"))
    kernel = f" on {release}" if release else ""
    unsure = not reviewed and any(series.level.loss is not None for series in shown)
    unknown = " Made without the lab file: accepted or acknowledged losses may look open." if unsure else ""
    return (
        f"{count(metrics, 'metric')} of {count(combinations, 'combination')}, {count(len(runs), 'run')} since "
        f"{first:%Y-%m-%d}; newest {newest.time:%Y-%m-%d %H:%M} UTC{kernel}.{unknown}"
    )


def _notes(shown: Sequence[FigureSeries]) -> list[str]:
    """Return what is to be known of all values."""
    found = []
    if any(True in series.dots.column(EMULATED) for series in shown):
        found.append("Values are emulated: the lab sets the rates of its links itself, or counts instructions.")
    scales = {scale for series in shown for scale in series.dots.column(SCALE)}
    if scaled := scales_text(scales):
        found.append(f"{'In some runs' if 1 in scales else 'In all runs'} {scaled}.")
    return found


def _known(shown: Sequence[FigureSeries], unit: PageUnit, today: date) -> list[tuple[FigureSeries, str]]:
    """Return the acknowledged losses, the largest first, each with its size and its cause."""
    found = [(loss, series) for series in current(shown) if (loss := known_loss(series)) is not None]
    found.sort(key=lambda one: (one[0].relative, one[1].figure))
    return [(series, loss_sentence(loss, today, unit)) for loss, series in found]


def _attention(shown: Sequence[FigureSeries], unit: PageUnit, today: date) -> list[tuple[FigureSeries, bool, str]]:
    """Return the results that are not good now, then the open losses, the largest first.

    Each has whether it is a loss, and why it needs attention.
    """
    now = current(shown)
    bad = [
        (series, False, unit.sentence(series.latest.reason.strip().partition("\n")[0]))
        for series in now
        if kind(series.latest.verdict) == "bad"
    ]
    lost = [(loss, series) for series in now if (loss := open_loss(series)) is not None]
    lost.sort(key=lambda one: (one[0].relative, one[1].figure))
    return bad + [(series, True, loss_sentence(loss, today, unit)) for loss, series in lost]


def _moved(shown: Sequence[FigureSeries], unit: PageUnit) -> list[tuple[datetime, FigureSeries, str]]:
    """Return the level changes, newest first, without the changes of losses, which have lists of their own."""
    found = [
        (shift.time, series, unit.sentence(shift_words(shift, unit.text)))
        for series in shown
        for shift in series.shifts
        if (loss := series.level.loss) is None or loss.change is not shift
    ]
    return sorted(found, key=lambda one: (one[0], one[1].figure), reverse=True)


def _combination(
    all_series: Sequence[FigureSeries], unit: PageUnit, data: PageData, links: PageLinks, lab: str
) -> Markup:
    """Return the section on one combination: a panel for each metric, notes, level changes.

    ``lab`` is the name of its lab if the page has several.
    """
    chart = CombinationChart(all_series, unit)
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
        panels=[_panel(series, chart, unit) for series in drawn],
        hidden=[series for series in all_series if series not in drawn],
        newest=f"{latest.time:%Y-%m-%d %H:%M} UTC, {latest.build_name}",
        axis=chart.axis(),
        notes=list(dict.fromkeys(note for series in newest for note in _series_notes(series, unit))),
        shifts=[
            f"{metric_name(series)}: {unit.sentence(shift_words(shift, unit.text))}"
            for series in all_series
            for shift in series.shifts
        ],
        runs=count(len(chart.runs), "run"),
        links=_links(chart, latest, links),
    )


def _panel(series: FigureSeries, chart: CombinationChart, unit: PageUnit) -> dict[str, object]:
    dot = series.latest
    # A series with a traffic name but without values is a ping, which never has goodput.
    trend = trend_words(series, unit.text)
    words = "This metric has no goodput, so there is no trend." if series.traffic else trend
    return {
        "series": series,
        "name": metric_name(series),
        "value": unit.number(dot.goodput_bps) if dot.goodput_bps is not None else "",
        "share": share_text(dot),
        "limit": f"limit {unit.number(dot.limit_bps)}" if dot.limit_bps is not None else "no limit",
        "level": changes_text(series.level),
        "svg": chart.panel(series, f"Trend of {series.figure}: {trend}") if series.measured else "",
        "words": words,
    }


def _series_notes(series: FigureSeries, unit: PageUnit) -> list[str]:
    dot = series.latest
    found = []
    if dot.reason and kind(dot.verdict) == "bad":
        found.append(f"{metric_name(series)}: {unit.sentence(first_paragraph(dot.reason))}")
    if dot.limited_by:
        found.append(f"{metric_name(series)}: limited by {unit.sentence(dot.limited_by)}")
    return found


def _links(chart: CombinationChart, latest: Point, links: PageLinks) -> list[tuple[str, str]]:
    """Return the links of the newest run: its results, files and commit, and the run before it."""
    found = [
        (name.rpartition("/")[2], address)
        for name in ("results.json", *latest.artefacts)
        if (address := links.file(latest.folder, name))
    ]
    before = [run for run in chart.runs if run.run != latest.run]
    if before and (there := links.folder(before[-1].folder)):
        found.append((f"previous run, {before[-1].time:%Y-%m-%d}", f"{there}/results.json"))
    name, address = links.commit(latest.build)
    return [*found, *([(f"commit {name}", address)] if address else [])]
