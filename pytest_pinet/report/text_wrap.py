"""Text for all reports: rates, sentences, wrapping and short names; tables for a terminal, as Markdown and as HTML.

The first row of a table is its head, except in `blocks`. The layout of a table is a text such as ``<  < >  <``: one
mark per column for left or right alignment, followed by the blanks before the next column.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from itertools import chain, takewhile

from pytest_pinet.model.figures import GOODPUT, Figure

WIDTH = 80
RATE_WIDTH = 13
# The indent of a continued line of a message.
CONTINUED = " " * 4
_GAP = ".."
_NOT_PLAIN = re.compile(r"[^ -~]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
# The blank between a number and its unit.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[kMG]?bit/s|m?s|min|MHz)(?![a-z]))")
_TIED = "\N{NO-BREAK SPACE}"
# A word of a shell command, with quoted spaces. What an atomic group has matched is not tried in another way.
_SHELL_WORD = re.compile(r"""(?>(?:[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*"|\\.|['"\\])+)""")


def plain(text: str) -> str:
    """Return ``text`` in printable ASCII, one column per character. Others are escaped, since terminals differ."""
    return _NOT_PLAIN.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def copyable(text: str) -> str:
    """Return ``text`` with its unprintable characters as escapes. Paths and commands can be copied."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 node``, ``6 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def written(text: str) -> str:
    """Return ``text`` escaped for XML and HTML. Characters that are not printable are shown, except for line ends."""
    return escape("\n".join(map(copyable, text.split("\n"))))


def rate(bps: float | None, missing: str = "-") -> str:
    """Return a bit rate with its unit in at most RATE_WIDTH characters, or ``missing`` if there is none."""
    return value_text(bps, GOODPUT, missing)


def value_text(value: float | None, kind: Figure, missing: str = "-") -> str:
    """Return a value of a kind with its unit in at most RATE_WIDTH characters, or ``missing`` if there is none."""
    text = missing if value is None else kind.show(value)
    return text if value is None or len(text) <= RATE_WIDTH else f"{value:.0e} {kind.unit}"


def rates(*bps: float) -> list[str]:
    """Return bit rates for one sentence: if all have the same unit, only the last one shows the unit."""
    return value_texts(GOODPUT, *bps)


def value_texts(kind: Figure, *values: float) -> list[str]:
    """Return values of a kind for one sentence: if all have the same unit, only the last one shows the unit."""
    texts = [value_text(one, kind) for one in values]
    if not all(" " in text for text in texts):
        return texts
    numbers, units = zip(*(text.split(" ", 1) for text in texts), strict=True)
    return [*numbers[:-1], texts[-1]] if len(set(units)) == 1 else texts


def signed_percent(change: float | None, digits: int = 1) -> str:
    """Return a relative change, such as ``-9.6%``. A change that rounds to nothing is ``+0.0%``."""
    return "-" if change is None else f"{round(change * 100, digits) + 0.0:+.{digits}f}%"


def tied(text: str) -> str:
    """Return ``text`` with a character at which no line ends between each number and its unit."""
    return _BEFORE_UNIT.sub(_TIED, text)


def first_paragraph(text: str) -> str:
    """Return the first line of a message with its continued lines, which begin with ``CONTINUED``."""
    first, *rest = text.strip().splitlines() or [""]
    return " ".join([first, *(line.strip() for line in takewhile(lambda line: line.startswith(CONTINUED), rest))])


def first_sentence(text: str) -> str:
    """Return the first sentence of a message, which ends at the latest with its first paragraph."""
    return _SENTENCE_END.split(first_paragraph(text), maxsplit=1)[0]


def wrap(
    text: str, indent: str = "", hanging: str | None = None, width: int = WIDTH, lines: int | None = None
) -> list[str]:
    """Return ``text`` as lines of at most ``width`` columns.

    All but the first begin with ``hanging`` (default: ``indent``). Text beyond ``lines`` lines is cut and marked with
    ``...``. A number and its unit stay on one line.
    """
    wrapped = textwrap.wrap(
        tied(plain(" ".join(text.split()))),
        width,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
        max_lines=lines,
        placeholder=" ...",
    )
    return [line.replace(_TIED, " ") for line in wrapped] or [indent.rstrip()]


def wrap_each(texts: Iterable[str], hanging: str = "  ") -> list[str]:
    """Return the lines of all these texts. All but the first line of each begin with ``hanging``."""
    return [line for text in texts for line in wrap(text, hanging=hanging)]


def wrap_command(command: str, indent: str, hanging: str) -> list[str]:
    """Return a shell command in lines with backslashes, so that it can be copied. Words are never split."""
    words: list[str] = _SHELL_WORD.findall(copyable(command))
    lines, line = [], indent
    for word in words:
        fresh = line in (indent, hanging)
        if not fresh and len(line) + len(word) + len("  \\") > WIDTH:
            lines.append(line + " \\")
            line, fresh = hanging, True
        line += word if fresh else f" {word}"
    return [*lines, line]


def shorten(labels: Iterable[str], width: int) -> dict[str, str]:
    """Return a short form of each label: at most ``width`` (at least 8) characters, cut in the middle, all different.

    All labels are cut at the same place, the one nearest the middle where they stay different, so that they can be
    compared. If there is no such place, the labels are numbered.
    """
    unique = list(dict.fromkeys(labels))
    room = width - len(_GAP)
    for tail in sorted(range(1, room), key=lambda tail: abs(2 * tail - room)):
        cut = {s: s if len(s) <= width else s[: room - tail] + _GAP + s[-tail:] for s in unique}
        if len(set(cut.values())) == len(unique):
            return cut
    chosen = {label: label for label in unique if len(label) <= width}
    for label in unique:
        number = 1
        while label not in chosen:
            suffix = f"{_GAP}{number}"
            candidate = label[: width - len(suffix)] + suffix
            if candidate not in chosen.values():
                chosen[label] = candidate
            number += 1
    return chosen


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


def side_cells(
    a: float | None, b: float | None, change: float | None, digits: int = 1, kind: Figure = GOODPUT
) -> tuple[str, str, str]:
    """Return the cells for A, B, and B over A minus one. None is an unknown value."""
    return value_text(a, kind), value_text(b, kind), signed_percent(change, digits)


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
