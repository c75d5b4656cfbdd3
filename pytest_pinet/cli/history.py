"""``pinet history``: shows earlier measurements, level changes and their builds; exports and imports runs."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

import click

from pytest_pinet.cli.command import MISTAKE, PINET, DefaultGroup, echo, say
from pytest_pinet.cli.options import HISTORY_OPTION, OUTPUT_OPTION, FiniteRange, last_option, print_result, write_output
from pytest_pinet.errors import ConfigError, sentence
from pytest_pinet.execution.files import exists
from pytest_pinet.execution.names import unknown


@click.group(cls=DefaultGroup)
def history() -> None:
    """Show how the results of all runs changed, and the builds before and after each change; export and import runs.

    Each ID is the id of a result or a glob ('pi4b:*/pair/*'; default: all results). 'show' is the default command.
    """


@history.command(short_help="Show the trend of each result: the default.")
@HISTORY_OPTION
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--lab-name", "lab", metavar="NAME", help="Show only results of the lab with this name.")
@last_option(200, "Show at most this many runs.")
@click.option(
    "--matters", type=FiniteRange(min=0, max=100), default=1.0, show_default=True, metavar="PERCENT",
    help="Ignore level changes smaller than this.",
)  # fmt: skip
@click.option("--runs", "only_runs", is_flag=True, help="List the runs instead of the results.")
@click.option("--gates", "only_gates", is_flag=True, help="List the changes that were gated instead of the results.")
@click.option("--changed", is_flag=True, help="Show only results with a level change.")
@click.option("--json", "as_json", is_flag=True, help="Print points and changes as JSON.")
def show(
    history_url: str,
    names: tuple[str, ...],
    lab: str | None,
    last: int,
    matters: float,
    only_runs: bool,
    only_gates: bool,
    changed: bool,
    as_json: bool,
) -> None:
    """Show the trend of each result, its level changes, and the builds before and after each change.

    Each ID is the id of a result or a glob ('pi4b:*/pair/*'; default: all results). A slow drift is shown as a drift,
    because no single build caused it.
    """
    from pytest_pinet.history.history import open_history
    from pytest_pinet.history.text import figure_lines, gate_lines, heights_for, run_lines, trend_record
    from pytest_pinet.history.trends import trend

    with open_history(history_url) as store:
        if only_runs:
            runs = store.runs(last, lab)
            print_result(as_json, lambda: [run.dump() for run in runs], lambda: run_lines(runs))
            return
        gates = store.gates(last, lab)
        if only_gates:
            lines = [line for run in gates for line in gate_lines(run)] or ["no change was gated"]
            print_result(as_json, lambda: [run.dump() for run in gates], lambda: lines)
            return
        there = [figure.id for figure in store.figures(lab)]
        for name in names:
            if not any(fnmatchcase(one, name) for one in there):
                raise ConfigError(unknown("result in this history", name, there))
        found = [
            trend(figure.id, figure.lab, points, matters=matters / 100)
            for figure, points in store.latest(last, lab)
            if not names or any(fnmatchcase(figure.id, name) for name in names)
        ]
    found = [one for one in found if one.changes or not changed]
    moved = sum(bool(one.changes) for one in found)
    count = f"{len(found)} result{'s' if len(found) != 1 else ''}, {moved} with a level change"
    if gates:
        count += f"; {len(gates)} gated change{'s' if len(gates) != 1 else ''} (--gates)"
    lines = [line for one in found for line in figure_lines(one, heights_for(sys.stdout.encoding))]
    print_result(as_json, lambda: [trend_record(one) for one in found], lambda: [*lines, count])


@history.command("export")
@HISTORY_OPTION
@OUTPUT_OPTION
def export_(history_url: str, output: str | None) -> None:
    """Write the whole history as JSON lines."""
    from pytest_pinet.history.history import lines_of, open_history

    with open_history(history_url) as store:
        write_output((line + "\n" for line in lines_of(store.everything())), output)


@history.command("import")
@HISTORY_OPTION
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def import_(history_url: str, files: tuple[Path, ...]) -> None:
    """Add runs to the history. Runs that are already there are not changed.

    Each FILE is a results.json, a file of 'pinet history export', or the results.jsonl of a killed run. A killed run is
    stored as interrupted, so that it never counts for a baseline.
    """
    from pytest_pinet.history.history import FORMAT, import_killed, import_lines, import_results, open_history
    from pytest_pinet.history.results_file import HEAD, LINES

    new = seen = 0
    refused: list[str] = []

    def refuse(message: str) -> None:
        refused.append(message)
        say(f"{PINET} {sentence(message)}")

    with open_history(history_url, create=True) as store:
        for path in files:
            added, total = 0, 0
            try:
                beginning = _beginning(path)
                # A killed run has a file beside its results.
                is_killed = path.suffix == ".jsonl" and (path.name == LINES or exists(path.with_name(HEAD)))
                if not beginning and not is_killed:
                    expected = "a file of 'pinet history export' or a results.json"
                    raise ConfigError(f"{path} is empty; expected {expected}")
                if FORMAT in beginning or (path.suffix == ".jsonl" and not is_killed):
                    with path.open(encoding="utf-8", errors="replace") as file:
                        added, total = import_lines(store, file, str(path), refuse)
                elif is_killed:
                    (added, left_out), total = import_killed(store, path), 1
                    if left_out:
                        say(sentence(f"{path}: {left_out}"))
                else:
                    added, total = import_results(store, path), 1
            except ConfigError as error:
                refuse(str(error))
            new, seen = new + added, seen + total
    echo(f"{seen} run{'s' if seen != 1 else ''} read, {new} of them new")
    if refused:
        sys.exit(MISTAKE)


@history.command()
def schema() -> None:
    """Print the JSON Schema of results.json."""
    click.echo(files("pytest_pinet.report").joinpath("results.schema.json").read_text(encoding="utf-8"), nl=False)


def _beginning(path: Path) -> str:
    from pytest_pinet.history.results_file import size_of

    try:
        if not size_of(path):
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(200)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a valid path"
        expected = "a results.json, a results.jsonl or a file of 'pinet history export'"
        raise ConfigError(f"{path}: {why}; expected {expected}") from None
