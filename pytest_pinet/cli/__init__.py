"""The ``pinet`` command. Each subcommand is a file that is imported when it is used."""

from __future__ import annotations

import importlib
import sys

import click

from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.version import __version__

# Subcommand -> module:attribute, and its text in ``pinet --help``, which needs no import.
COMMANDS: dict[str, tuple[str, str]] = {
    "lab": ("pytest_pinet.cli.lab:lab", "Start, stop, watch and disturb a lab that has a launcher."),
    "emulated": ("pytest_pinet.cli.emulated:emulated", "Make the card of emulated boards; fetch kernels for them."),
    "check": ("pytest_pinet.cli.check:check", "Read a lab file and say what is wrong with it."),
    "matrix": ("pytest_pinet.cli.matrix:matrix", "Show what a lab can measure, with which nodes, and what it cannot."),
    "graph": ("pytest_pinet.cli.graph:graph", "Draw a lab, or what one combination uses of it, as text, DOT and SVG."),
    "doctor": ("pytest_pinet.cli.doctor:doctor", "Look at a whole lab; say what is wrong and who mends it."),
    "discover": ("pytest_pinet.cli.discover:discover", "Find which NIC is on which switch port; correct the lab file."),
    "calibrate": ("pytest_pinet.cli.calibrate:calibrate", "Measure how much figures vary, and which tolerance fits."),
    "selftest": (
        "pytest_pinet.cli.selftest:selftest",
        "Slow a link by known amounts; count how often the gate is right.",
    ),
    "published": (
        "pytest_pinet.cli.published:published",
        "Show published figures beside those of a run, and how far apart they are.",
    ),
    "report": ("pytest_pinet.cli.report:report", "Write a report with the trend of every combination."),
    "history": ("pytest_pinet.cli.history:history", "Show trends and where they moved; export and import all runs."),
    "accept": ("pytest_pinet.cli.accept:accept", "Make measured figures the baselines of later runs."),
    "gate": ("pytest_pinet.cli.gate:gate", "Boot a build and the known-good one in turn; say whether it may go in."),
    "compare": ("pytest_pinet.cli.compare:compare", "Compare two runs, builds or files."),
    "summary": ("pytest_pinet.cli.summary:summary", "Sum up a run as text, or as Markdown for a CI page."),
    "export": ("pytest_pinet.cli.export:export", "Write a run for Prometheus or github-action-benchmark."),
    "schema": ("pytest_pinet.cli.schema:schema", "Print the JSON Schema of lab files or of results."),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="pinet")
def pinet() -> None:
    """Measure and gate network throughput of boards in a labgrid lab."""


def main() -> None:
    """Run the command. Errors are one sentence, never a traceback; exit code 4 for the user's mistakes, else 2."""
    try:
        pinet()
    except PinetError as error:
        click.echo(f"pinet: {error}", err=True)
        sys.exit(4 if isinstance(error, ConfigError) else 2)
