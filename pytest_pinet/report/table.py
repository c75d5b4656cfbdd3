"""Formats tables for a terminal, as Markdown and as HTML. The first row is the head, except in `blocks`.

The layout is a text such as ``<  < >  <``: one mark per column for left or right alignment, followed by the blanks
before the next column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from pytest_pinet.report.text_wrap import plain, rate_or, shorten, signed_percent, wrap, written

# The layout of a comparison of two sides: a name, A, B, the change, a last word.
SIDES = "<  >  >  >  <"
# Minimum number of characters for names in the first column.
_LABEL_MIN = 8


def text_table(
    rows: Sequence[Sequence[str]],
    columns: str,
    width: int | None = None,
    colors: Sequence[str | None] = (),
    notes: Sequence[Sequence[str]] = (),
    whole: bool = False,
) -> list[str]:
    """Return a line per row, without trailing blanks, each followed by its ``notes`` (none for the head).

    With ``width`` the names in the first column are shortened so that the lines fit; they stay different. With
    ``whole``, a name that does not fit has a line of its own above its row instead, and can be copied. ``colors``
    are the colours of the last cell of each row except the head (ECMA-48, such as "1;31"; None: no colour).
    """
    marks = re.findall(r"([<>])( *)", columns)
    labels = {row[0]: row[0] for row in rows}
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        room = width - sum(widths[1:]) - sum(len(gap) for _, gap in marks)
        room = max(room, 0 if whole else _LABEL_MIN)
        labels = {name: plain(name) for name in labels}
        short = shorten([labels[row[0]] for row in rows[1:]], width if whole else room)
        labels |= {row[0]: short[labels[row[0]]] for row in rows[1:]}
        widths[0] = max(len(label) if len(label) <= room else 0 for label in labels.values())
    lines = []
    body = len(rows) - 1
    own = zip(rows, [None, *(colors or [None] * body)], [(), *(notes or [()] * body)], strict=True)
    for row, color, below in own:
        label = labels[row[0]]
        if len(label) > widths[0]:
            lines.append(label)
            label = ""
        cells = [f"{label:{marks[0][0]}{widths[0]}}"]
        cells += [f"{cell:{mark}{size}}" for cell, (mark, _), size in zip(row[1:], marks[1:], widths[1:], strict=True)]
        last = cells.pop().rstrip()
        line = "".join(cell + gap for cell, (_, gap) in zip(cells, marks[:-1], strict=True))
        lines.append((line + (last if color is None else f"\x1b[{color}m{last}\x1b[0m")).rstrip())
        lines += below
    return lines


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Return the table as HTML; empty without a row below the head."""
    tags = ["th", *["td"] * (len(rows) - 1)]
    lines = ["".join(f"<{tag}>{written(cell)}</{tag}>" for cell in row) for tag, row in zip(tags, rows, strict=True)]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>" if len(rows) > 1 else ""


def markdown_table(rows: Sequence[Sequence[str]], columns: str) -> list[str]:
    """Return the table as Markdown, with an empty line below it. ``rows`` must already be Markdown."""
    marks = re.findall("[<>]", columns)
    head, *lines = [f"| {' | '.join(row)} |" for row in rows]
    return [head, f"|{'|'.join('---' if mark == '<' else '--:' for mark in marks)}|", *lines, ""]


def side_cells(a_bps: float | None, b_bps: float | None, change: float | None, digits: int = 1) -> tuple[str, str, str]:
    """Return the cells for A, B, and B over A minus one. None is an unknown value."""
    return rate_or(a_bps), rate_or(b_bps), signed_percent(change, digits)


def columns(rows: Sequence[Sequence[str]], most: Sequence[int], indent: str = "", hanging: str = "") -> list[str]:
    """Return the lines of all ``blocks``."""
    return list(chain.from_iterable(blocks(rows, most, indent, hanging)))


def blocks(rows: Sequence[Sequence[str]], most: Sequence[int], indent: str = "", hanging: str = "") -> list[list[str]]:
    """Return the lines of each row. The last cell wraps below itself.

    ``most`` is the maximum width of each column except the last; longer cells are shortened but stay different. Line
    breaks in the last cell are kept. ``hanging`` replaces ``indent`` on continued lines.
    """
    tables = [shorten([plain(row[index]) for row in rows], limit) for index, limit in enumerate(most)]
    widths = [max((len(cell) for cell in table.values()), default=0) for table in tables]
    found = []
    for row in rows:
        cells = [tables[index][plain(cell)].ljust(widths[index]) for index, cell in enumerate(row[:-1])]
        head = indent + "".join(cell + "  " for cell in cells)
        below = hanging.ljust(len(indent)) + " " * (len(head) - len(indent))
        lines: list[str] = []
        for part in row[-1].split("\n"):
            lines += [line.rstrip() for line in wrap(part, below if lines else head, below)]
        found.append(lines)
    return found
