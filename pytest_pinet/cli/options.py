"""Options that several subcommands share, and how they read values, show progress, and print and write results."""

from __future__ import annotations

import difflib
import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.configured import configured
from pytest_pinet.cli.paint import echo, painted, painted_change
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.clean_text import cleaned, for_log
from pytest_pinet.execution.output_file import write_file, writing

if TYPE_CHECKING:
    from click.decorators import FC

DEFAULT_HISTORY = ".pinet/history.db"
# For calls of pytest. It cannot rewrite the assertions of modules that `pinet` has imported, and none of them needs it.
QUIET = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"
# The most runs that --last and --least can ask for: more than a history has. No database takes a number above 2**63.
MOST_RUNS = 1_000_000
# Without a terminal, such as in the log of a CI job, one line of progress in this time is enough.
_INTERVAL_S = 10.0

LAB_OPTION = click.option(
    "--lab", "lab_file", metavar="FILE", default=lab_names.lab_of_user, show_default=f"{lab_names.DEFAULT_LAB}",
    shell_complete=lab_names.lab_files,
    help="The lab file, or the name of a packaged lab. Also PINET_LAB, and pinet_lab in pytest's configuration.",
)  # fmt: skip
HISTORY_OPTION = click.option(
    "--history", "history_url", metavar="URL", default=lambda: configured("history") or DEFAULT_HISTORY,
    show_default=DEFAULT_HISTORY,
    help="The history: an SQLite file or postgresql://user@host/name. Also PINET_HISTORY, and pinet_history in "
    "pytest's configuration.",
)  # fmt: skip
OUTPUT_OPTION = click.option("-o", "--output", metavar="FILE", help="Write to this file instead of the terminal.")


class FiniteRange(click.FloatRange):
    """A percentage in a range, such as 3 or 3%. ``click.FloatRange`` accepts nan, which is in no range."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        bare = value.strip().removesuffix("%") if isinstance(value, str) else value
        number: float = super().convert(bare, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def last_option(default: int, text: str, least: int = 1) -> Callable[[FC], FC]:
    """Return the option ``--last``: the number of runs to read from the history."""
    return click.option(
        "--last", metavar="N", type=click.IntRange(least, MOST_RUNS), default=default, show_default=True, help=text
    )


def print_lines(lines: Iterable[str], paint: Callable[[str], str] = painted) -> None:
    """Print each line on stdout, with colours on a terminal."""
    for line in lines:
        echo(paint(line))


def print_change(path: Path, before: str, after: str) -> None:
    """Print what changed in a file as a unified diff."""
    name = str(path)
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    print_lines(changed, painted_change)


def print_result(as_json: bool, records: Callable[[], object], lines: Callable[[], Iterable[str]]) -> None:
    """Print records as JSON or, without ``as_json``, lines of text."""
    print_lines([json.dumps(records(), indent=1)] if as_json else lines())


def write_output(
    texts: Iterable[str], output: str | None, option: str = "-o", clean: Callable[[str], str] = for_log
) -> None:
    """Print texts, which ``clean`` cleans, or write them to a file, all or nothing. Raises ConfigError."""
    if output is None or output == "-":
        for text in texts:
            click.echo(clean(text), nl=False)
        return
    if not output:
        raise ConfigError(f"{option} is empty; expected the name of a file")
    path = Path(output)
    with writing(output, option):
        # A file may end in the log of a CI system, too: it is that log (/dev/stdout), or a job prints it.
        # Texts are written one by one, because a history can exceed the memory.
        # Only terminals have colours.
        plain = (clean(text).replace("\x1b", "\\x1b") for text in texts)
        write_file(path, (text.encode("utf-8", "backslashreplace") for text in plain))


class Steps:
    """Shows progress on stderr: one line that is overwritten on a terminal, else separate lines."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last_s = -_INTERVAL_S

    def __call__(self, text: str) -> None:
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{cleaned(text)[:width]}", err=True, nl=False)
        elif time.monotonic() - self._last_s >= _INTERVAL_S:
            self._last_s = time.monotonic()
            echo(text, err=True)

    def say(self, text: str) -> None:
        self.end()
        echo(text, err=True)

    def end(self) -> None:
        """Clear the progress line."""
        if self._terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
