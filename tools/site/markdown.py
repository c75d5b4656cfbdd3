"""Small pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or nothing without rows."""
    lines = [_row(cells) for cells in rows]
    return "\n".join([_row(head), _row(["---"] * len(head)), *lines]) + "\n" if lines else ""


def _row(cells: Sequence[str]) -> str:
    shown = [re.sub(r"(?<!\\)\|", r"\|", " ".join(cell.split())) for cell in cells]
    return f"| {' | '.join(shown)} |"


def code(text: object) -> str:
    """Return text in code style; nothing for an empty text."""
    return f"`{text}`" if str(text) else ""


def plain(text: str) -> str:
    """Return a text of a program as Markdown: a glob is no emphasis. Text in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if number % 2 else re.sub(r"([*<\\])", r"\\\1", part) for number, part in enumerate(parts))


def of_docstring(text: str) -> str:
    """Return a docstring as Markdown: names in code style, and blocks after ``::`` as code."""
    parts = re.split(r"^::\n\n((?:    .*\n?|\n)+)", text.strip() + "\n", flags=re.MULTILINE)
    shown = []
    for number, part in enumerate(parts):
        if number % 2:
            lines = "\n".join(line[4:] for line in part.rstrip().splitlines())
            shown.append(f"```python\n{lines}\n```\n" if lines.startswith("def ") else f"```text\n{lines}\n```\n")
        else:
            shown.append(re.sub(r"``([^`]+)``", r"`\1`", part))
    return "\n".join(shown)
