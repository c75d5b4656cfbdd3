"""A picture's head: what it shows, and the facts about it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pytest_pinet.pictures.drawing import NORMAL, TITLE, Drawing, Label, Rect, Shape
from pytest_pinet.pictures.stack_sizes import MARGIN
from pytest_pinet.report.fit import plain

_LINE = 18.0
# Narrower pictures get a head of this width, in characters.
_LEAST = 90


def head_height(facts: Sequence[str]) -> float:
    """The height of a head with these facts, a line or more each, under the title."""
    return MARGIN + TITLE + sum(len(_lines(fact)) for fact in facts) * _LINE + 22


def sheet(title: str, facts: Sequence[str], area: Rect, shapes: Sequence[Shape]) -> Drawing:
    """The drawing with its head; ``area`` is what ``shapes`` take below it."""
    labels = [Label(MARGIN, MARGIN + TITLE - 4, title, "name", TITLE)]
    y = MARGIN + TITLE
    for line in (line for fact in facts for line in _lines(fact)):
        y += _LINE
        labels.append(Label(MARGIN, y, line, "muted", NORMAL))
    width = max(area.right, *(label.rect.right + MARGIN for label in labels))
    return Drawing(title, width, area.bottom + MARGIN, (*shapes, *labels))


def _lines(fact: str) -> list[str]:
    return textwrap.wrap(plain(fact), _LEAST, break_on_hyphens=False)
