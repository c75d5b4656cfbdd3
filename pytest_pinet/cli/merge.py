"""``pinet merge``: joins the shards of one gate, or the runs of several labs, to one run."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.configured import configured
from pytest_pinet.cli.options import FiniteRange, print_lines
from pytest_pinet.cli.paint import echo
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.path_kind import exists, is_file

if TYPE_CHECKING:
    from pytest_pinet.model.record.result import RunRecord
    from pytest_pinet.report.merged_run import Shard


@click.command(cls=PinetCommand)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--error-rate", metavar="PERCENT", type=FiniteRange(0, 20, min_open=True), default=1.0, show_default=True,
    help="Probability that an unchanged build is called slower in any metric of all runs.",
)  # fmt: skip
@click.option(
    "--history", "history_url", metavar="URL", default=lambda: configured("history"), show_default=".pinet/history.db",
    help="The history that stores the merged run, or 'off'. Also PINET_HISTORY, and pinet_history in pytest's "
    "configuration.",
)  # fmt: skip
def merge(runs: tuple[str, ...], error_rate: float, history_url: str | None) -> None:
    """Join the shards of one gate, or the runs of several labs, to one run with one verdict.

    RUN is a results.json or a run folder. The merged run is in a new run folder, .pinet/latest points to it, and
    summary, export and report read it like any other run. A history that already has a shard does not store the
    merged run.

    Shards do not multiply false alarms. Run each shard with --shards N (N: how many there are). If a run did not
    use this option, its slower metrics stay slower only if they are certain among the metrics of all runs.

    Exit code: 0 if the build may be merged; 1 if it is slower or broken; 2 if a lab failed; 3 if there is no decision,
    also if a shard is missing or a test died; 4 for wrong arguments, such as runs of different builds.
    """
    from pytest_pinet.cli.run_selection import read_results, results_file
    from pytest_pinet.report.merged_run import Shard, exit_code, merged_run
    from pytest_pinet.report.run_folder import RunFolder

    shards: list[Shard] = []
    sources: list[Path] = []
    for number, what in enumerate(runs, 1):
        path = results_file(what)
        if path is None:
            raise ConfigError(f"there is no {what!r}; expected a results.json or a run folder")
        shards.append(Shard(read_results(path), what, f"shard-{number}"))
        sources.append(path.parent)
    run = merged_run(shards, error_rate / 100)
    folder = RunFolder.create(Path.cwd(), datetime.now(UTC))
    for shard, source in zip(shards, sources, strict=True):
        _copy_files(shard, source, folder.path)
        _copy_configs(shard.run, source, folder.path)
    folder.write_results(run)
    if trouble := _keep(history_url, run, shards, folder.path):
        echo(f"pinet: {trouble}", err=True)
    print_lines(_lines(run, folder.path))
    sys.exit(exit_code(run))


def _copy_files(shard: Shard, source: Path, folder: Path) -> None:
    """Copy the raw files that the results name. A shard that brought only its results.json has none."""
    for name in dict.fromkeys(name for result in shard.run.results for name in result.files):
        _copy(source, name, folder / shard.folder)


def _copy_configs(run: RunRecord, source: Path, folder: Path) -> None:
    """Copy the kernel configurations of both builds, which are the same in each shard."""
    builds = (run.change.a, run.change.b) if run.change is not None else ()
    for name in [build.source.config for build in builds if build.source is not None and build.source.config]:
        if not exists(folder / name):
            _copy(source, name, folder)


def _copy(source: Path, name: str, folder: Path) -> None:
    """Copy a file that a run names, if the run has it, and if it is not outside its folder."""
    path = source / name
    if is_file(path) and path.resolve().is_relative_to(source.resolve()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)


def _keep(url: str | None, run: RunRecord, shards: list[Shard], folder: Path) -> str | None:
    """Store the run in the history. Return a message if it is not stored."""
    from pytest_pinet.history.history import DEFAULT, OFF, keep_run, open_history
    from pytest_pinet.history.records import points_of

    target = url or str(folder.parent.parent / DEFAULT)
    if target.strip().lower() in OFF:
        return None
    with open_history(target, create=True) as store:
        there = [one.where for one in shards if any(store.runs(1, start=points_of(one.run)[0].id))]
    if there:
        message = f"the merged run is not in the history, because the history already has {', '.join(there)}"
        return f"{message}; gate shards with --history off"
    return keep_run(url, run, folder)


def _lines(run: RunRecord, folder: Path) -> list[str]:
    from pytest_pinet.report.change_table import change_lines, emulated_words
    from pytest_pinet.report.markdown import verdict_in_words
    from pytest_pinet.report.terminal import summary_table
    from pytest_pinet.report.text_wrap import wrap

    shown = str(folder.relative_to(Path.cwd()))
    if run.change is None:
        return [verdict_in_words(run), "", *summary_table(run.results, run.skipped, run_folder=shown)]
    lines = change_lines(run.change, run.skipped, run_folder=shown, results=run.results)
    return lines + wrap(emulated_words(run), hanging="  ")
