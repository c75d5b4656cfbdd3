"""Exports the values of a run as a metrics report of GitLab (``artifacts: reports: metrics``).

GitLab compares the texts of the target branch and of the merge request. So labels have no run, build or time, and
values are rounded to about a per cent. GitLab's parser ends a line at ``#``; ``plain_name`` leaves none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_pinet.history.points import Point
from pytest_pinet.history.records import OF_B, newest
from pytest_pinet.report.export.cases import plain_name


def gitlab(points: Sequence[Point]) -> str:
    """Return a line for each value: goodput in Gbit/s; of exact boards instructions and packets per second."""
    lines = []
    for point in newest(points):
        labels = f'{{lab="{plain_name(point.lab)}",metric="{plain_name(point.figure.removesuffix(OF_B))}"}}'
        if point.goodput_bps is not None:
            lines.append(f"pinet_goodput_gbit{labels} {rounded(point.goodput_bps / 1e9)}")
        if point.instructions is not None:
            # An exact value differs only if the build differs.
            lines.append(f"pinet_instructions_per_packet{labels} {point.instructions:.2f}")
        if point.packets_per_second is not None:
            lines.append(f"pinet_packets_per_second{labels} {point.packets_per_second:.2f}")
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def rounded(value: float) -> str:
    """Return a value in steps of 1, 2 or 5 times a power of ten, the largest that is at most 1 % of the value."""
    if value <= 0:
        return "0"
    exponent = math.floor(math.log10(value / 100))
    size = value / 100 / 10.0**exponent
    step = (5 if size >= 5 else 2 if size >= 2 else 1) * 10.0**exponent
    return f"{round(value / step) * step:.{max(-exponent, 0)}f}"
