"""``pinet check``: reads a lab file without using the lab."""

from __future__ import annotations

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand


@click.command(cls=PinetCommand)
@click.argument("file", default=lab_names.lab_of_user, shell_complete=lab_names.lab_files)
def check(file: str) -> None:
    """Check the lab file FILE without using the lab, and list its interfaces.

    FILE is a path or the name of a packaged lab. Without FILE, the lab of $PINET_LAB or of pinet_lab in pytest's
    configuration, else 'virtual'. The exit code is 4 if the file has an error.
    """
    from pytest_pinet.config.lab_path import is_name, lab_path
    from pytest_pinet.config.labfile import load
    from pytest_pinet.report.diagrams.facts import management_lines
    from pytest_pinet.report.text_wrap import WIDTH, wrap

    lab = load(file)
    click.echo(f"{file}: ok, lab {lab.name}: {len(lab.nodes)} nodes, {len(lab.interfaces())} interfaces")
    if is_name(file):
        click.echo(f"  packaged in {lab_path(file)}")
    for interface in lab.interfaces():
        board = lab.nodes[interface.node].board.name
        click.echo(
            f"  {interface!s:20} {board + ':' + interface.label:16} {interface.nic.chip[:18]:18} "
            f"{interface.speed_mbps:>6} Mbit/s {interface.bus!s:8} {interface.port}"
        )
    for line in management_lines(lab.nodes.values()):
        click.echo("\n".join(wrap(line, width=WIDTH, indent="  ")))
