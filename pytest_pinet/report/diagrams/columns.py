"""Formats rows of text in columns that fit a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pytest_pinet.report.text_wrap import WIDTH, plain, shorten, wrap

_GAP = "  "


def columns(
    rows: Sequence[Sequence[str]], most: Sequence[int], indent: str = "", hanging: str = "", width: int = WIDTH
) -> list[str]:
    """Return the lines of all ``blocks``."""
    return list(chain.from_iterable(blocks(rows, most, indent, hanging, width)))


def blocks(
    rows: Sequence[Sequence[str]], most: Sequence[int], indent: str = "", hanging: str = "", width: int = WIDTH
) -> list[list[str]]:
    """Return the lines of each row, at most ``width`` columns wide. The last cell wraps below itself.

    ``most`` is the maximum width of each column except the last; longer cells are shortened but stay different. Line
    breaks in the last cell are kept. ``hanging`` replaces ``indent`` on continued lines.
    """
    tables = [_narrow([plain(row[index]) for row in rows], limit) for index, limit in enumerate(most)]
    widths = [max((len(cell) for cell in table.values()), default=0) for table in tables]
    found = []
    for row in rows:
        cells = [tables[index][plain(cell)].ljust(widths[index]) for index, cell in enumerate(row[:-1])]
        head = indent + "".join(cell + _GAP for cell in cells)
        below = hanging.ljust(len(indent)) + " " * (len(head) - len(indent))
        lines: list[str] = []
        for part in row[-1].split("\n"):
            lines += [line.rstrip() for line in wrap(part, below if lines else head, below, width)]
        found.append(lines)
    return found


def _narrow(cells: Sequence[str], limit: int) -> dict[str, str]:
    return shorten(cells, limit) if any(len(cell) > limit for cell in cells) else {cell: cell for cell in cells}
