"""Shows the progress of a long command on stderr: one line that is overwritten on a terminal, else separate lines."""

from __future__ import annotations

import shutil
import sys
import time

import click

# Without a terminal, such as in the log of a CI job, one line in this time is enough.
_INTERVAL_S = 10.0


class Steps:
    """Shows progress. Call it with a text about the step that was just done."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last_s = -_INTERVAL_S

    def __call__(self, text: str) -> None:
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{text[:width]}", err=True, nl=False)
        elif time.monotonic() - self._last_s >= _INTERVAL_S:
            self._last_s = time.monotonic()
            click.echo(text, err=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.end()
        click.echo(text, err=True)

    def end(self) -> None:
        """Clear the progress line."""
        if self._terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
