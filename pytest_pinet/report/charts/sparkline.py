"""A trend the size of a word."""

from __future__ import annotations

from pytest_pinet.report.charts.paper import Paper
from pytest_pinet.report.charts.scale import Scale, rate_range
from pytest_pinet.report.series import Series

_WIDTH, _HEIGHT = 150, 32


def sparkline(series: Series, last: int = 30) -> Paper:
    """The newest runs, their limit dashed, and the mark of the newest one."""
    dots = list(series.dots)[-last:]
    paper = Paper(_WIDTH, _HEIGHT, f"Trend of {series.figure}")
    rates = [bps for dot in dots for bps in (dot.goodput_bps, dot.limit_bps) if bps is not None]
    low, high = rate_range(rates, least=0.05)
    xs = Scale(0, max(len(dots) - 1, 1), 6, _WIDTH - 8)
    ys = Scale(low, high, _HEIGHT - 5, 5)
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
