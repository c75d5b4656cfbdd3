"""``pinet export``: the figures of a run in formats of others."""

from __future__ import annotations

import click

from pytest_pinet.cli.history_file import HISTORY_OPTION, write_text

FORMATS = ("openmetrics", "benchmark-action")


@click.command()
@HISTORY_OPTION
@click.argument("what", metavar="[RUN]", default=".pinet/latest")
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of the terminal.")
def export(history_url: str, what: str, form: str, output: str | None) -> None:
    """Write a run's figures as OpenMetrics text, or as JSON of github-action-benchmark (tool: customBiggerIsBetter).

    RUN is a results.json, a run folder, or a run of the history ('latest', an id); by default the last run here. The
    whole history goes as JSON lines: pinet history export.
    """
    from pytest_pinet.cli.which import side_of
    from pytest_pinet.report.benchmark_action import benchmark_action
    from pytest_pinet.report.openmetrics import openmetrics

    points = side_of(what, history_url).points
    write_text(openmetrics(points) if form == "openmetrics" else benchmark_action(points), output)
