"""``pinet history``: shows earlier measurements, level changes and their builds; exports and imports runs."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_pinet.cli.history_file import HISTORY_OPTION, open_store
from pytest_pinet.errors import ConfigError

if TYPE_CHECKING:
    from pytest_pinet.history.points import StoredRun, Trend


class ShowFirst(click.Group):
    """A group whose first command may go unsaid: ``pinet history 'pi4b:*'`` shows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ShowFirst)
def history() -> None:
    """Show what was measured before, and where the level moved; 'show' may go unsaid, 'show --help' has its options."""


@history.command()
@HISTORY_OPTION
@click.argument("figures", metavar="[ID]...", nargs=-1)
@click.option("--lab", "lab", metavar="NAME", help="Only what this lab has measured.")
@click.option("--last", type=click.IntRange(min=1), default=200, show_default=True, help="Look at so many runs.")
@click.option(
    "--matters", type=click.FloatRange(min=0, max=100), default=1.0, show_default=True, metavar="PERCENT",
    help="Levels that move by less are one.",
)  # fmt: skip
@click.option("--runs", "only_runs", is_flag=True, help="List the runs instead.")
@click.option("--changed", is_flag=True, help="Only figures whose level moved.")
@click.option("--json", "as_json", is_flag=True, help="Print points and changes as JSON.")
def show(
    history_url: str,
    figures: tuple[str, ...],
    lab: str | None,
    last: int,
    matters: float,
    only_runs: bool,
    changed: bool,
    as_json: bool,
) -> None:
    """Show each figure's trend, where its level moved, and the builds before and after.

    Each ID is a figure's or a glob ('pi4b:*/pair/*'; default: all). A drift has no build to blame and is called one.
    """
    from pytest_pinet.execution.names import unknown
    from pytest_pinet.history.text import figure_lines, trend_record
    from pytest_pinet.history.trends import trend

    store = open_store(history_url)
    try:
        if only_runs:
            _print_runs(store.runs(last, lab), as_json)
            return
        there = [figure.id for figure in store.figures(lab)]
        for wanted in figures:
            if not any(fnmatchcase(one, wanted) for one in there):
                raise ConfigError(f"{unknown('figure of this history', wanted, there)}")
        found = [
            trend(figure.id, figure.lab, points, matters=matters / 100)
            for figure, points in store.latest(last, lab)
            if not figures or any(fnmatchcase(figure.id, wanted) for wanted in figures)
        ]
    finally:
        store.close()
    found = [one for one in found if one.changes or not changed]
    if as_json:
        click.echo(json.dumps([trend_record(one) for one in found], indent=1))
        return
    for line in [line for one in found for line in figure_lines(one)]:
        click.echo(line)
    click.echo(_count(found))


def _count(found: Sequence[Trend]) -> str:
    moved = sum(bool(one.changes) for one in found)
    return f"{len(found)} figure{'s' if len(found) != 1 else ''}; the level of {moved} moved"


def _print_runs(runs: Sequence[StoredRun], as_json: bool) -> None:
    from pytest_pinet.history.text import run_lines, run_record

    if as_json:
        click.echo(json.dumps([run_record(run) for run in runs], indent=1))
    else:
        for line in run_lines(runs):
            click.echo(line)


@history.command("export")
@HISTORY_OPTION
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of the terminal.")
def export_(history_url: str, output: str | None) -> None:
    """Write the whole history as JSON lines."""
    from pytest_pinet.history.lines import lines_of

    store = open_store(history_url)
    try:
        if output is None or output == "-":
            for line in lines_of(store.everything()):
                sys.stdout.write(line + "\n")
            return
        _write_lines(Path(output), lines_of(store.everything()))
    finally:
        store.close()


def _write_lines(path: Path, lines: Any) -> None:
    """Write line by line, because a history can exceed the memory. Readers see the whole file or none."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="ascii") as file:
                file.writelines(line + "\n" for line in lines)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}; choose another with -o") from None


@history.command("import")
@HISTORY_OPTION
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def import_(history_url: str, files: tuple[Path, ...]) -> None:
    """Take in runs. What is there already stays.

    Each FILE is a results.json, lines of 'pinet history export', or the results.jsonl of a run that was killed, which
    is kept as an interrupted one: it never feeds a baseline.
    """
    from pytest_pinet.history.lines import FORMAT, import_lines
    from pytest_pinet.history.save import import_killed, import_results

    store = open_store(history_url, create=True)
    new = seen = 0
    try:
        for path in files:
            if FORMAT in _beginning(path):
                with path.open(encoding="utf-8", errors="replace") as file:
                    some, all_of_them = import_lines(store, file, str(path))
            elif path.suffix == ".jsonl":
                is_new, left_out = import_killed(store, path)
                some, all_of_them = int(is_new), 1
                if left_out:
                    click.echo(f"{path}: {left_out}", err=True)
            else:
                some, all_of_them = int(import_results(store, path)), 1
            new, seen = new + some, seen + all_of_them
    finally:
        store.close()
    click.echo(f"{seen} run{'s' if seen != 1 else ''} read, {new} of them new")


def _beginning(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(200)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected a results.json or an export") from None
