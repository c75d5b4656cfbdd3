"""The ``pinet`` command. Each subcommand is a file that is imported when it is used."""

from __future__ import annotations

import importlib
import sys

import click

from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.version import __version__

# The texts in ``pinet --help``, which needs no import. Subcommand ``lab`` is ``lab`` in pytest_pinet.cli.lab.
COMMANDS: dict[str, str] = {
    "lab": "Start, stop and show a virtual lab, and inject faults.",
    "emulated": "Create the SD card image of emulated boards; fetch kernels.",
    "check": "Check a lab file without using the lab.",
    "matrix": "List what a lab can measure, with which nodes, and why not the rest.",
    "graph": "Draw a lab, or the part that one combination uses, as text, DOT or SVG.",
    "doctor": "Check a whole lab; report faults and who must fix them.",
    "discover": "Find the switch port of each NIC; correct the lab file.",
    "calibrate": "Measure how much results vary; write the tolerances that follow.",
    "selftest": "Slow a link by known amounts; count how often the gate is right.",
    "published": "Compare the results of a run with published values.",
    "report": "Write a report with the trend of every combination.",
    "history": "Show trends and level changes; export and import all runs.",
    "accept": "Make measured values the baselines of later runs.",
    "gate": "Measure a build and a known-good build alternately; decide whether to merge it.",
    "compare": "Compare two runs, builds or files.",
    "summary": "Summarize a run as text, or as Markdown for a CI page.",
    "export": "Write a run for Prometheus or github-action-benchmark.",
    "schema": "Print the JSON Schema of lab files or of results.",
}


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"pytest_pinet.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="pinet")
def pinet() -> None:
    """Measure and gate network throughput of boards in a labgrid lab."""


def main() -> None:
    """Run the command. An error is printed as a message; exit code 4 for a user's mistake, 2 for any other error."""
    try:
        pinet()
    except PinetError as error:
        click.echo(f"pinet: {error}", err=True)
        sys.exit(4 if isinstance(error, ConfigError) else 2)
