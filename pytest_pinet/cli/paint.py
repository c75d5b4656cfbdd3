"""Colours of the lines that commands print. click removes them where the output is no terminal."""

from __future__ import annotations

import re

import click

from pytest_pinet.execution.clean_text import for_log

# The words at the end of a row, as the tables print them.
_RED = ("FAIL", "ERROR", "SLOWER", "REGRESSION", "FINDING", "LAB ERROR")
_YELLOW = ("INCONCLUSIVE", "INVALID", "UNDECIDED", "marginal")
_GREEN = ("pass", "improved", "faster", "same", "unchanged")
_COLOURS = {word: name for name, words in (("red", _RED), ("yellow", _YELLOW), ("green", _GREEN)) for word in words}
_LAST = re.compile(rf"(?<=\s\s)({'|'.join(_COLOURS)})$")
# The marks at the beginning of a line of `doctor`, `matrix` and `lab status`.
_MARKS = {"ok": "green", "BAD": "red", "?": "yellow", "!": "red"}
_FIRST = re.compile(rf"(\s*)({'|'.join(map(re.escape, _MARKS))})(?=\s)")


def echo(text: object, err: bool = False, nl: bool = True) -> None:
    """Print a text, cleaned of what a terminal or a CI system would act on."""
    click.echo(for_log(str(text)), err=err, nl=nl)


def painted(line: str) -> str:
    """Return a line with its mark or its last word in the colour of what it means."""
    if match := _FIRST.match(line):
        blanks, mark = match.groups()
        return f"{blanks}{click.style(mark, fg=_MARKS[mark])}{line[match.end() :]}"
    return _LAST.sub(lambda match: click.style(match[1], fg=_COLOURS[match[1]]), line)


def painted_change(line: str) -> str:
    """Return a line of a unified diff in the usual colours."""
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour is not None else line
