"""``pinet init``: looks at boards over ssh, and writes a lab file for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.options import print_lines
from pytest_pinet.config.fields import NAME, NAME_FORM
from pytest_pinet.errors import ConfigError, PinetError, mistake_in
from pytest_pinet.execution.names import shown

if TYPE_CHECKING:
    from pytest_pinet.init.desk import Wishes
    from pytest_pinet.init.login import Login
    from pytest_pinet.init.machine import Machine

FAILED = 2


@click.command()
@click.argument("logins", metavar="[LOGIN]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="The lab file to write; by default NAME.yaml. It must not exist.")
@click.option("--name", metavar="NAME", default="desk", show_default=True, help="The name of the lab.")
@click.option(
    "--peer", metavar="PEER",
    help="The other end of a single board: runner (this machine, the default), none, or the LOGIN of another board.",
)  # fmt: skip
@click.option(
    "--interface", "interfaces", metavar="[NODE=]DEVICE", multiple=True,
    help="The NIC under test of a node (pc: this machine), if several have a link. Repeatable.",
)  # fmt: skip
@click.option(
    "--speed", metavar="RATE", help="The expected link speed, such as 1G, if it is unknown or below the rated."
)
@click.option("-i", "--keyfile", metavar="FILE", help="The ssh key. Default: ssh's own keys and settings.")
@click.option("--install-iperf3", is_flag=True, help="Install iperf3 where it is missing. Needs root rights there.")
@click.option("-y", "--yes", is_flag=True, help="Take the default of each question without asking. Installs nothing.")
def init(
    logins: tuple[str, ...],
    output: str | None,
    name: str,
    peer: str | None,
    interfaces: tuple[str, ...],
    speed: str | None,
    keyfile: str | None,
    install_iperf3: bool,
    yes: bool,
) -> None:
    """Look at boards over ssh, and write a lab file for them.

    LOGIN is pi@192.0.2.5, pi@192.0.2.5:2222 or a host of ~/.ssh/config. One board is tested against this machine, two
    boards against each other. Nothing is changed on the boards. On a terminal, the command asks for what it cannot
    find; without one, options give it.

    Exit code: 0 if the file was written; 2 if a board could not be read; 4 if an option or an answer is wrong.
    """
    from pytest_pinet.init import desk, desk_file, missing, new_file
    from pytest_pinet.init.answers import Answers
    from pytest_pinet.init.machine import this_machine

    answers = Answers(sys.stdin.isatty(), yes)
    wishes = _wishes(name, peer, interfaces, speed, keyfile)
    file = output or f"{wishes.name}.yaml"
    new_file.check_free(file)
    texts = [*logins] or [answers.text("Login of the board, such as pi@192.0.2.5", str, "LOGIN")]
    if peer is not None and wishes.peer is None:
        texts.append(peer)
    addresses = [_login(text) for text in texts]
    say(f"Looking at {', '.join(map(str, addresses))} ...")
    machines = _look(addresses, keyfile)
    plan = desk.plan(machines, this_machine(), wishes, answers)
    plan = missing.with_iperf3(plan, install_iperf3, answers, say)
    lab = new_file.write(file, desk_file.text(plan, file))
    say(f"{file} is written: lab {lab.name} with {' and '.join(lab.nodes)}")
    for line in missing.to_do(plan):
        say(line)
    print_lines(missing.next_steps(file))


def say(text: str) -> None:
    """Print a line for the user, which is no result."""
    click.echo(text, err=True)


def _wishes(name: str, peer: str | None, interfaces: Sequence[str], speed: str | None, keyfile: str | None) -> Wishes:
    from pytest_pinet.init.desk import PEER_NONE, PEER_RUNNER, Wishes, speed_of

    if not NAME.fullmatch(name):
        raise ConfigError(f"--name: expected {NAME_FORM}, got {shown(name)}")
    chosen: dict[str, str] = {}
    for text in interfaces:
        node, _, device = text.rpartition("=")
        chosen[node] = device
    mbps = None
    if speed is not None:
        with mistake_in("--speed"):
            mbps = speed_of(speed)
    if keyfile is not None and not Path(keyfile).expanduser().is_file():
        raise ConfigError(f"--keyfile: there is no file {keyfile}")
    return Wishes(name, peer if peer in (PEER_RUNNER, PEER_NONE) else None, chosen, mbps, keyfile)


def _login(text: str) -> Login:
    from pytest_pinet.init.login import parse

    with mistake_in("LOGIN"):
        return parse(text)


def _look(logins: Sequence[Login], keyfile: str | None) -> list[Machine]:
    """Look at all boards. A board that cannot be read ends the command, after the sentences of all such boards."""
    from pytest_pinet.init.machine import look_at

    found = look_at(logins, keyfile)
    machines = [one for one in found if not isinstance(one, PinetError)]
    if len(machines) < len(found):
        for one in found:
            if isinstance(one, PinetError):
                say(f"pinet: {one}")
        sys.exit(FAILED)
    return machines
