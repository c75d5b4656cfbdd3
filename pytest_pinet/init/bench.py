"""The questions for a bench with a labgrid coordinator: places, power, consoles and the switch."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.load import built_in
from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.execution.names import shown, unknown
from pytest_pinet.init.answers import BACKENDS, CLI, CONSOLES, FIXED, LINUX, OUTLET, POE, POWERS, SERIAL, SNMP, Answers
from pytest_pinet.init.desk import DeskNode
from pytest_pinet.init.hardware import guess_board
from pytest_pinet.model.forms import NAME, PORT, parse_address, snmp_address, ssh_address

# A coordinator on this machine, at labgrid's port.
_COORDINATOR = "127.0.0.1:20408"


@dataclass(frozen=True)
class Bench:
    """All that the lab file needs; a value is empty until the user has chosen it by an option or an answer.

    ``boards`` maps places to models of the catalogue, ``ports`` to switch ports.
    """

    coordinator: str = ""
    boards: Mapping[str, str] = field(default_factory=dict)
    power: str = ""
    console: str = ""
    backend: str = ""
    address: str = ""
    family: str = ""
    ports: Mapping[str, str] = field(default_factory=dict)


def parse_board(text: str) -> tuple[str, str]:
    """Parse ``pi4b-1=pi4b``, or a name that begins with its model. Raises ValueError."""
    name, _, model = text.strip().partition("=")
    NAME.check(name)
    model = model or guess_board(name) or ""
    boards = load().boards
    if model not in boards:
        hint = f"write NAME=MODEL, such as {name}=pi4b" if not model else unknown("board", model, boards)
        raise ValueError(hint)
    if boards[model].onboard is None:
        raise ValueError(f"board {model} has no onboard NIC: give its login, so that its NIC can be read")
    return name, model


def parse_coordinator(text: str) -> str:
    """Parse an address of a coordinator. Raises ValueError."""
    parse_address(text, "", "HOST:PORT such as bench.example.org:20408", user=False)
    return text


def _boards(text: str) -> dict[str, str]:
    found = [parse_board(part) for part in re.split(r"[,\s]+", text.strip()) if part]
    if not found:
        raise ValueError("expected at least one board, such as pi4b-1=pi4b")
    if len(dict(found)) < len(found):
        raise ValueError("two boards have the same name")
    return dict(found)


def ask(nodes: Sequence[DeskNode], chosen: Bench, answers: Answers) -> Bench:
    """Ask for all that options have not chosen. ``nodes`` are the boards that were looked at. Raises ConfigError."""
    answers.say(
        "Coordinator: labgrid's coordinator knows the places of the lab and who uses them. Start it on one machine of\n"
        "the lab with: labgrid-coordinator. Example: bench.example.org:20408"
    )
    default = os.environ.get("LG_COORDINATOR", _COORDINATOR)
    coordinator = chosen.coordinator or answers.text(
        "address of the coordinator", parse_coordinator, "--coordinator HOST:PORT", default
    )
    boards = {node.name: node.board for node in nodes if not node.is_runner} | dict(chosen.boards)
    if not boards:
        answers.say(
            "Places: each board is a place of labgrid. Name the places, each with the model of its board.\n"
            f"Example: pi4b-1=pi4b, pi5-1=pi5. The models: {', '.join(load().boards)}"
        )
        boards = answers.text("places and models", _boards, "--board NAME=MODEL")
    runners = {node.name: node.board for node in nodes if node.is_runner}
    if taken := boards.keys() & runners:
        raise ConfigError(f"--board: '{taken.pop()}' is the name of this machine; choose another name")
    boards |= runners
    answers.say(
        "Power: a switchable outlet (PDU, relay or smart plug that labgrid knows) boots a board that hangs.\n"
        "`poe`: the switch powers the boards. Without power control, you must unplug a board that hangs."
    )
    power = chosen.power or answers.choose("power of the boards", POWERS, "--power", OUTLET)
    answers.say(
        "Consoles: a serial cable from each board to the machine of labgrid's exporter shows why a kernel does\n"
        "not boot. Without a console, only the loss of ssh is seen."
    )
    console = chosen.console or answers.choose("consoles of the boards", CONSOLES, "--console", SERIAL)
    answers.say(
        "Switch: pinet moves ports into VLANs, reads counters and checks cables. `snmp`, `cli` (a command line) and\n"
        "`linux` (a Linux bridge or OpenWrt over ssh) manage a switch; `fixed` is a switch that is used as it is wired."
    )
    backend = chosen.backend or answers.choose("kind of the switch", BACKENDS, "--switch", FIXED)
    if power == POE and backend not in (SNMP, CLI):
        raise ConfigError(f"power 'poe' needs a switch of kind {SNMP} or {CLI}, and this one is '{backend}'")
    address = family = ""
    if backend != FIXED:
        example = {SNMP: "192.0.2.2", CLI: "192.0.2.2", LINUX: "ssh://root@192.0.2.2:22"}[backend]
        question = f"address of the switch, such as {example}"
        address = chosen.address or answers.text(question, _address, "--switch-address ADDRESS")
    if backend == CLI:
        family = chosen.family or answers.choose("family of the switch", built_in(), "--switch-family")
    answers.say("Ports: the switch port that the cable of each board ends in, as the switch names it. Example: gi1/0/3")
    for name in chosen.ports:
        if name not in boards:
            raise ConfigError(f"--port: {unknown('board', name, boards)}")
    ports: dict[str, str] = {}
    for number, name in enumerate(boards, 1):
        question = f"switch port of {name}"
        default_port = f"{number}" if backend == FIXED else None
        free = _free_port(ports)
        if name in chosen.ports:
            with mistake_in(f"--port {name}"):
                ports[name] = free(chosen.ports[name])
        else:
            ports[name] = answers.text(question, free, f"--port {name}=PORT", default_port)
    return Bench(coordinator, boards, power, console, backend, address, family, ports)


def parse_family(text: str) -> str:
    """Parse the family of a switch. Raises ValueError."""
    if text not in built_in():
        raise ValueError(unknown("family", text, built_in()))
    return text


def parse_port(text: str) -> tuple[str, str]:
    """Parse ``pi4b-1=gi1/0/3``. Raises ValueError."""
    name, sign, port = text.partition("=")
    if not sign:
        raise ValueError(f"expected NAME=PORT such as pi4b-1=gi1/0/3, got {shown(text)}")
    return name, port


def _address(text: str) -> str:
    (snmp_address if text.startswith("snmp:") else ssh_address)(text)
    return text


def _free_port(taken: Mapping[str, str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if PORT.check(text) in taken.values():
            raise ValueError(f"port {text} is that of another board")
        return text

    return parse
