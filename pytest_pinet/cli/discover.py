"""``pinet discover``: finds which NIC is on which switch port."""

from __future__ import annotations

import difflib
import sys

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import LAB_OPTION, print_lines
from pytest_pinet.cli.paint import echo, painted_change
from pytest_pinet.errors import ConfigError

WRONG = 1


@click.command(cls=PinetCommand)
@LAB_OPTION
@click.option("--write", is_flag=True, help="Correct the `port:` values in the lab file, and show the changes.")
def discover(lab_file: str, write: bool) -> None:
    """Find the switch port of each NIC, by LLDP or by MAC address, and compare it with the lab file.

    Also prints each NIC with its MAC address, driver and place on the bus, as lines to paste into the lab file.

    Exit code: 0 if no port differs from the lab file, or if the file was corrected; 1 if a port differs.
    """
    from pytest_pinet.config import port_edit
    from pytest_pinet.config.lab_path import is_name, lab_path
    from pytest_pinet.config.labfile import load
    from pytest_pinet.doctor import discover as core

    if write and is_name(lab_file):
        raise ConfigError(f"--write cannot change the packaged lab {lab_file!r}: copy {lab_path(lab_file)} first")
    warnings: list[str] = []
    found = core.discover(load(lab_file), lambda text: echo(text, err=True), warnings.extend)
    places = found.places
    for warning in warnings:
        echo(warning, err=True)
    print_lines([*core.table(places), "", *core.wrong_cables(places)])
    if lines := core.lab_file_lines(found):
        print_lines([f"For {lab_file}, to find each NIC by its address whatever its name:", *lines, ""])
    unknown = sum(place.answer is core.SearchOutcome.UNKNOWN for place in places)
    if unknown:
        echo(f"{unknown} of {len(places)} NICs were not found")
    wrong = [place for place in places if place.answer is core.SearchOutcome.WRONG]
    if not wrong:
        echo(f"{lab_file} is right{' for the other NICs' if unknown else ''}")
        return
    corrections = core.corrections(places)
    if not write or not corrections:
        echo("  -> move the cables" + (f", or: pinet discover --lab {lab_file} --write" if corrections else ""))
        sys.exit(WRONG)
    before = port_edit.read(lab_file)
    after = port_edit.with_ports(before, lab_file, corrections)
    port_edit.replace(lab_file, after)
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), lab_file, lab_file, n=0, lineterm="")
    print_lines(changed, painted_change)
    if len(corrections) < len(wrong):
        sys.exit(WRONG)
