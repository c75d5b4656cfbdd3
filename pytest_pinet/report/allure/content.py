"""The content of one Allure result, built as plain values from the result records of its test."""

from __future__ import annotations

import base64
import csv
import io
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pytest_pinet.history.points import instructions_of, metric_id
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import COMPARED, Verdict
from pytest_pinet.report.allure.identity import PARAMETER, Subject, verdict_of
from pytest_pinet.report.charts.results import throughput_chart
from pytest_pinet.report.charts.trend import trend_chart
from pytest_pinet.report.exact_text import (
    MOST_FUNCTIONS,
    board_text,
    function_rows,
    rate_text,
    sum_cells,
    window_of,
)
from pytest_pinet.report.sentences import (
    figures_text,
    ineffective,
    limited_by_text,
    scale_text,
    short_lines,
    traffic_sentences,
)
from pytest_pinet.report.text_wrap import html_table, rate, written
from pytest_pinet.report.trends import FigureSeries

# The report is a single file with all attachments. Larger or further files stay in the run folder.
MOST_BYTES = 512 * 1024
MOST_FILES = 120
# An exact gate has twelve windows of traffic. The title names some of them.
MOST_WINDOWS = 3
# Titles of evidence files, by the name of their source.
SOURCES = {
    "ethtool": "NIC counters", "heat": "clock and temperature", "interface": "interface counters",
    "interrupts": "interrupts", "kernel": "kernel messages", "observer": "interface over time",
    "softirqs": "softirqs", "softnet": "softnet counters", "stat": "processors", "switch": "switch port counters",
}  # fmt: skip
_TYPES = {
    ".json": "application/json", ".txt": "text/plain", ".log": "text/plain", ".csv": "text/csv",
    ".svg": "image/svg+xml", ".md": "text/markdown", ".yaml": "text/plain",
}  # fmt: skip
_ENDINGS = {"application/json": "json", "image/svg+xml": "svg", "text/csv": "csv"}
Attachment = tuple[str, str, bytes]


def attachment_name(kind: str) -> str:
    """Return a new name for the file of an attachment, as allure-pytest makes it."""
    return f"{uuid.uuid4()}-attachment.{_ENDINGS.get(kind, 'txt')}"


def title(subject: Subject, results: Sequence[ResultRecord]) -> str:
    """Return the title of a result: the combination and its measured values."""
    verdict = verdict_of(results)
    values = [
        f"{result.combination.traffic} {way} {figure_words(direction)}"
        for result in results
        for way, direction in result.directions.items()
        if result.exact is None
    ]
    values += _exact_values([result for result in results if result.exact is not None])
    values += [f"{r.combination.traffic} {figures_text(r.figures)}" for r in results if r.figures and not r.directions]
    words = [verdict.value] if verdict is not None and verdict is not Verdict.PASS else []
    if not values:
        words = [verdict.value if verdict is not None else "not measured"]
    return " · ".join([str(subject.combination), *values, *words])


def _exact_values(results: Sequence[ResultRecord]) -> list[str]:
    """Return how the instructions of the first windows changed, and how many more windows changed or did not."""
    changed = [result for result in results if result.verdict is not Verdict.PASS]
    shown = [
        f"{window_of(one.id)} {sum_cells(instructions_of(one.exact))[2]} instructions" for one in changed[:MOST_WINDOWS]
    ]
    counts = {"more changed": len(changed) - len(shown), "unchanged": len(results) - len(changed)}
    return [*shown, *(f"{count} {what}" for what, count in counts.items() if count)]


def figure_words(direction: DirectionRecord) -> str:
    """Return a goodput with its distance below the limit or, if the limit holds, its share of the physical limit."""
    text = rate(direction.goodput_bps)
    limit, oracle = direction.limit_bps, direction.oracle_bps
    if limit and direction.goodput_bps < limit:
        return f"{text} ({(1 - direction.goodput_bps / limit) * 100:.1f} % below the limit)"
    return f"{text} ({direction.goodput_bps / oracle * 100:.1f} % of max)" if oracle else text


def parameters(subject: Subject, results: Sequence[ResultRecord]) -> list[tuple[str, str, bool]]:
    """Return parameters as (name, value, excluded). Only the combination counts for Allure's history."""
    found = [(PARAMETER, str(subject.combination), False)]
    found += [(name, str(value), True) for name, value in subject.parameters.items()]
    found += [(name, value, True) for name, value in _builds(results)]
    found += [(f"tuning.{name}", "; ".join(said), True) for name, said in _outcomes(results).items()]
    found += [("scale", f"{scale:g}", True) for scale in sorted({r.scale for r in results if r.scale is not None})]
    build = next((result.build for result in results if result.build), {})
    return [*found, *((f"build.{name}", value, True) for name, value in build.items() if value is not None)]


def _builds(results: Sequence[ResultRecord]) -> list[tuple[str, str]]:
    """Return the two builds of an A/B comparison, and the change of each direction."""
    changes = [result.change for result in results if result.change is not None]
    if not changes:
        return []
    found = [("build A", changes[0].a), ("build B", changes[0].b)]
    found += [
        (f"change {window_of(result.id)}", f"{sum_cells(instructions_of(result.exact))[2]} instructions")
        for result in results
        if result.exact is not None
    ]
    return found + [
        (f"change {result.combination.traffic} {way}", f"{one.change * 100:+.2f} %, {COMPARED[one.verdict]}")
        for result in results
        if result.change is not None and result.exact is None
        for way, one in result.change.directions.items()
        if one.change is not None
    ]


def _outcomes(results: Sequence[ResultRecord]) -> dict[str, list[str]]:
    """Return the outcomes of each tuning. Ends with the same outcome share one sentence."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in (one for result in results for one in result.tunings or ()):
        said = f"{one.asked} {one.outcome}"
        if one.outcome not in ("applied", "unchanged"):
            why = [f"it is {one.found}" if one.found else "", one.why]
            said += f" ({': '.join(filter(None, why))})" if any(why) else ""
        found.setdefault(one.name, {}).setdefault(said, []).append(one.end)
    return {
        name: [f"{said} on {', '.join(dict.fromkeys(ends))}" for said, ends in each.items()]
        for name, each in found.items()
    }


def labels(subject: Subject, results: Sequence[ResultRecord]) -> list[tuple[str, str]]:
    """Return the labels that Allure groups and filters by. Its tree is board, NIC, topology."""
    verdict, of = verdict_of(results), subject.combination
    return [
        ("board", of.board),
        ("nic", of.nic),
        ("topology", of.topology),
        *([("tuning", of.tuning)] if of.tuning else []),
        ("epic", of.board),
        ("feature", of.nic),
        ("story", " ".join(filter(None, (of.topology, of.tuning)))),
        *([("verdict", verdict.value)] if verdict is not None else []),
        *(("figure", metric_id(result.id, way)) for result in results for way in result.directions),
        *(("figure", f"{result.id}-{name}") for result in results for name in result.figures or {}),
        # Pings have no goodput. The result id lets Allure's history find them.
        *(("figure", result.id) for result in results if result.has_no_rate and not result.figures),
    ]


def description_html(results: Sequence[ResultRecord], trends: Sequence[FigureSeries]) -> str:
    """Return an HTML table and the trends. Allure 3 shows pictures only as data in ``img``; Allure 2 drops them."""
    rows = [
        (result.combination.traffic, way, rate(one.goodput_bps), rate(one.limit_bps, "none"),
         rate(one.oracle_bps or None, "none"), one.verdict)
        for result in results
        if result.exact is None
        for way, one in result.directions.items()
    ]  # fmt: skip
    table = html_table([("traffic", "direction", "goodput", "limit", "physical limit", "verdict"), *rows])
    exact = [
        (window_of(result.id), *sum_cells(instructions_of(result.exact)), result.verdict)
        for result in results
        if result.exact is not None
    ]
    table += html_table([("window", "A instr.", "B instr.", "change", "verdict"), *exact])
    # A line for each metric whose level fell and did not recover.
    losses = short_lines([series.level for series in trends], datetime.now(UTC).date())[1:]
    lines = dict.fromkeys((*losses, *(line for result in results for line in _said(result))))
    table += "".join(f"<p>{written(line)}</p>" for line in lines)
    messages = [result.message for result in results if not result.directions and result.message]
    text = "".join(f"<pre>{written(message)}</pre>" for message in messages)
    images = [
        f'<p><img alt="{written(series.figure)}" width="{picture.width}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(picture.svg().encode()).decode()}"></p>'
        for series in trends
        if series.points
        for picture in [trend_chart(series)]
    ]
    return text + table + "".join(images)


def _said(result: ResultRecord) -> list[str]:
    """Return lines about the bottleneck, link scale, HTTP, UDP ladder, A/B change and ineffective tunings."""
    found = [f"limited by {limited}"] if (limited := limited_by_text(result)) else []
    found += [scaled] if (scaled := scale_text([result])) else []
    found += traffic_sentences(result)
    if result.change is not None:
        change = result.change
        found += [f"{way}: {one.why} (A {change.a}, B {change.b})" for way, one in change.directions.items()]
        found += [f"the builds differ: {suspect.text}" for suspect in change.suspects]
    if result.exact is not None:
        a, b = (rate_text(window_of(result.id), result.exact, side) for side in (result.exact.a, result.exact.b))
        found += [f"{a} -> {b} in virtual time", board_text(result.exact)]
        rows = function_rows([result])[:MOST_FUNCTIONS]
        found += [": ".join(filter(None, [" ".join(row.cells), "; ".join(row.notes)])) for row in rows]
    return [*found, *ineffective([result])]


def attachments(
    results: Sequence[ResultRecord], trends: Sequence[FigureSeries], folder: Path | None, consoles: Mapping[str, str]
) -> list[Attachment]:
    """Return all attachments as (name, MIME type, content)."""
    found: list[Attachment] = []
    for result in results:
        if any(direction.samples for direction in result.directions.values()):
            picture = throughput_chart(result).svg()
            found.append((f"throughput over time {result.id}", "image/svg+xml", picture.encode()))
    found += [
        (f"trend {series.figure}", "image/svg+xml", trend_chart(series).svg().encode())
        for series in trends
        if series.points
    ]
    for result in results:
        if result.cables:
            found.append((f"switch and NIC counters {result.id}", "text/csv", _counters(result)))
    found += [
        (f"serial console {node}", "text/plain", text.encode("utf-8", "replace")) for node, text in consoles.items()
    ]
    found += [(f"functions {r.id}", "text/csv", _function_csv(r)) for r in results if r.exact and r.exact.functions]
    found += [(f"evidence {r.id}", "application/json", _evidence(r)) for r in results if r.evidence]
    if folder is not None:
        found += _files(results, folder)
    return found


def _evidence(result: ResultRecord) -> bytes:
    """Return the evidence as JSON: counters of the ends, kernel data of the sockets, tunings, and the bottleneck."""
    data = result.dump()
    record = {
        "limited_by": data.get("limited_by"),
        "evidence": data.get("evidence"),
        "sockets": {way: one["sockets"] for way, one in data["directions"].items() if "sockets" in one},
        "tunings": data.get("tunings", []),
    }
    return json.dumps(record, indent=1, allow_nan=False).encode("ascii")


def _function_csv(result: ResultRecord) -> bytes:
    """Return all recorded functions that changed as CSV, in instructions for each packet."""
    functions = result.exact.functions if result.exact is not None else ()
    rows = [[one.name, one.module, one.a, one.b, one.change, one.comparison, one.source] for one in functions]
    return csv_bytes([["function", "module", "A", "B", "change", "comparison", "source"], *rows])


def _counters(result: ResultRecord) -> bytes:
    """Return the switch and NIC counters as CSV, one row per cable and side."""
    names = list(
        dict.fromkeys(name for cable in result.cables for side in (cable.node, cable.switch or {}) for name in side)
    )
    rows: list[list[object]] = [
        [cable.end, cable.port, side, *(counts.get(name) for name in names)]
        for cable in result.cables
        for side, counts in (("node", cable.node), ("switch", cable.switch))
        if counts is not None
    ]
    return csv_bytes([["end", "port", "side", *names], *rows])


def csv_bytes(rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as CSV. None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _files(results: Sequence[ResultRecord], folder: Path) -> list[Attachment]:
    """Return the raw output files of the run folder.

    Only the end of a file larger than MOST_BYTES is attached, with a first line that says so.
    """
    found: list[Attachment] = []
    titles = {name: _title_of(name, result) for result in results for name in result.files}
    if more := list(titles)[MOST_FILES:]:
        listed = "\n".join([f"too many files for a report; these are only in {folder}:", *more, ""])
        found.append(("more files", "text/plain", listed.encode("utf-8", "replace")))
    for name, title in list(titles.items())[:MOST_FILES]:
        path = folder / name
        try:
            content = path.read_bytes()
        except OSError:
            continue
        kind = _TYPES.get(path.suffix, "text/plain")
        if len(content) > MOST_BYTES:
            kind = "text/plain"
            left_out = f"[{len(content) - MOST_BYTES} bytes left out; the whole file: {path}]\n".encode()
            content = left_out + content[-MOST_BYTES:]
        found.append((title, kind, content))
    return found


def _title_of(path: str, result: ResultRecord) -> str:
    """Return the title of a file: for an evidence file its source and end, for any other file its name."""
    name = path.rpartition("/")[2]
    number, _, source = name.removesuffix(".txt").partition("-")
    ends = result.combination.ends
    if source in SOURCES and number.isdigit() and int(number) < len(ends):
        return f"{SOURCES[source]} {ends[int(number)].end}"
    return name
