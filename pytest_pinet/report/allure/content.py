"""What one Allure result carries, from the records of its test; plain values, whoever writes them."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.allure.identity import PARAMETER, Subject
from pytest_pinet.report.allure.verdicts import verdict_of
from pytest_pinet.report.charts.paper import written
from pytest_pinet.report.charts.throughput import throughput_chart
from pytest_pinet.report.charts.trend import trend_chart
from pytest_pinet.report.fit import rate
from pytest_pinet.report.record import DirectionRecord, ResultRecord
from pytest_pinet.report.series import Series

# A report is one file that holds all of these; what is larger stays in the run folder.
MOST_BYTES = 512 * 1024
_MOST_FILES = 60
_TYPES = {
    ".json": "application/json", ".txt": "text/plain", ".log": "text/plain", ".csv": "text/csv",
    ".svg": "image/svg+xml", ".md": "text/markdown", ".yaml": "text/plain",
}  # fmt: skip
Attachment = tuple[str, str, bytes]


def figure_ids(result: ResultRecord) -> dict[str, str]:
    """The id of the figure of each direction, as the history has it."""
    own = result["id"]
    return {way: own if own.endswith(f"-{way}") else f"{own}-{way}" for way in result["directions"]}


def title(subject: Subject, results: Sequence[ResultRecord]) -> str:
    """The combination with its figures, so that a list of results is a list of figures."""
    verdict = verdict_of(results)
    figures = [
        f"{result['combination']['traffic']} {way} {figure_words(direction)}"
        for result in results
        for way, direction in result["directions"].items()
    ]
    words = [verdict.value] if verdict is not None and verdict is not Verdict.PASS else []
    if not figures:
        words = [verdict.value if verdict is not None else "not measured"]
    return " · ".join([subject.combination, *figures, *words])


def figure_words(direction: DirectionRecord) -> str:
    """A figure, and how far it is from its limit, or from what is possible."""
    text = rate(direction["goodput_bps"])
    limit, oracle = direction["limit_bps"], direction["oracle_bps"]
    if limit and direction["goodput_bps"] < limit:
        return f"{text} ({(1 - direction['goodput_bps'] / limit) * 100:.1f} % below limit)"
    return f"{text} ({direction['goodput_bps'] / oracle * 100:.1f} % of max)" if oracle else text


def parameters(subject: Subject, results: Sequence[ResultRecord]) -> list[tuple[str, str, bool]]:
    """Name, value and whether it is excluded from the history: all is, but the combination."""
    found = [(PARAMETER, subject.combination, False)]
    found += [(name, str(value), True) for name, value in subject.parameters.items()]
    build = next((result["build"] for result in results if result["build"]), {})
    return [*found, *((f"build.{name}", value, True) for name, value in build.items() if value is not None)]


def labels(subject: Subject, results: Sequence[ResultRecord]) -> list[tuple[str, str]]:
    """What Allure groups and filters by; its tree is board, NIC, topology."""
    verdict = verdict_of(results)
    return [
        ("board", subject.board),
        ("nic", subject.nic),
        ("topology", subject.topology),
        ("epic", subject.board),
        ("feature", subject.nic),
        ("story", subject.topology),
        *([("verdict", verdict.value)] if verdict is not None else []),
        *(("figure", figure) for result in results for figure in figure_ids(result).values()),
    ]


def description_html(results: Sequence[ResultRecord], trends: Sequence[Series]) -> str:
    """A table and the trends. Pictures are data in ``img``, the only way that Allure 3 shows them; 2 drops them."""
    rows = [
        (result["combination"]["traffic"], way, rate(one["goodput_bps"]), _limit(one), rate(one["oracle_bps"]),
         one["verdict"])
        for result in results
        for way, one in result["directions"].items()
    ]  # fmt: skip
    head = ("traffic", "direction", "goodput", "limit", "physical limit", "verdict")
    cells = [f"<tr>{''.join(f'<td>{written(cell)}</td>' for cell in row)}</tr>" for row in rows]
    table = f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{''.join(cells)}</table>" if rows else ""
    messages = [result["message"] for result in results if not result["directions"] and result["message"]]
    text = "".join(f"<pre>{written(message)}</pre>" for message in messages)
    pictures = [trend_chart(series) for series in trends if series.dots]
    images = [
        f'<p><img alt="{written(series.figure)}" width="{picture.width}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(picture.svg().encode()).decode()}"></p>'
        for series, picture in zip([s for s in trends if s.dots], pictures, strict=True)
    ]
    return text + table + "".join(images)


def _limit(direction: DirectionRecord) -> str:
    return "none" if direction["limit_bps"] is None else rate(direction["limit_bps"])


def attachments(
    results: Sequence[ResultRecord], trends: Sequence[Series], folder: Path | None, consoles: Mapping[str, str]
) -> list[Attachment]:
    """Name, MIME type and content of everything that a reader may want to look at."""
    found: list[Attachment] = []
    for result in results:
        if any(direction["samples"] for direction in result["directions"].values()):
            picture = throughput_chart(result).svg()
            found.append((f"throughput over time {result['id']}", "image/svg+xml", picture.encode()))
    found += [
        (f"trend {series.figure}", "image/svg+xml", trend_chart(series).svg().encode())
        for series in trends
        if series.dots
    ]
    for result in results:
        if result["cables"]:
            found.append((f"switch and NIC counters {result['id']}", "text/csv", _counters(result)))
    found += [
        (f"serial console {node}", "text/plain", text.encode("utf-8", "replace")) for node, text in consoles.items()
    ]
    if folder is not None:
        found += _files(results, folder)
    return found


def _counters(result: ResultRecord) -> bytes:
    """A row for each cable and side; empty where a side does not count."""
    names = list(
        dict.fromkeys(
            name for cable in result["cables"] for side in (cable["node"], cable["switch"] or {}) for name in side
        )
    )
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["end", "port", "side", *names])
    for cable in result["cables"]:
        for side, counts in (("node", cable["node"]), ("switch", cable["switch"])):
            if counts is not None:
                table.writerow([cable["end"], cable["port"], side, *(counts.get(name) for name in names)])
    return text.getvalue().encode()


def _files(results: Sequence[ResultRecord], folder: Path) -> list[Attachment]:
    """The raw output that lies in the run folder, up to a size; of what is larger only the end, which says so."""
    found: list[Attachment] = []
    paths = list(dict.fromkeys(name for result in results for name in result["files"]))
    for name in paths[:_MOST_FILES]:
        path = folder / name
        try:
            content = path.read_bytes()
        except OSError:
            continue
        kind = _TYPES.get(path.suffix, "text/plain")
        if len(content) > MOST_BYTES:
            kind = "text/plain"
            left_out = f"[{len(content) - MOST_BYTES} bytes left out; all of it: {path}]\n".encode()
            content = left_out + content[-MOST_BYTES:]
        found.append((path.name, kind, content))
    return found
