"""Escapes arbitrary texts of labs and kernels for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_pinet.report.text_wrap import copyable

LINES_OF_MESSAGE = 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")


def escaped(text: str) -> str:
    """Return the text on one line, with the special characters of Markdown and HTML escaped."""
    return _SPECIAL.sub(r"\\\1", copyable(" ".join(text.split())))


def folded(title: str, lines: Sequence[str]) -> str:
    """Return the first lines of a message unchanged, folded below a title that is already Markdown."""
    text = "\n".join(copyable(line).replace("```", "'''") for line in lines[:LINES_OF_MESSAGE])
    return f"<details><summary>{title}</summary>\n\n```text\n{text}\n```\n</details>\n"
