"""``pinet init``: looks at boards over ssh, and writes a lab file for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import LAB_ERROR, PINET, parsed, say, with_sections
from pytest_pinet.cli.options import print_lines
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.files import is_file
from pytest_pinet.init.answers import BACKENDS, CONSOLES, PEER_NONE, PEER_RUNNER, POWERS

if TYPE_CHECKING:
    from pytest_pinet.init.desk import Wishes
    from pytest_pinet.init.machine import Login, Machine


_OF_BENCH = (
    *("--coordinator", "--board", "--power", "--console"),
    *("--switch", "--switch-address", "--switch-family", "--port"),
)


@click.command(cls=with_sections({"A lab with a labgrid coordinator": ["--bench", *_OF_BENCH]}))
@click.argument("logins", metavar="[LOGIN]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="The lab file to write; by default NAME.yaml. It must not exist.")
@click.option("--name", metavar="NAME", help="The name of the lab. Default: desk, or bench with --bench.")
@click.option(
    "--peer", metavar="PEER",
    help="The other end of a single board: runner (this machine, the default), none, or the LOGIN of another board. "
    "With --bench: none (the default) or runner.",
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
@click.option(
    "--bench", "is_bench", is_flag=True,
    help="A lab with a labgrid coordinator: ask for places, power, consoles and switch. LOGINs are not necessary.",
)  # fmt: skip
@click.option("--coordinator", metavar="HOST:PORT", help="The address of labgrid's coordinator.")
@click.option(
    "--board", "boards", metavar="NAME=MODEL", multiple=True,
    help="A place and the model of its board, such as pi4b-1=pi4b. Repeatable.",
)  # fmt: skip
@click.option("--power", type=click.Choice(POWERS), help="The power control of the boards.")
@click.option("--console", type=click.Choice(CONSOLES), help="The consoles of the boards.")
@click.option("--switch", "backend", type=click.Choice(BACKENDS), help="How the switch is managed.")
@click.option("--switch-address", metavar="ADDRESS", help="The address of the switch.")
@click.option("--switch-family", metavar="FAMILY", help="The family of a switch with a command line.")
@click.option("--port", "ports", metavar="NAME=PORT", multiple=True, help="The switch port of a board. Repeatable.")
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
    is_bench: bool,
    coordinator: str | None,
    boards: tuple[str, ...],
    power: str | None,
    console: str | None,
    backend: str | None,
    switch_address: str | None,
    switch_family: str | None,
    ports: tuple[str, ...],
) -> None:
    """Look at boards over ssh, and write a lab file for them.

    LOGIN is pi@192.0.2.5, pi@192.0.2.5:2222 or a host of ~/.ssh/config. One board is tested against this machine, two
    boards against each other. Nothing is changed on the boards, except that iperf3 is installed where it is missing if
    you agree. On a terminal, the command asks for what it cannot find; without one, options give it.

    With --bench the lab has a labgrid coordinator, power switches, consoles and a switch; each is explained.

    Exit code: 0 if the file was written; 2 if a board could not be read; 4 if an option or an answer is wrong.
    """
    from pytest_pinet.init import bench, desk, lab_file
    from pytest_pinet.init.answers import Answers
    from pytest_pinet.init.hardware import RUNNER
    from pytest_pinet.init.machine import parse_login, this_machine

    if is_bench and peer not in (None, PEER_RUNNER, PEER_NONE):
        raise ConfigError(f"--peer {peer}: with --bench, expected {PEER_RUNNER} (this machine) or {PEER_NONE}")
    values = (coordinator, boards, power, console, backend, switch_address, switch_family, ports)
    if not is_bench and (given := [option for option, value in zip(_OF_BENCH, values, strict=True) if value]):
        raise ConfigError(f"{given[0]} is for a lab with a labgrid coordinator; add --bench")
    answers = Answers(sys.stdin.isatty(), yes)
    name = name or ("bench" if is_bench else "desk")
    # The NIC of this machine is no NIC of a board.
    mine = [one for one in interfaces if is_bench and peer == PEER_RUNNER and one.startswith(f"{RUNNER}=")]
    others = [one for one in interfaces if one not in mine]
    wishes = _wishes(name, PEER_NONE if is_bench else peer, others, speed, keyfile)
    file = output or f"{name}.yaml"
    lab_file.check_free(file)
    if not logins and not is_bench:
        logins = (answers.text("Login of the board, such as pi@192.0.2.5", str, "LOGIN"),)
    texts = [*logins, *([peer] if peer is not None and wishes.peer is None and not is_bench else [])]
    addresses = [parsed("LOGIN", parse_login, text) for text in texts]
    runner = this_machine()
    plan = desk.plan(_look(addresses, keyfile), runner, wishes, answers)
    if is_bench and peer == PEER_RUNNER:
        own = _wishes(name, peer, mine, speed, keyfile)
        plan = replace(plan, nodes=[*plan.nodes, desk.runner_of_bench(runner, plan, own, answers)])
    plan = lab_file.with_iperf3(plan, install_iperf3, answers, say)
    if is_bench:
        chosen = bench.Bench(
            parsed("--coordinator", bench.parse_coordinator, coordinator) if coordinator else "",
            dict(parsed("--board", bench.parse_board, text) for text in boards),
            power or "",
            console or "",
            backend or "",
            switch_address or "",
            parsed("--switch-family", bench.parse_family, switch_family) if switch_family else "",
            dict(parsed("--port", bench.parse_port, text) for text in ports),
        )
        made = bench.ask(plan.nodes, chosen, answers)
        text = lab_file.bench_text(name, made, plan.nodes, plan.hardware, file)
    else:
        text = lab_file.desk_text(plan, file)
    lab = lab_file.write(file, text)
    say(f"{file} is written: lab {lab.name} with {' and '.join(lab.nodes)}")
    if is_bench and len(lab.nodes) == 1:
        say(f"one board has no peer, so no test can run: add a second board to {file}, or write it with --peer runner")
    for line in lab_file.to_do(plan):
        say(line)
    print_lines(lab_file.next_steps(file, text))


def _wishes(name: str, peer: str | None, interfaces: Sequence[str], speed: str | None, keyfile: str | None) -> Wishes:
    from pytest_pinet.init.desk import Wishes, speed_of
    from pytest_pinet.model.forms import NAME

    parsed("--name", NAME.check, name)
    if keyfile is not None and not is_file(Path(keyfile).expanduser()):
        raise ConfigError(f"--keyfile: there is no file {keyfile}")
    return Wishes(
        name,
        peer if peer in (PEER_RUNNER, PEER_NONE) else None,
        dict(text.rpartition("=")[::2] for text in interfaces),
        None if speed is None else parsed("--speed", speed_of, speed),
        # labgrid reads a relative path from the folder of the lab file.
        keyfile and str(Path(keyfile).expanduser().absolute()),
    )


def _look(logins: Sequence[Login], keyfile: str | None) -> list[Machine]:
    """Look at all boards. A board that cannot be read ends the command, after the sentences of all such boards."""
    from pytest_pinet.init.machine import look_at

    if logins:
        say(f"Looking at {', '.join(map(str, logins))} ...")
    found = look_at(logins, keyfile)
    machines = [one for one in found if not isinstance(one, PinetError)]
    if len(machines) < len(found):
        for one in found:
            if isinstance(one, PinetError):
                say(f"{PINET} {one}")
        sys.exit(LAB_ERROR)
    return machines
