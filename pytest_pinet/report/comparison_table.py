"""Formats a comparison of two sets of runs, as a table of 80 columns and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.history.compare import MISSING, NOT_COMPARABLE, WORDS, Compared, RunSet
from pytest_pinet.report.table import SIDES, side_cells, text_table
from pytest_pinet.report.text_wrap import WIDTH, wrap

_HEADER = ("metric", "A", "B", "change", "B is")
# In capitals, so that they are visible without colours.
_LOUD = ("slower", "inconclusive", MISSING)
# More differences are in the output of --json.
MOST_DIFFERENCES = 12
_EXPLAINED = ("slower", "inconclusive", NOT_COMPARABLE)


def comparison_table(a: RunSet, b: RunSet, found: Sequence[Compared], width: int = WIDTH) -> list[str]:
    """Return the table, worst row first, below a description of A and B."""
    lines = [
        line for name, side in (("A", a), ("B", b)) for line in wrap(_what(name, side), hanging="   ", width=width)
    ]
    if not found:
        return [*lines, "", "no metric to compare"]
    words = [one.word.upper() if one.word in _LOUD else one.word for one in found]
    sides = [side_cells(one.a_bps, one.b_bps, one.change) for one in found]
    cells = [_HEADER, *((one.figure, *side, word) for one, side, word in zip(found, sides, words, strict=True))]
    explained = [one.why if one.word in _EXPLAINED else "" for one in found]
    notes = [wrap(why, indent="    ", width=width) if why else [] for why in explained]
    for text in list(dict.fromkeys(text for one in found for text in one.differs))[:MOST_DIFFERENCES]:
        lines += wrap(f"differs: {text}", hanging="   ", width=width)
    lines += ["", *text_table(cells, SIDES, width, notes=notes)]
    counts = Counter(one.word for one in found)
    said = ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])
    return [*lines, "", f"{len(found)} metric{'s' if len(found) != 1 else ''}: {said}"]


def comparison_records(found: Sequence[Compared]) -> list[dict[str, object]]:
    """Return the rows as plain data. Rates are bit/s, changes fractions; None where a side has no value."""
    names = ("figure", "a_bps", "b_bps", "change", "verdict", "skipped", "why", "differs")
    return [{name: getattr(one, name) for name in names} for one in found]


def _what(name: str, side: RunSet) -> str:
    runs = len({point.run for point in side.points})
    builds = side.builds
    of = f" of {', '.join(builds[:3])}{', ...' if len(builds) > 3 else ''}" if builds else ""
    emulated = ", emulated" if any(point.emulated for point in side.points) else ""
    return f"{name}: {side.name} ({runs} run{'s' if runs != 1 else ''}{of}{emulated})"
