"""Labs without hardware: ``pinet lab`` runs the virtual one, ``pinet emulated`` makes what emulated boards boot."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from pytest_pinet.cli.command import PinetGroup, echo, parsed, say, with_sections
from pytest_pinet.cli.options import LAB_OPTION, complete_nodes, complete_targets, print_lines
from pytest_pinet.errors import ConfigError

if TYPE_CHECKING:
    from pytest_pinet.model.lab import Lab, Scale


WIDTH = 80


@click.group(cls=PinetGroup)
def lab() -> None:
    """Start, stop and show the virtual lab, and inject faults. Print the JSON Schema of lab files."""


@lab.command()
@LAB_OPTION
def up(lab_file: str) -> None:
    """Start the lab, unless it runs, and print its environment variables."""
    from pytest_pinet.config.labfile import load
    from pytest_pinet.virtual.launcher import launcher
    from pytest_pinet.virtual.runtime import status as read_status

    virtual = load(lab_file)
    if virtual.launcher != "virtual":
        raise ConfigError(f"{lab_file} has no `launcher: virtual`, so there is no virtual lab to start")
    print_lines(_exports(launcher().up(virtual)))
    found = read_status(lab_file) or {}
    if found.get("scale_because") or found.get("scale", 1.0) != 1:
        # A shell evaluates stdout.
        say(f"lab {found['lab']}: {_scale(found)}")


@lab.command()
@LAB_OPTION
def down(lab_file: str) -> None:
    """Stop the lab and remove all of its parts, even after a crash."""
    from pytest_pinet.virtual.launcher import stop

    runs = stop(lab_file)
    if runs:
        echo(f"the lab was stopped while {runs} {'run' if runs == 1 else 'runs'} used it")


@lab.command()
@LAB_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def status(lab_file: str, as_json: bool) -> None:
    """Show power, ports, links and faults of every node; of a lab without a launcher, what can be reached.

    Exit code: 0 if the lab is up, or all of it can be reached; 1 otherwise.
    """
    from pytest_pinet.config.labfile import load
    from pytest_pinet.virtual.runtime import status as read_status

    lab = load(lab_file)
    if lab.launcher is None:
        _real_status(lab, as_json)
        return
    found = read_status(lab_file)
    if found is None:
        echo(json.dumps({"up": False}) if as_json else f"the lab of {lab_file} is down")
        sys.exit(1)
    if as_json:
        echo(json.dumps({"up": True, **found}, indent=1))
        return
    print_lines([*(line[:WIDTH] for line in _table(found)), "", *_exports(found["environment"])])


def _real_status(lab: Lab, as_json: bool) -> None:
    from pytest_pinet.doctor.reach import lines, reach

    found = reach(lab)
    if as_json:
        echo(json.dumps([one.as_json() for one in found], indent=1))
    else:
        echo(f"lab {lab.name} has no launcher: it is always there, and this is what can be reached now")
        print_lines(lines(found))
    if any(one.answers is False for one in found):
        sys.exit(1)


@lab.command(
    cls=with_sections(
        {
            "Faults of a cable": ["--rate", "--loss", "--direction", "--down", "--swap-with"],
            "Faults of a node": [
                "--freeze",
                "--panic",
                "--hang-console",
                "--console-line",
                "--throttle",
                "--drop-ssh",
            ],
            "Faults of a switch or of the power switch": ["--dead", "--lie"],
        }
    ),
    context_settings={"max_content_width": 100},
)
@click.argument("target", metavar="TARGET", shell_complete=complete_targets)
@LAB_OPTION
@click.option("--rate", type=float, metavar="FACTOR", help="NODE[:IF]: reduce the goodput to this factor, such as 0.9.")
@click.option("--loss", metavar="SHARE", help="NODE[:IF]: drop this share of the packets, such as 1%.")
@click.option(
    "--direction",
    type=click.Choice(["tx", "rx"]),
    help="With --rate or --loss: only what the node sends (tx) or receives (rx).",
)
@click.option("--down", is_flag=True, help="NODE[:IF]: pull the cable.")
@click.option("--swap-with", metavar="NODE:IF", help="NODE:IF: exchange the switch ports of two cables.")
@click.option(
    "--freeze", is_flag=True, help="NODE: the node hangs until it is restored; console and network are silent."
)
@click.option("--panic", type=click.Choice(["now", "boot"]), help="NODE: kernel panic, now or at each boot.")
@click.option("--hang-console", is_flag=True, help="NODE: the console is silent; the network works.")
@click.option("--console-line", metavar="TEXT", help="NODE: the kernel prints this text once.")
@click.option(
    "--throttle",
    type=click.Choice(["under-voltage", "capped", "throttled", "hot"]),
    help="NODE: the firmware reports this state.",
)
@click.option("--drop-ssh", is_flag=True, help="NODE: close its ssh connections once.")
@click.option("--dead", is_flag=True, help="pdu, SWITCH: the device does not answer.")
@click.option("--lie", is_flag=True, help="pdu[/NODE]: the outlet reports success and changes nothing.")
def degrade(target: str, lab_file: str, **faults: Any) -> None:
    """Inject a fault into a part of the lab. It lasts until `pinet lab restore`, also over power cycles.

    TARGET is NODE, NODE:INTERFACE, SWITCH, pdu, or pdu/NODE for one outlet of the power switch.
    """
    from pytest_pinet.model.quantities import Share

    if faults["loss"] is not None:
        faults["loss"] = parsed("--loss", Share.parse, faults["loss"]).fraction
    # The lab itself checks which fault fits which target.
    given = {name for name, value in faults.items() if value not in (None, False)}
    direction, rate = faults["direction"], faults["rate"]
    if not given:
        raise ConfigError("no fault given; expected an option such as --rate, --loss, --down or --freeze (see --help)")
    if direction is not None and rate is None and faults["loss"] is None:
        raise ConfigError(f"--direction {direction} needs --rate or --loss; other faults have no direction")
    if rate is not None and not 0.001 <= rate <= 1:
        raise ConfigError(f"--rate {rate:g}: expected a factor from 0.001 to 1, such as 0.9")
    if faults["freeze"] and ":" in target:
        raise ConfigError(f"--freeze needs a node, such as {target.partition(':')[0]!r}, not an interface")
    echo(f"degraded: {', '.join(_ask(lab_file, 'degrade', target=target, **faults))}")


@lab.command()
@click.argument("target", metavar="[TARGET]", required=False, shell_complete=complete_targets)
@LAB_OPTION
@click.option("--without-leases", is_flag=True, help="Restore switch ports even if another user holds their nodes.")
def restore(target: str | None, lab_file: str, without_leases: bool) -> None:
    """Remove all faults of TARGET or, without TARGET, of the whole lab. TARGET is the same as for `degrade`.

    Without TARGET, also restore the switch ports that a crashed run left changed. This works in every lab. Ports of
    nodes that another user holds are not touched.
    """
    from pytest_pinet.config.labfile import load
    from pytest_pinet.lab.restoration import restore_ports

    if target is not None and without_leases:
        raise ConfigError(
            f"--without-leases cannot be used with the target {target}: ports are restored only without a TARGET"
        )
    done = []
    if target is not None or load(lab_file).launcher is not None:
        healed = _ask(lab_file, "restore", target=target)
        done += [f"restored: {', '.join(healed)}"] if healed else []
    if target is None:
        done += restore_ports(lab_file, say, without_leases)
    print_lines(done or [f"{target} has no faults" if target is not None else "nothing to restore"])


@lab.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@LAB_OPTION
@click.argument("node", shell_complete=complete_nodes)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(lab_file: str, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on NODE, such as: pinet lab exec pi4b-1 -- ip addr

    Exit code: that of COMMAND; 255 if ssh fails.
    """
    from pytest_pinet.virtual.runtime import BOOT_S, ssh_command

    argv = ssh_command(lab_file, node, command[1:] if command[0] == "--" else command, BOOT_S)
    os.execvp(argv[0], argv)


@lab.command()
def schema() -> None:
    """Print the JSON Schema of lab files."""
    click.echo(files("pytest_pinet.config").joinpath("lab.schema.json").read_text(encoding="utf-8"), nl=False)


def _ask(lab_file: str, op: str, **arguments: Any) -> list[str]:
    from pytest_pinet.virtual.launcher import running_state
    from pytest_pinet.virtual.runtime import Runtime, is_down

    runtime = Runtime.of(lab_file)
    if running_state(runtime) is None:
        raise is_down(lab_file)
    return list(runtime.ask(op, **arguments))


def _exports(environment: Any) -> list[str]:
    return [f"export {name}={value}" for name, value in environment.items()]


def _scale(found: Mapping[str, Any]) -> Scale:
    from pytest_pinet.model.lab import Scale

    return Scale(found.get("scale", 1.0), found.get("scale_because", ""))


def _table(found: dict[str, Any]) -> list[str]:
    from pytest_pinet.report.text_wrap import text_table, wrap

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
        f"! the {name} process has died; restart the lab: pinet lab down, then pinet lab up"
        for name, alive in found["processes"].items()
        if not alive
    ]
    return lines


@click.group(cls=PinetGroup)
def emulated() -> None:
    """Create the SD card image of emulated boards, and fetch kernels to compare, or a newer QEMU."""


@emulated.command()
def card() -> None:
    """Create the SD card image, unless it exists, and print its path. Every emulated board gets a copy of it."""
    from pytest_pinet.emulated.image import card_image, check_commands

    check_commands()
    echo(card_image(say))


@emulated.command()
@click.argument("package", required=False)
def kernel(package: str | None) -> None:
    """Fetch the Debian kernel PACKAGE, such as linux-image-6.12-arm64, and print the path of its file.

    Without PACKAGE, list the newest kernel of each kind in this machine's Debian sources. The printed path is a build:
    `pinet gate "$(pinet emulated kernel linux-image-rt-arm64)"`.
    """
    from pytest_pinet.emulated.image import kernel_package, kernels

    if package is None:
        for name in kernels(say):
            echo(name)
    else:
        echo(kernel_package(package, say))


@emulated.command()
def qemu() -> None:
    """Unpack a newer QEMU from Debian's backports beside the installed one, and print its path. Needs no root.

    Exact boards that need a newer QEMU (igb) then use it. `PINET_QEMU` names another QEMU for all exact boards.
    """
    from pytest_pinet.exact.qemu import unpack_newer_qemu

    echo(unpack_newer_qemu(say))
