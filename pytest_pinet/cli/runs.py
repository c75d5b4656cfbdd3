"""Commands that read runs: ``pinet summary``, ``compare``, ``compare published``, ``merge`` and ``export``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import DefaultGroup, PinetCommand, say
from pytest_pinet.cli.options import (
    HISTORY_OPTION,
    OUTPUT_OPTION,
    FiniteRange,
    configured,
    has_history,
    print_lines,
    print_result,
    write_output,
)
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.files import exists, is_file
from pytest_pinet.execution.text import cleaned, for_log

if TYPE_CHECKING:
    from pytest_pinet.execution.entry_points import Extension
    from pytest_pinet.model.record.result import RunRecord
    from pytest_pinet.report.merged_run import Shard


@click.command(cls=PinetCommand)
@click.argument("what", metavar="[FILE]", default=".pinet/latest")
@click.option(
    "--format", "form", type=click.Choice(["md", "text"]), default="text", show_default=True,
    help="md: Markdown for a CI job or a merge request; text: the table of the terminal.",
)  # fmt: skip
@HISTORY_OPTION
@OUTPUT_OPTION
def summary(what: str, form: str, history_url: str, output: str | None) -> None:
    """Summarize a run: first the verdict in words, then the results.

    FILE is a results.json or a run folder; the default is the last run in this folder. If the history has runs of the
    same lab, the summary also lists its losses that did not recover (see pinet losses).
    """
    from pytest_pinet.cli.run_selection import named_run
    from pytest_pinet.report.markdown import summary_markdown

    run, _ = named_run(what)
    losses = _losses(run, history_url)
    if form == "md":
        write_output([summary_markdown(run, losses=losses)], output)
        return
    lines = [*_lines(run), *(["", *losses] if losses else [])]
    if output is None:
        print_lines(lines)
    else:
        write_output([f"{line}\n" for line in lines], output)


def _losses(run: RunRecord, history_url: str) -> list[str]:
    """Return lines about the losses of the run's lab; none without a history or the lab file."""
    from pytest_pinet.config.lab_path import is_name
    from pytest_pinet.config.labfile import load
    from pytest_pinet.report.sentences import read_losses, short_lines

    file = configured("lab") or run.lab_file
    if not has_history(history_url) or not (is_name(file) or is_file(file)):
        return []
    today = datetime.now(UTC).date()
    try:
        lab = load(file, in_use=False)
        return short_lines(read_losses(history_url, lab, today), today) if lab.name == run.lab else []
    except ConfigError as error:
        # The results are worth a summary, whatever is wrong with other files.
        return [f"losses are not known: {error}"]


@click.command(cls=PinetCommand)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="Also write the table to this file, as a Markdown page.")
@click.option("--complete", is_flag=True, help="Also exit with 1 if a published value was not measured or not judged.")
def published(runs: tuple[str, ...], output: str | None, complete: bool) -> None:
    """Compare the results of a run with published values.

    RUN is a run folder or its results.json; the default is .pinet/latest. If several RUNs of one lab have the same
    result, the latest counts.

    Exit code: 0 if no result is off; 1 if a result is off, unless the source itself doubts its value.
    """
    from pytest_pinet.catalogue.published import published as published_values
    from pytest_pinet.cli.run_selection import LATEST, named_run
    from pytest_pinet.published.table import EMULATED, page, rows, summary, table
    from pytest_pinet.report.sentences import scale_text

    read = sorted((named_run(what)[0] for what in runs or (LATEST,)), key=lambda run: run.started)
    kinds, labs = {run.figures for run in read}, {run.lab for run in read}
    if len(kinds) > 1 or len(labs) > 1:
        which = " and ".join(sorted(kinds if len(kinds) > 1 else labs))
        raise ConfigError(f"the runs are of several labs ({which}); expected runs of one lab")
    emulated = kinds == {EMULATED}
    found = rows(published_values().values(), [result for run in read for result in run.results], emulated)
    scaled = scale_text(result for run in read for result in run.results)
    print_lines([*table(found, emulated), "", summary(found), *filter(None, [scaled])])
    if output is not None:
        write_output([page(found, read)], output)
    if any(row.surprising or (complete and row.missing) for row in found):
        sys.exit(1)


@click.group(cls=DefaultGroup)
def compare() -> None:
    """Compare the results of B with the results of A, or one run with published values.

    A and B are each a results.json, a run folder, a run of the history ('latest', 'latest~1', an id), or a build
    ('6.12.25'). 'runs' is the default command.

    Exit code: 0 if nothing is slower; 1 if a result is slower; 3 if a result cannot be judged; 4 for wrong arguments.
    """


@compare.command(short_help="Compare B with A: the default.")
@HISTORY_OPTION
@click.argument("a")
@click.argument("b")
@click.option(
    "--tolerance", type=FiniteRange(min=0, max=99), default=3.0, show_default=True, metavar="PERCENT",
    help="B may be slower than A by at most this percentage.",
)  # fmt: skip
@click.option("-k", "only", metavar="TEXT", default="", help="Compare only results whose id contains this text.")
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the table.")
def runs(history_url: str, a: str, b: str, tolerance: float, only: str, as_json: bool) -> None:
    """Compare the results of B with the results of A.

    A and B are each a results.json, a run folder, a run of the history ('latest', 'latest~1', an id), or a build
    ('6.12.25'). A build stands for all of its runs in the history. With five runs of A or more, the difference is
    judged by its confidence interval.

    Exit code: 0 if nothing is slower; 1 if a result is slower; 3 if a result cannot be judged; 4 for wrong arguments.
    """
    from pytest_pinet.cli.run_selection import side_of
    from pytest_pinet.history.compare import RunSet, compared, exit_code
    from pytest_pinet.report.sentences import comparison_records, comparison_table

    side_a, side_b = (
        RunSet(side.name, tuple(point for point in side.points if only in point.figure))
        for side in (side_of(a, history_url), side_of(b, history_url))
    )
    for side in (side_a, side_b):
        if any(point.is_exact for point in side.points):
            raise ConfigError(
                f"{side.name} has values of exact gates, each of which compares two builds by itself: 'pinet summary "
                "RUN' shows it; to compare two others, run pinet gate B --exact --against A"
            )
    found = compared(side_a, side_b, tolerance / 100)
    print_result(as_json, lambda: comparison_records(found), lambda: comparison_table(side_a, side_b, found))
    sys.exit(exit_code(found))


compare.add_command(published)


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
    from pytest_pinet.cli.run_selection import named_run
    from pytest_pinet.report.merged_run import Shard, exit_code, merged_run
    from pytest_pinet.report.run_folder import RunFolder

    shards: list[Shard] = []
    sources: list[Path] = []
    for number, what in enumerate(runs, 1):
        shard, source = named_run(what, example="")
        shards.append(Shard(shard, what, f"shard-{number}"))
        sources.append(source)
    run = merged_run(shards, error_rate / 100)
    folder = RunFolder.create(Path.cwd(), datetime.now(UTC))
    for one, source in zip(shards, sources, strict=True):
        # A shard that brought only its results.json has no raw files.
        for name in dict.fromkeys(name for result in one.run.results for name in result.files):
            _copy(source, name, folder.path / one.folder)
        _copy_configs(one.run, source, folder.path)
    folder.write_results(run)
    if trouble := _keep(history_url, run, shards, folder.path):
        say(f"pinet: {trouble}")
    print_lines(_lines(run, str(folder.path.relative_to(Path.cwd()))))
    sys.exit(exit_code(run))


def _copy_configs(run: RunRecord, source: Path, folder: Path) -> None:
    """Copy the kernel configurations of both builds, which are the same in each shard."""
    builds = (run.change.a, run.change.b) if run.change is not None else ()
    for name in (build.known_source.config for build in builds):
        if name and not exists(folder / name):
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


def _lines(run: RunRecord, folder: str | None = None) -> list[str]:
    """Return a run as text: the answer of a gate, or else the table of its results."""
    from pytest_pinet.report.change_table import change_lines, emulated_words
    from pytest_pinet.report.markdown import verdict_in_words
    from pytest_pinet.report.terminal import summary_table
    from pytest_pinet.report.text_wrap import wrap

    if run.change is None:
        return [verdict_in_words(run), "", *summary_table(run.results, run.skipped, run_folder=folder)]
    lines = change_lines(run.change, run.skipped, run_folder=folder, results=run.results)
    return lines + wrap(emulated_words(run), hanging="  ")


# Formats whose lines are commands of a CI system. These exporters escape the texts in them.
COMMANDS = ("github",)


@click.command(cls=PinetCommand)
@HISTORY_OPTION
@click.argument("what", metavar="[RUN]", default=".pinet/latest")
@click.option(
    "--format", "form", metavar="NAME", required=True,
    help="github, gitlab-annotations, kcidb, ktap, lava, nipa, openmetrics, prometheus, "
    "or a format of an installed package.",
)  # fmt: skip
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True,
    help="A setting of the format, such as git_commit=SHA for kcidb. Repeat the option for more settings.",
)  # fmt: skip
@OUTPUT_OPTION
def export(history_url: str, what: str, form: str, settings: tuple[str, ...], output: str | None) -> None:
    """Write the results of one run in the format of another program.

    Values: openmetrics, and prometheus for Pushgateway and node_exporter.

    Verdicts: ktap for readers of kernel selftests, kcidb for KernelCI, nipa for the CI of netdev, lava for LAVA test
    shells, github and gitlab-annotations for annotations of a job. These formats need a results.json or a run folder.

    RUN is a results.json, a run folder, or a run of the history ('latest', an id); the default is the last run in this
    folder. To write the whole history, use: pinet history export.
    """
    from pytest_pinet.cli.run_selection import side_of
    from pytest_pinet.execution.entry_points import EXPORTERS, RUN_EXPORTERS
    from pytest_pinet.execution.names import unknown

    given = dict(map(_setting, settings))
    if form in RUN_EXPORTERS.names:
        write = load_exporter(RUN_EXPORTERS, form, "a run and settings")
        text = write((_whole_run(what, form), given))
    elif form in EXPORTERS.names:
        write = load_exporter(EXPORTERS, form, "the values of a run")
        if given:
            raise ConfigError(f"--set: the format {form} has no settings; remove {', '.join(given)}")
        found = side_of(what, history_url)
        if not any(point.is_measured for point in found.points):
            why = "an upload of nothing would delete earlier values"
            raise ConfigError(f"run {found.name} measured nothing, so it has no values to export: {why}")
        text = write((found.points,))
    else:
        raise ConfigError(unknown(EXPORTERS.kind, form, EXPORTERS.names | RUN_EXPORTERS.names))
    write_output([text], output, clean=cleaned if form in COMMANDS else for_log)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set: {text!r} is not a setting; expected NAME=VALUE, such as git_commit=SHA")
    return name.strip(), value


def _whole_run(what: str, form: str) -> RunRecord:
    from pytest_pinet.cli.run_selection import read_results, results_file

    path = results_file(what)
    if path is None:
        message = f"{form} needs a whole run, which the history does not keep"
        raise ConfigError(f"there is no file {what!r}; {message}: name a results.json or a run folder")
    return read_results(path)


def load_exporter(group: Extension, form: str, takes: str) -> Callable[[Sequence[object]], str]:
    """Return the function that an entry point names, for a list of its arguments. Both calls raise ConfigError."""
    found, what = group.load(form)
    if not callable(found):
        raise ConfigError(f"{what} is not callable; expected a function that takes {takes}, returns text")

    def write(given: Sequence[object]) -> str:
        try:
            text = found(*given)
        except PinetError:
            raise
        except Exception as error:
            raise ConfigError(f"{what} failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise ConfigError(f"{what} returned {type(text).__name__}; expected text")
        return text

    return write
