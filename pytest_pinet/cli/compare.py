"""``pinet compare``: compares runs, builds or files with each other, or a run with published values."""

from __future__ import annotations

import sys

import click

from pytest_pinet.cli.command import DefaultGroup
from pytest_pinet.cli.options import HISTORY_OPTION, FiniteRange, print_result
from pytest_pinet.cli.published import published
from pytest_pinet.errors import ConfigError


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
