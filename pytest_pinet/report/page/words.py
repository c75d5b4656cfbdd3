"""Sentences and small pieces of HTML that several sections of the page share."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_pinet.history.points import Point
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.charts.paper import Paper, written
from pytest_pinet.report.trends import FigureSeries

_MEANS = {
    Verdict.FAIL: ("misses its limit", "miss their limits"),
    Verdict.ERROR: ("was not measured because of the lab", "were not measured because of the lab"),
    Verdict.INVALID: ("has no valid measurement", "have no valid measurement"),
    Verdict.INCONCLUSIVE: ("is undecided", "are undecided"),
}
_UNIT = re.compile(r"(\d) (%|[kMG]?bit/s\b)")


def anchor(text: str) -> str:
    """Return an HTML id for any text: unique, and the same in every report."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', text).strip('-')}-{digest}"


def kind(verdict: Verdict) -> str:
    """Return the CSS class for a verdict."""
    return "good" if verdict in GOOD or verdict is Verdict.SKIPPED else "bad"


def verdict_html(verdict: Verdict, word: str = "") -> str:
    """Return a verdict's mark and a word, by default its own. Both are readable without colour."""
    mark = Paper(16, 16, verdict.value)
    mark.mark(8, 8, verdict, size=5.5)
    return f'<span class="word {kind(verdict)}">{mark.inline(label=False)}{written(word or verdict.value)}</span>'


def runs_table(label: str, heads: Sequence[str], rows: Iterable[str]) -> str:
    """Return a table that scrolls by itself on narrow screens. ``rows`` are HTML."""
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{written(label)}">'
        f'<table class="runs"><thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def linked(text: str, url: str) -> str:
    """Return a text as HTML, as a link if it has an address."""
    return f'<a href="{written(url)}">{written(text)}</a>' if url else written(text)


def share_text(dot: Point) -> str:
    """Return the share of the physical limit; empty if unknown."""
    return "" if dot.share is None else f"{dot.share * 100:.1f} %"


def current(all_series: Sequence[FigureSeries]) -> list[FigureSeries]:
    """Return the series for the grid and the counts: all but the series that are only history.

    A series is history if none of its runs has a value and its combination (board, NIC, topology) has a newer run.
    """
    newest: dict[tuple[str, CombinationId], Point] = {}
    for series in all_series:
        key = (series.lab, series.combination)
        newest[key] = max(newest.get(key, series.latest), series.latest, key=lambda dot: dot.time)
    return [
        series
        for series in all_series
        if series.measured or series.latest.run == newest[series.lab, series.combination].run
    ]


def lead(all_series: Sequence[FigureSeries]) -> str:
    """Return the state of all series in one sentence, bad verdicts first."""
    counts = Counter(series.latest.verdict for series in all_series)
    total = counts.total()
    parts = [
        f"{counts[verdict]} {_MEANS[verdict][counts[verdict] > 1]}"
        for verdict in SEVERITY
        if verdict in _MEANS and counts[verdict]
    ]
    if not total:
        return "Nothing was measured yet."
    if total == 1:
        return f"The only metric {parts[0].removeprefix('1 ') if parts else 'meets its limit'}."
    if not parts:
        return f"All {total} metrics meet their limits."
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"Of {total} metrics, {listed}."


def unbroken(text: str) -> str:
    """Return escaped text without line breaks between a number and its unit."""
    return _UNIT.sub("\\1\u00a0\\2", written(text))


def paragraph(text: str, look: str = "") -> str:
    """Return escaped text as a paragraph."""
    return f'<p class="{look}">{written(text)}</p>' if look else f"<p>{written(text)}</p>"
