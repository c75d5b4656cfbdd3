"""The ``pinet`` command. Each subcommand is a file that is imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from pytest_pinet.cli.command import HELP_NAMES, PINET, PinetGroup, colour, usage_error_lines
from pytest_pinet.cli.exit_codes import INTERRUPTED, error_codes
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.version import __version__

# The texts in ``pinet --help``, which needs no import, by heading. Subcommand ``lab`` is ``lab`` in cli/lab.py.
SECTIONS: dict[str, dict[str, str]] = {
    "Judge a change": {
        "gate": "Measure a build and a known-good build alternately; decide whether to merge it.",
        "compare": "Compare two runs, builds or files.",
        "published": "Compare the results of a run with published values.",
    },
    "Look at results": {
        "summary": "Summarize a run as text, or as Markdown for a CI page.",
        "report": "Write a report with the trend of every combination.",
        "history": "Show trends and level changes; export and import all runs.",
        "accept": "Make measured values the baselines of later runs.",
        "export": "Write a run for Prometheus or github-action-benchmark.",
    },
    "Set up and check a lab": {
        "init": "Look at boards over ssh; write a lab file for them.",
        "check": "Check a lab file without using the lab.",
        "doctor": "Check a whole lab; report faults and who must fix them.",
        "discover": "Find the switch port of each NIC; correct the lab file.",
        "matrix": "List what a lab can measure, with which nodes, and why not the rest.",
        "graph": "Draw a lab, or the part that one combination uses, as text, DOT or SVG.",
        "calibrate": "Measure how much results vary; write the tolerances that follow.",
        "selftest": "Slow a link by known amounts; count how often the gate is right.",
        "config": "Show each setting of a run, and where its value was written.",
        "completion": "Print the script for completion in bash, zsh or fish.",
        "schema": "Print the JSON Schema of lab files or of results.",
    },
    "Measure without hardware": {
        "demo": "Show a gate: pass, fail, pass. Undo it with --remove.",
        "lab": "Start, stop and show a virtual lab, and inject faults.",
        "emulated": "Create the SD card image of emulated boards; fetch kernels.",
    },
}
COMMANDS: dict[str, str] = {name: text for commands in SECTIONS.values() for name, text in commands.items()}


class LazyGroup(PinetGroup):
    """A group that imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"pytest_pinet.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": HELP_NAMES})
@click.version_option(__version__, prog_name="pinet")
def pinet() -> None:
    """Measure and gate network throughput of boards in a labgrid lab.

    Exit code of every command: 4 for wrong arguments, options and lab files; 2 for a problem of the lab; 130 if it was
    interrupted. The help of a command lists its other codes.
    """


# A shell that completes a command line sets this variable.
COMPLETE = "_PINET_COMPLETE"


def main() -> None:
    """Run the command. An error is printed as a message."""
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> int:
    """Run the command line and return its exit code."""
    codes = error_codes(words)
    if COMPLETE in os.environ:
        from pytest_pinet.cli.completion import register

        register()
    try:
        done = pinet.main(words, prog_name="pinet", standalone_mode=False, color=colour())
    except click.ClickException as error:
        _print(usage_error_lines(error))
        return codes.mistake
    except click.Abort as error:
        _print(["pinet: stopped"])
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else codes.declined
    except PinetError as error:
        _print([f"{PINET} {error}"])
        return codes.mistake if isinstance(error, ConfigError) else codes.other
    except Exception:
        if codes.crash is None:
            raise
        traceback.print_exc()
        return codes.crash
    # The exit code of ``Context.exit``. Commands return nothing.
    return done if isinstance(done, int) else 0


def _print(lines: list[str]) -> None:
    for line in lines:
        click.echo(line, err=True, color=colour())
