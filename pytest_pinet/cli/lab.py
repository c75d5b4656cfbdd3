"""``pinet lab``: start, stop, look at and break the virtual lab."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.quantities import Share

DEFAULT_LAB = "lab/virtual.yaml"
WIDTH = 80

_LAB_OPTION = click.option(
    "--lab", "lab_file", metavar="FILE", default=DEFAULT_LAB, envvar="PINET_LAB", show_default=True,
    show_envvar=True, help="The lab file.",
)  # fmt: skip


@click.group()
def lab() -> None:
    """Start, stop, look at and break the virtual lab."""


@lab.command()
@_LAB_OPTION
def up(lab_file: str) -> None:
    """Start the lab, or find it, and print its environment."""
    from pytest_pinet.virtual.launcher import launcher

    for line in _exports(launcher().up(_load(lab_file))):
        click.echo(line)


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


@lab.command()
@click.argument("target", metavar="NODE[:INTERFACE]")
@_LAB_OPTION
@click.option("--rate", type=float, metavar="FACTOR", help="Goodput as a factor of what it should be, such as 0.9.")
@click.option("--direction", type=click.Choice(["tx", "rx"]), help="Only what the node sends (tx) or receives (rx).")
@click.option("--loss", metavar="SHARE", help="Drop this share of the packets, such as 1%.")
@click.option("--down", "pulled", is_flag=True, help="Pull the cable.")
@click.option("--freeze", is_flag=True, help="Let the node hang: silent on every line until it is restored.")
def degrade(
    target: str, lab_file: str, rate: float | None, direction: str | None, loss: str | None, pulled: bool, freeze: bool
) -> None:
    """Make a node or one of its interfaces worse; it stays so through power cycles until it is restored."""
    if rate is None and loss is None and not pulled and not freeze:
        raise ConfigError("say what is to be wrong: --rate, --loss, --down or --freeze")
    if direction is not None and rate is None and loss is None:
        raise ConfigError(f"--direction {direction} goes with --rate or --loss; a cable or a node is whole or broken")
    if rate is not None and not 0.001 <= rate <= 1:
        raise ConfigError(f"--rate {rate:g}: expected a factor from 0.001 to 1, such as 0.9")
    if freeze and ":" in target:
        raise ConfigError(f"--freeze takes a whole node, such as {target.partition(':')[0]!r}, not an interface")
    share = None if loss is None else _share(loss)
    changed = _ask(
        lab_file, "degrade", target=target, rate=rate, loss=share, direction=direction, down=pulled, freeze=freeze
    )
    click.echo(f"degraded: {', '.join(changed)}")


@lab.command()
@click.argument("target", metavar="[NODE[:INTERFACE]]", required=False)
@_LAB_OPTION
def restore(target: str | None, lab_file: str) -> None:
    """Undo all faults of an interface, a node, or (without a name) the whole lab."""
    healed = _ask(lab_file, "restore", target=target)
    click.echo(f"restored: {', '.join(healed)}" if healed else "nothing was degraded")


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
    from pytest_pinet.virtual.control_client import ask
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


def _table(found: dict[str, Any]) -> list[str]:
    rows = [("node", "power", "console", "ssh", "interface", "port", "tx/rx Mbit/s", "faults")]
    for node in found["nodes"]:
        power = "frozen" if node["frozen"] else node["power"]
        head = (node["name"], power, str(node["console"]), str(node["ssh"]))
        for interface in node["interfaces"]:
            rates = "/".join(f"{interface[f'{way}_goodput_bps'] / 1e6:.0f}" for way in ("tx", "rx"))
            port = f"{interface['switch']}/{interface['port']}"
            rows.append((*head, interface["name"], port, rates, ", ".join(interface["faults"])))
            head = ("", "", "", "")
        if not node["interfaces"]:
            rows.append((*head, "", "", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    lines = []
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        if len(line) + 2 + len(row[7]) <= WIDTH:
            lines.append(f"{line}  {row[7]}".rstrip())
        else:
            lines += [line.rstrip(), f"  ! {row[7]}"]
    lines += [
        f"! the {name} has died: pinet lab down, then up again"
        for name, alive in found["processes"].items()
        if not alive
    ]
    return lines
