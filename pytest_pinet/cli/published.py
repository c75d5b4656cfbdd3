"""``pinet published``: compares every published value with the value of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from pytest_pinet.errors import ConfigError

LATEST = ".pinet/latest"
_RESULTS = "results.json"


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="Write the table as a page of Markdown too.")
@click.option("--complete", is_flag=True, help="Fail too where a figure was not measured, or not judged.")
def published(runs: tuple[str, ...], output: str | None, complete: bool) -> None:
    """Compare the figures of a run with those that were published, whatever was measured when.

    RUN is a run folder or its results.json, by default .pinet/latest; of several runs of one lab the latest counts.
    Exit status 1 where a figure is off that its own source does not doubt.
    """
    from pytest_pinet.catalogue.published import published as figures
    from pytest_pinet.published.table import EMULATED, page, rows, summary, table
    from pytest_pinet.report.scale import scale_text

    read = sorted((_read(Path(run)) for run in runs or (LATEST,)), key=lambda run: str(run["started"]))
    kinds, labs = {run["figures"] for run in read}, {str(run["lab"]) for run in read}
    if len(kinds) > 1 or len(labs) > 1:
        which = " and ".join(sorted(kinds if len(kinds) > 1 else labs))
        raise ConfigError(f"these are runs of several labs ({which}); expected runs of one lab")
    emulated = kinds == {EMULATED}
    found = rows(figures().values(), [result for run in read for result in run["results"]], emulated)
    scaled = scale_text(result for run in read for result in run["results"])
    for line in [*table(found, emulated), "", summary(found), *filter(None, [scaled])]:
        click.echo(line)
    if output is not None:
        _write(Path(output), page(found, read))
    if any(row.surprising or (complete and row.missing) for row in found):
        sys.exit(1)


def _read(path: Path) -> dict[str, Any]:
    file = path / _RESULTS if path.is_dir() else path
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as the results of a run: {error}; expected a run folder") from None
    if not isinstance(run, dict) or not {"results", "figures", "started", "lab"} <= run.keys():
        raise ConfigError(f"{file} is not the results.json of a run; expected a run folder such as {LATEST}")
    return run


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output {path}: {error.strerror}") from None
