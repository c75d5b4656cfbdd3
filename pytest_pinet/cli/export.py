"""``pinet export``: writes a run's values in formats of other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import HISTORY_OPTION, OUTPUT_OPTION, write_output
from pytest_pinet.errors import ConfigError, PinetError

if TYPE_CHECKING:
    from pytest_pinet.history.points import Point


@click.command(cls=PinetCommand)
@HISTORY_OPTION
@click.argument("what", metavar="[RUN]", default=".pinet/latest")
@click.option(
    "--format", "form", metavar="NAME", required=True,
    help="openmetrics, benchmark-action, or a format of an installed package.",
)  # fmt: skip
@OUTPUT_OPTION
def export(history_url: str, what: str, form: str, output: str | None) -> None:
    """Write the values of one run in the format of another program.

    The format openmetrics is text for Prometheus. The format benchmark-action is JSON for github-action-benchmark
    (tool: customBiggerIsBetter). RUN is a results.json, a run folder, or a run of the history ('latest', an id); the
    default is the last run in this folder. To write the whole history, use: pinet history export.
    """
    from pytest_pinet.cli.run_selection import side_of

    write = exporter(form)
    write_output([write(side_of(what, history_url).points)], output)


def exporter(name: str) -> Callable[[Sequence[Point]], str]:
    """Return the exporter of this name, a function from the points of a run to text.

    The entry point names the function itself. Loading and calling it raise ConfigError.
    """
    from pytest_pinet.execution.entry_points import EXPORTERS

    found, what = EXPORTERS.load(name)
    if not callable(found):
        raise ConfigError(f"{what} is not callable; expected a function that takes the values of a run, returns text")

    def write(points: Sequence[Point]) -> str:
        try:
            text = found(points)
        except PinetError:
            raise
        except Exception as error:
            raise ConfigError(f"{what} failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise ConfigError(f"{what} returned {type(text).__name__}; expected text")
        return text

    return write
