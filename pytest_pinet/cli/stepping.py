"""How a long command tells where it is: one line that is written over on a terminal, lines elsewhere; on stderr."""

from __future__ import annotations

import shutil
import sys
import time

import click

# Where lines cannot be written over, such as in the log of a CI job, this often is enough.
_BETWEEN_S = 10.0


class Steps:
    """Called with what was just done."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._told = -_BETWEEN_S

    def __call__(self, text: str) -> None:
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{text[:width]}", err=True, nl=False)
        elif time.monotonic() - self._told >= _BETWEEN_S:
            self._told = time.monotonic()
            click.echo(text, err=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        self.end()
        click.echo(text, err=True)

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
