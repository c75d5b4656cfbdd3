"""A bar for one change among several: to the right for a growth, to the left for a decrease."""

from __future__ import annotations

from pytest_pinet.report.charts.paper import Paper

_HALF, _HEIGHT, _MARGIN = 70, 16, 2
# A smaller bar could not be seen.
_LEAST = 1.0


def change_bar(change: float, widest: float) -> Paper:
    """Draw the change. The bar of ``widest`` is as long as the paper allows."""
    paper = Paper(2 * (_HALF + _MARGIN), _HEIGHT, f"{change:+.2f}")
    middle = _HALF + _MARGIN
    length = max(abs(change) / widest * _HALF, _LEAST) if widest else 0.0
    start, look = (middle, "f-bad") if change > 0 else (middle - length, "f-good")
    paper.box(start, 2, length, _HEIGHT - 4, look)
    paper.line([(middle, 0), (middle, _HEIGHT)], "s-line thin")
    return paper
