"""``pinet compare published``: compares every published value with the value of a run."""

from __future__ import annotations

import sys

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import print_lines, write_output
from pytest_pinet.errors import ConfigError

LATEST = ".pinet/latest"


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
    from pytest_pinet.cli.run_selection import read_results, results_file
    from pytest_pinet.published.table import EMULATED, page, rows, summary, table
    from pytest_pinet.report.sentences import scale_text

    read = []
    for run in runs or (LATEST,):
        path = results_file(run)
        if path is None:
            raise ConfigError(f"there is no {run!r}; expected a results.json or a run folder such as {LATEST}")
        read.append(read_results(path))
    read.sort(key=lambda run: run.started)
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
