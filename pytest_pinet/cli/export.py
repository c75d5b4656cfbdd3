"""``pinet export``: writes a run's values in formats of other programs."""

from __future__ import annotations

import click

from pytest_pinet.cli.history_file import HISTORY_OPTION, write_text


@click.command()
@HISTORY_OPTION
@click.argument("what", metavar="[RUN]", default=".pinet/latest")
@click.option(
    "--format", "form", metavar="NAME", required=True, help="openmetrics, benchmark-action, or what a package adds."
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of the terminal.")
def export(history_url: str, what: str, form: str, output: str | None) -> None:
    """Write a run's figures as OpenMetrics text, or as JSON of github-action-benchmark (tool: customBiggerIsBetter).

    RUN is a results.json, a run folder, or a run of the history ('latest', an id); by default the last run here. The
    whole history goes as JSON lines: pinet history export.
    """
    from pytest_pinet.cli.run_selection import side_of
    from pytest_pinet.report.exporters import exporter

    write = exporter(form)
    write_text(write(side_of(what, history_url).points), output)
