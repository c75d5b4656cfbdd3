"""``pinet export``: writes a run's values in formats of other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import HISTORY_OPTION, OUTPUT_OPTION, write_output
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.clean_text import cleaned, for_log

if TYPE_CHECKING:
    from pytest_pinet.execution.entry_points import Extension
    from pytest_pinet.model.record.result import RunRecord

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
