"""``pinet check``: reads a lab file without using the lab."""

from __future__ import annotations

from itertools import chain

import click
from click.core import ParameterSource

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import LAB_OPTION
from pytest_pinet.cli.paint import echo


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.argument("file", required=False, shell_complete=lab_names.lab_files)
@click.pass_context
def check(ctx: click.Context, file: str | None, lab_file: str) -> None:
    """Check a lab file without using the lab, and list its interfaces.

    Also imports the modules of the key `imports`, as labgrid does, to know their drivers.

    FILE is the same as --lab FILE. A variable that is not set is a note, because this command uses no value of a
    template.

    Exit code: 0 if there is no error; 4 if the file, the lab's baselines or its acknowledged losses have one.
    """
    from pytest_pinet.config.lab_path import is_name, lab_path
    from pytest_pinet.config.labfile import load
    from pytest_pinet.config.reviewed import load_reviewed
    from pytest_pinet.judge.hardware import ADDRESS, exchangeable
    from pytest_pinet.lab.labgrid.targets import check_file
    from pytest_pinet.report.diagrams import management_lines
    from pytest_pinet.report.text_wrap import WIDTH, count, text_table, wrap

    if file is not None and ctx.get_parameter_source("lab_file") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"two lab files: {file} and --lab {lab_file}; expected one of them", ctx)
    file = lab_file if file is None else file
    lab = load(file, in_use=False)
    check_file(lab)
    echo(f"{file}: ok, lab {lab.name}: {len(lab.nodes)} nodes, {len(lab.interfaces())} interfaces")
    if is_name(file):
        echo(f"  packaged in {lab_path(file)}")
    reviewed = load_reviewed(lab)
    if reviewed.baselines or reviewed.acknowledged:
        known = count(len(reviewed.acknowledged), "acknowledged loss", "acknowledged losses")
        echo(f"  {count(len(reviewed.baselines), 'baseline')} and {known} in {lab.baselines}")
    for name, where in lab.unset.items():
        note = f"note: line {where.line}: the variable {name} is not set; commands that use a board need its value"
        echo("\n".join(wrap(note, width=WIDTH, indent="  ")))
    if lab.launcher is None:
        for text in chain.from_iterable(map(exchangeable, lab.nodes.values())):
            echo("\n".join(wrap(f"note: {text}: {ADDRESS}", width=WIDTH, indent="  ")))
    rows = [("interface", "NIC", "chip", "Mbit/s", "bus", "switch port")]
    for interface in lab.interfaces():
        nic = f"{lab.nodes[interface.node].board.name}:{interface.label}"
        speed, chip = str(interface.speed_mbps), interface.nic.chip[:18]
        rows.append((str(interface), nic, chip, speed, str(interface.bus), str(interface.port)))
    for line in text_table(rows, "<  <  <  >  <  <"):
        echo(f"  {line}")
    for line in management_lines(lab.nodes.values()):
        echo("\n".join(wrap(line, width=WIDTH, indent="  ")))
