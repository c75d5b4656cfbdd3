"""``pinet lab``: starts, stops, shows and breaks the virtual lab."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from pytest_pinet.cli.lab_file import LAB_OPTION as _LAB_OPTION
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.quantities import Share
from pytest_pinet.model.scale import Scale

WIDTH = 80
MOST_STALE_S = 3600.0


@click.group()
def lab() -> None:
    """Start, stop, look at and break the virtual lab."""


@lab.command()
@_LAB_OPTION
def up(lab_file: str) -> None:
    """Start the lab, or find it, and print its environment."""
    from pytest_pinet.virtual.launcher import launcher
    from pytest_pinet.virtual.status import status as read_status

    for line in _exports(launcher().up(_load(lab_file))):
        click.echo(line)
    found = read_status(lab_file) or {}
    if found.get("scale_because") or found.get("scale", 1.0) != 1:
        # The other output is for a shell.
        click.echo(f"lab {found['lab']}: {_scale(found)}", err=True)


@lab.command()
@_LAB_OPTION
def down(lab_file: str) -> None:
    """Stop the lab and remove everything of it, also after a crash."""
    from pytest_pinet.virtual.launcher import stop

    runs = stop(lab_file)
    if runs:
        click.echo(f"stopped the lab while {runs} {'run was' if runs == 1 else 'runs were'} using it")


@lab.command()
@_LAB_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def status(lab_file: str, as_json: bool) -> None:
    """Show power, ports, links and faults of every node."""
    from pytest_pinet.virtual.status import status as read_status

    found = read_status(lab_file)
    if found is None:
        click.echo(json.dumps({"up": False}) if as_json else f"the lab of {lab_file} is down")
        sys.exit(1)
    if as_json:
        click.echo(json.dumps({"up": True, **found}, indent=1))
        return
    for line in _table(found):
        click.echo(line[:WIDTH])
    click.echo("")
    for line in _exports(found["environment"]):
        click.echo(line)


@lab.command(context_settings={"max_content_width": 100})
@click.argument("target", metavar="TARGET")
@_LAB_OPTION
@click.option("--rate", type=float, metavar="FACTOR", help="NODE[:IF]: goodput as a factor, such as 0.9.")
@click.option("--loss", metavar="SHARE", help="NODE[:IF]: drop this share of the packets, such as 1%.")
@click.option(
    "--direction", type=click.Choice(["tx", "rx"]), help="With these two: only what the node sends, or receives."
)
@click.option("--down", is_flag=True, help="NODE[:IF]: pull the cable.")
@click.option("--swap-with", metavar="NODE:IF", help="NODE:IF: exchange the switch ports of two cables.")
@click.option("--freeze", is_flag=True, help="NODE: silent on every line until it is restored.")
@click.option("--panic", type=click.Choice(["now", "boot"]), help="NODE: kernel panic, now or at each boot.")
@click.option("--hang-console", is_flag=True, help="NODE: its console is dead, its network is not.")
@click.option("--console-line", metavar="TEXT", help="NODE: its kernel prints this, once.")
@click.option(
    "--throttle",
    type=click.Choice(["under-voltage", "capped", "throttled", "hot"]),
    help="NODE: its firmware tells that this is so.",
)
@click.option("--drop-ssh", is_flag=True, help="NODE: cut its ssh connections, once.")
@click.option("--dead", is_flag=True, help="pdu, SWITCH: does not answer.")
@click.option("--lie", is_flag=True, help="pdu[/NODE], SWITCH[/PORT]: says that it did, and does nothing.")
@click.option("--stale-counters", type=float, metavar="SECONDS", help="SWITCH: shows counters as old as this.")
def degrade(target: str, lab_file: str, **faults: Any) -> None:
    """Break a part of the lab; it stays so through power cycles until it is restored.

    TARGET is NODE, NODE:INTERFACE, SWITCH, SWITCH/PORT, pdu, or pdu/NODE for one outlet.
    """
    faults["loss"] = None if faults["loss"] is None else _share(faults["loss"])
    _check_faults(target, faults)
    click.echo(f"degraded: {', '.join(_ask(lab_file, 'degrade', target=target, **faults))}")


def _check_faults(target: str, faults: Mapping[str, Any]) -> None:
    """Check what needs no lab. The lab itself checks which fault fits which target."""
    given = {name for name, value in faults.items() if value not in (None, False)}
    direction, rate, stale = (faults[name] for name in ("direction", "rate", "stale_counters"))
    if not given:
        raise ConfigError("say what is to be wrong, such as --rate, --loss, --down or --freeze; --help has them all")
    if direction is not None and rate is None and faults["loss"] is None:
        raise ConfigError(f"--direction {direction} goes with --rate or --loss; a cable or a node is whole or broken")
    if rate is not None and not 0.001 <= rate <= 1:
        raise ConfigError(f"--rate {rate:g}: expected a factor from 0.001 to 1, such as 0.9")
    if stale is not None and not 0 < stale <= MOST_STALE_S:
        raise ConfigError(f"--stale-counters {stale:g}: expected seconds, from above 0 to {MOST_STALE_S:g}")
    if faults["freeze"] and ":" in target:
        raise ConfigError(f"--freeze takes a whole node, such as {target.partition(':')[0]!r}, not an interface")


@lab.command()
@click.argument("target", metavar="[TARGET]", required=False)
@_LAB_OPTION
@click.option("--without-leases", is_flag=True, help="Put ports back without asking whether somebody uses them.")
def restore(target: str | None, lab_file: str, without_leases: bool) -> None:
    """Undo all faults of a TARGET (as `degrade` takes it) or, without one, of the whole lab.

    Without a TARGET also put back, in any lab, the switch ports that a crashed run left changed, but for those whose
    nodes somebody holds.
    """
    from pytest_pinet.config.labfile import load
    from pytest_pinet.lab.restoration import restore_ports

    if target is not None and without_leases:
        raise ConfigError(f"--without-leases is about switch ports, which are put back without a TARGET, not {target}")
    told = []
    if target is not None or load(lab_file).launcher is not None:
        healed = _ask(lab_file, "restore", target=target)
        told += [f"restored: {', '.join(healed)}"] if healed else []
    if target is None:
        told += restore_ports(lab_file, lambda text: click.echo(text, err=True), without_leases)
    for line in told or ["nothing was degraded" if target is not None else "nothing to restore"]:
        click.echo(line)


@lab.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_LAB_OPTION
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(lab_file: str, node: str, command: tuple[str, ...]) -> None:
    """Run a command in a node: `pinet lab exec pi4b-1 -- ip addr`."""
    from pytest_pinet.virtual.status import ssh_command

    argv = ssh_command(lab_file, node, command[1:] if command[0] == "--" else command)
    os.execvp(argv[0], argv)


def _load(lab_file: str) -> Lab:
    from pytest_pinet.config.labfile import load

    found = load(lab_file)
    if found.launcher != "virtual":
        raise ConfigError(f"{lab_file} has no `launcher: virtual`, so there is no virtual lab to start or to stop")
    return found


def _ask(lab_file: str, op: str, **arguments: Any) -> list[str]:
    from pytest_pinet.virtual.control import ask
    from pytest_pinet.virtual.launcher import running_state
    from pytest_pinet.virtual.runtime import Runtime

    runtime = Runtime.of(lab_file)
    if running_state(runtime) is None:
        raise LabError(f"the lab of {lab_file} is down", f"pinet lab up --lab {lab_file}")
    return list(ask(runtime.control, op, **arguments))


def _share(text: str) -> float:
    try:
        return Share.parse(text).fraction
    except ValueError as error:
        raise ConfigError(f"--loss: {error}") from None


def _exports(environment: Any) -> list[str]:
    return [f"export {name}={value}" for name, value in environment.items()]


def _scale(found: Mapping[str, Any]) -> Scale:
    return Scale(found.get("scale", 1.0), found.get("scale_because", ""))


def _table(found: dict[str, Any]) -> list[str]:
    from pytest_pinet.report.table import text_table
    from pytest_pinet.report.text_wrap import wrap

    lines: list[str] = []
    rows = [("node", "power", "console", "ssh", "interface", "port", "tx/rx Mbit/s", "faults")]
    for node in found["nodes"]:
        power = "frozen" if node["frozen"] else node["power"]
        head = (node["name"], power, str(node["console"]), str(node["ssh"]))
        for interface in node["interfaces"]:
            rates = "/".join(f"{interface[f'{way}_goodput_bps'] / 1e6:.0f}" for way in ("tx", "rx"))
            rates = interface["model"] if interface["model"] == "unshaped" else rates
            port = f"{interface['switch']}/{interface['port']}"
            rows.append((*head, interface["name"], port, rates, ", ".join(interface["faults"])))
            head = ("", "", "", "")
        if not node["interfaces"]:
            rows.append((*head, "", "", "", ""))
    broken = [(node["name"], node["faults"]) for node in found["nodes"]]
    broken += [(switch["name"], switch["faults"]) for switch in found["switches"]]
    broken += [("pdu", found["pdu"]["faults"])] if "pdu" in found else []
    for line, faults in zip(text_table(rows, "<  <  <  <  <  <  <  <"), (row[7] for row in rows), strict=True):
        lines += [line] if len(line) <= WIDTH else [line.removesuffix(faults).rstrip(), f"  ! {faults}"]
    lines += [] if found.get("scale", 1.0) == 1 else wrap(str(_scale(found)), hanging="  ", width=WIDTH)
    lines += [f"! {name}: {', '.join(faults)}" for name, faults in broken if faults]
    lines += [
        f"! the {name} has died: pinet lab down, then up again"
        for name, alive in found["processes"].items()
        if not alive
    ]
    return lines
