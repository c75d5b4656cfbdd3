"""``pinet compare A B``: compares runs, builds or files."""

from __future__ import annotations

import json
import sys

import click

from pytest_pinet.cli.history_file import HISTORY_OPTION


@click.command()
@HISTORY_OPTION
@click.argument("a")
@click.argument("b")
@click.option(
    "--tolerance", type=click.FloatRange(min=0, max=99), default=3.0, show_default=True, metavar="PERCENT",
    help="B may be slower than A by so much.",
)  # fmt: skip
@click.option("-k", "only", metavar="TEXT", default="", help="Only figures in whose id this stands.")
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the table.")
def compare(history_url: str, a: str, b: str, tolerance: float, only: str, as_json: bool) -> None:
    """Compare B with A: each a results.json, a run folder, a run ('latest', 'latest~1', an id), or a build ('6.12.25').

    Of a build all runs of the history count; with five of A or more a difference is judged with its interval. Exit
    code 0: nothing is slower; 1: something is; 3: something could not be judged; 4: a mistake of yours.
    """
    from pytest_pinet.cli.run_selection import side_of
    from pytest_pinet.history.compare import RunSet, compared, exit_code
    from pytest_pinet.report.comparison_table import comparison_records, comparison_table

    side_a, side_b = (
        RunSet(side.name, tuple(point for point in side.points if only in point.figure))
        for side in (side_of(a, history_url), side_of(b, history_url))
    )
    found = compared(side_a, side_b, tolerance / 100)
    if as_json:
        click.echo(json.dumps(comparison_records(found), indent=1))
    else:
        for line in comparison_table(side_a, side_b, found):
            click.echo(line)
    sys.exit(exit_code(found))
