"""Cleans text that came from boards and files, at each exit: terminal, logs of CI systems, files.

Such a text could move the cursor, ring the bell, change the order of letters, or give commands to a CI system.
"""

from __future__ import annotations

import re

# Colours are harmless, and our own output has them.
_COLOUR = r"\x1b\[[0-9;]{0,20}m"
# Control characters except tab and line feed, marks of writing direction, line separators, lone surrogates.
_DIRTY = re.compile(
    rf"{_COLOUR}|\r\n|([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff])"
)
# GitHub (::error), and Azure and older runners (##[error], ##vso[task...]). GitHub ignores blanks before a command.
_COMMAND = re.compile(r"^([ \t]*):(?=:)|##(?=\[|vso\[)", re.MULTILINE)


def cleaned(text: str) -> str:
    """Return a text in which all characters that a terminal acts on are escaped (``\\x1b``), except colours."""
    # Most texts are clean, which this finds out in a third of the time: a page has millions of characters.
    if text.replace("\n", "").replace("\N{NO-BREAK SPACE}", "").isprintable():
        return text
    return _DIRTY.sub(_escaped, text)


def for_log(text: str) -> str:
    """Return a clean text without commands of CI systems at the beginning of a line."""
    return _COMMAND.sub(lambda match: f"{match[1]}: " if match[1] is not None else "## ", cleaned(text))


def _escaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return match[1].encode("unicode_escape", "surrogatepass").decode("ascii")
