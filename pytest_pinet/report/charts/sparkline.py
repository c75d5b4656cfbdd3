"""A small trend chart, the size of a word."""

from __future__ import annotations

from pytest_pinet.report.charts.paper import Paper
from pytest_pinet.report.charts.scale import AxisScale, rate_range
from pytest_pinet.report.series import FigureSeries

_WIDTH, _HEIGHT = 150, 32


def sparkline(series: FigureSeries, last: int = 30) -> Paper:
    """Draw the newest runs, their limit as a dashed line, and the mark of the newest run."""
    dots = list(series.dots)[-last:]
    paper = Paper(_WIDTH, _HEIGHT, f"Trend of {series.figure}")
    rates = [bps for dot in dots for bps in (dot.goodput_bps, dot.limit_bps) if bps is not None]
    low, high = rate_range(rates, least=0.05)
    xs = AxisScale(0, max(len(dots) - 1, 1), 6, _WIDTH - 8)
    ys = AxisScale(low, high, _HEIGHT - 5, 5)
    limits = [(xs(index), ys(dot.limit_bps)) for index, dot in enumerate(dots) if dot.limit_bps is not None]
    if len(limits) > 1:
        paper.line(limits, "s-limit thin dash")
    known = [(xs(index), ys(dot.goodput_bps)) for index, dot in enumerate(dots) if dot.goodput_bps is not None]
    if len(known) > 1:
        paper.line(known, "s-hue0 plain")
    if dots:
        newest = dots[-1]
        y = ys(newest.goodput_bps) if newest.goodput_bps is not None else _HEIGHT - 7
        paper.mark(xs(len(dots) - 1), y, newest.verdict, size=4)
    return paper
