"""A chart of all results of a run: one bar each, as a share of the physical limit."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.report.charts.axis import AxisScale
from pytest_pinet.report.charts.paper import COLOURS, SMALL, TITLE, Paper
from pytest_pinet.report.rows import ResultRow
from pytest_pinet.report.text_wrap import rate_or

_WIDTH, _ROW, _HEAD = 900, 22, 74
_LEFT, _RIGHT, _LONGEST = 300, 690, 42
# A larger chart is unreadable. The worst rows come first, so that only good ones are left out.
_MOST = 80


def overview_chart(rows: Sequence[ResultRow], title: str, note: str) -> Paper:
    """Draw the overview. ``rows`` are sorted, worst first. A dashed tick on each bar shows the limit."""
    shown = rows[:_MOST]
    rest = len(rows) - len(shown)
    paper = Paper(_WIDTH, _HEAD + _ROW * len(shown) + (34 if rest else 16), title, note)
    paper.text(14, 24, title, "f-ink bold", TITLE)
    paper.text(14, 41, note, "f-muted", SMALL)
    xs = AxisScale(0, 1, _LEFT, _RIGHT)
    bottom = _HEAD + _ROW * len(shown)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        paper.line([(xs(tick), _HEAD - 6), (xs(tick), bottom)], "s-grid thin")
        paper.text(xs(tick), _HEAD - 10, f"{tick * 100:g} %", "f-muted", SMALL, "middle")
    paper.text(_RIGHT + 46, _HEAD - 10, "of the physical limit", "f-muted", SMALL)
    for number, row in enumerate(shown):
        _bar(paper, xs, _HEAD + _ROW * number, row)
    if rest:
        paper.text(14, bottom + 20, f"and {rest} more results, none of them worse", "f-muted", SMALL)
    return paper


def _bar(paper: Paper, xs: AxisScale, top: float, row: ResultRow) -> None:
    label = f"{row.label} {row.direction}".strip()
    short = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
    base = top + 15
    paper.text(_LEFT - 8, base, short, "f-ink", SMALL, "end")
    share = row.share
    if share is not None:
        paper.box(xs(0), top + 4, xs(min(share, 1.05)) - xs(0), _ROW - 9, f"f-{COLOURS[row.verdict]}")
    if row.limit_bps is not None and row.oracle_bps:
        x = xs(min(row.limit_bps / row.oracle_bps, 1.05))
        paper.line([(x, top + 1), (x, top + _ROW - 2)], "s-ink strong dash")
    value = rate_or(row.goodput_bps, "no value")
    paper.mark(_RIGHT + 38, top + 11, row.verdict)
    paper.text(_RIGHT + 50, base, f"{row.verdict}, {value}", "f-ink", SMALL)
