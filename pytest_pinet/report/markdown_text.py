"""Pieces of Markdown that hold the texts of labs and kernels, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_pinet.report.fit import copyable

LINES_OF_MESSAGE = 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")


def escaped(text: str) -> str:
    """Text that Markdown and HTML leave alone, on one line."""
    return _SPECIAL.sub(r"\\\1", copyable(" ".join(text.split())))


def folded(title: str, lines: Sequence[str]) -> str:
    """The first lines of a message as they are, folded away behind its title, which is Markdown already."""
    text = "\n".join(copyable(line).replace("```", "'''") for line in lines[:LINES_OF_MESSAGE])
    return f"<details><summary>{title}</summary>\n\n```text\n{text}\n```\n</details>\n"
