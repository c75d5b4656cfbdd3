"""Two sets of runs side by side, as a table that fits 80 columns and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pytest_pinet.history.sides import Compared, Outcome, Side
from pytest_pinet.report.columns import Columns, side_cells
from pytest_pinet.report.fit import WIDTH, wrap

_HEADER = ("figure", "A", "B", "change", "B is")
# In capitals, so that nobody overlooks them without colours.
_LOUD = (Outcome.SLOWER, Outcome.INCONCLUSIVE, Outcome.MISSING)
_EXPLAINED = (Outcome.SLOWER, Outcome.INCONCLUSIVE, Outcome.NOT_COMPARABLE)


def comparison_table(a: Side, b: Side, found: Sequence[Compared], width: int = WIDTH) -> list[str]:
    """The worst first, and what A and B are."""
    lines = [
        line for name, side in (("A", a), ("B", b)) for line in wrap(_what(name, side), hanging="   ", width=width)
    ]
    if not found:
        return [*lines, "", "no figure to compare"]
    cells = [_cells(one) for one in found]
    columns = Columns(_HEADER, (one.figure for one in found), cells, width)
    lines += ["", columns.head()]
    for one, line in zip(found, cells, strict=True):
        lines.append(columns.line(one.figure, line))
        if one.outcome in _EXPLAINED and one.why:
            lines += wrap(one.why, indent="    ", width=width)
    counts = Counter(one.outcome for one in found)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    return [*lines, "", f"{len(found)} figure{'s' if len(found) != 1 else ''}: {said}"]


def comparison_records(found: Sequence[Compared]) -> list[dict[str, Any]]:
    """Rates bit/s, changes parts; None where a side has no figure."""
    return [
        {
            "figure": one.figure,
            "a_bps": one.a_bps,
            "b_bps": one.b_bps,
            "change": one.change,
            "outcome": str(one.outcome),
            "why": one.why,
        }
        for one in found
    ]


def _what(name: str, side: Side) -> str:
    runs = len({point.run for point in side.points})
    builds = side.builds
    of = f" of {', '.join(builds[:3])}{', ...' if len(builds) > 3 else ''}" if builds else ""
    emulated = ", emulated" if any(point.emulated for point in side.points) else ""
    return f"{name}: {side.name} ({runs} run{'s' if runs != 1 else ''}{of}{emulated})"


def _cells(one: Compared) -> tuple[str, ...]:
    word = str(one.outcome)
    return (*side_cells(one.a_bps, one.b_bps, one.change), word.upper() if one.outcome in _LOUD else word)
