"""``pinet graph``: draws a lab, or the part of it that a combination uses, without using the lab."""

from __future__ import annotations

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import LAB_OPTION, print_lines
from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.model.traffic import Direction


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("combination", metavar="[COMBINATION-ID]", required=False, shell_complete=lab_names.combinations)
@click.option(
    "--direction", type=click.Choice([str(way) for way in Direction]),
    help="Direction of the traffic. By default the first direction of the topology.",
)  # fmt: skip
def graph(lab_file: str, combination: str | None, direction: str | None) -> None:
    """Draw a lab, or the part of it that a combination such as pi4b:onboard/incast:5 uses."""
    from pytest_pinet.config.labfile import load
    from pytest_pinet.lab.contention import all_domains, domains_of
    from pytest_pinet.matrix import inventory
    from pytest_pinet.report.diagrams import combination_text, lab_text

    lab = load(lab_file, in_use=False)
    if combination is None:
        if direction is not None:
            raise ConfigError(
                f"--direction {direction} needs a combination, as in: pi4b:onboard/pair --direction {direction}"
            )
        print_lines(lab_text(lab, all_domains(lab)))
    else:
        chosen = inventory.combination(lab, combination)
        way = Direction(direction) if direction is not None else chosen.topology.directions[0]
        with mistake_in("--direction"):
            chosen.topology.runs(way)
        print_lines(combination_text(lab, chosen, way, domains_of(lab, chosen)))
