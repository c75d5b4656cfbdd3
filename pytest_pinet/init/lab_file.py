"""Writes a new lab file, of a desk or of a bench with a coordinator, and says what is missing before the first test."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pytest_pinet.config import labfile
from pytest_pinet.config.lab_text import Value, mapping, scalar
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.files import is_folder, writing
from pytest_pinet.execution.shell import root_cure
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.bench import Bench
from pytest_pinet.init.desk import Desk, DeskNode
from pytest_pinet.init.hardware import FoundHardware
from pytest_pinet.init.machine import Machine, install_iperf3
from pytest_pinet.model.forms import ManagementMode
from pytest_pinet.model.hardware import Board, FoundNic, Nic
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.report.text_wrap import wrap

_WIDTH = 112


def desk_text(desk: Desk, file: str) -> str:
    """Return the lab file of a desk: no coordinator, no power switch, no console, no managed switch."""
    return _environment().get_template("desk.yaml").render(vars(desk), file=file)


def bench_text(name: str, bench: Bench, nodes: Sequence[DeskNode], hardware: FoundHardware, file: str) -> str:
    """Return the lab file of a bench. ``nodes`` are the machines that were looked at."""
    known = {node.name: node for node in nodes}
    user = next((node.machine.login.user for node in nodes if node.machine.login is not None), "root")
    template = _environment().get_template("bench.yaml")
    runners = [node.name for node in nodes if node.is_runner]
    places = [place for place in bench.boards if place not in runners]
    return template.render(
        name=name, bench=bench, known=known, user=user, hardware=hardware, file=file, places=places, runners=runners
    )


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(mapping=mapping, scalar=scalar, comment=_comment)
    own = (_board_keys, _nic_keys, _interface_keys, _service_keys, _machine_words, _management_words, _nic_words)
    found.globals.update({function.__name__.lstrip("_"): function for function in own}, rate=Bitrate.mbps)
    return found


def _comment(text: str, indent: int) -> str:
    return "\n".join(f"{' ' * indent}# {line}" for line in wrap(text, width=_WIDTH - indent))


def _service_keys(machine: Machine) -> dict[str, Value]:
    assert machine.login is not None
    login = machine.login
    port: dict[str, Value] = {"port": login.port} if login.port != 22 else {}
    return {"address": login.host, "username": login.user, **port}


def _board_keys(board: Board) -> dict[str, Value]:
    found: dict[str, Value] = {"title": board.title, "clock_mhz": board.clock_mhz, "cores": board.cores}
    found["buses"] = [str(bus) for bus in board.buses]
    more = {"onboard": board.onboard, "model": board.model}
    return found | {key: value for key, value in more.items() if value is not None}


def _nic_keys(nic: Nic) -> dict[str, Value]:
    found: dict[str, Value] = {"title": nic.title, "chip": nic.chip, "driver": nic.driver, "bus": str(nic.bus)}
    return found | {"speeds_mbps": list(nic.speeds_mbps), "mtu_max": nic.mtu_max}


def _interface_keys(node: DeskNode, port: str) -> dict[str, Value]:
    tested = node.tested
    keys: dict[str, Value] = {"nic": tested.nic.name} if tested.is_named else {}
    keys["port"] = port
    nic = tested.found
    # The address of a device of software changes at each boot.
    mac = nic.permanent_mac or (nic.mac if nic.bus is not None else None)
    if node.machine.login is not None and mac is not None:
        keys["mac"] = mac
    else:
        keys["device"] = nic.device
    if tested.drivers:
        keys["driver"] = tested.drivers[0]
    if tested.speed_mbps is not None:
        keys["speed"] = str(Bitrate.mbps(tested.speed_mbps))
    return keys


def _machine_words(machine: Machine) -> str:
    kind = machine.board.model or "no device tree, so the model is unknown"
    who = "The machine that runs pytest" if machine.login is None else f"{machine.login}: {kind}"
    system = f"{machine.system or 'unknown system'}, Linux {machine.kernel} ({machine.architecture})"
    root = "has root rights" if machine.no_root is None else f"has no root rights ({machine.no_root})"
    tool = f"iperf3 {machine.iperf3}" if machine.iperf3 is not None else "no iperf3"
    return f"{who}; {system}; user {machine.user} {root}; {tool}"


def _management_words(node: DeskNode) -> str:
    device, management = node.machine.management.device, node.management
    assert management is not None
    if not device:
        return "ssh comes in by a relay, not by a NIC of the board"
    cost = "" if management.mode is ManagementMode.SEPARATE else f": {management.cost}"
    return f"ssh comes in by {device}{cost}"


def _nic_words(machine: Machine, nic: FoundNic) -> str:
    facts = machine.facts_of(nic.device)
    place = nic.bus_info or nic.bus or "no bus"
    link = "Wi-Fi" if facts.wireless else "no link" if not facts.carrier else "link of unknown speed"
    if facts.carrier and facts.linked_mbps is not None and not facts.wireless:
        link = f"link {Bitrate.mbps(facts.linked_mbps)}"
    words = [f"driver {nic.driver or 'unknown'}", place, f"MAC {nic.permanent_mac or nic.mac}", link]
    return f"{nic.device}: {', '.join([*words, *machine.addresses.get(nic.device, ())])}"


def check_free(file: str) -> None:
    """Check that a file does not exist, before any work is done for it. Raises ConfigError."""
    if os.path.lexists(file):
        raise _exists(file)
    if not is_folder(Path(file).parent):
        raise ConfigError(f"cannot write {file}: there is no folder {Path(file).parent}")


def write(file: str, text: str) -> LabOfFile:
    """Write a new lab file, and return it as ``pinet check`` reads it. Raises ConfigError."""
    lab = labfile.resolve(text, file)
    with writing(file, "--output"):
        try:
            # O_EXCL: a file that another program has written meanwhile stays as it is.
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise _exists(file) from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as target:
                target.write(text)
                target.flush()
                os.fsync(target.fileno())
        except OSError:
            Path(file).unlink(missing_ok=True)
            raise
    return lab


def _exists(file: str) -> ConfigError:
    return ConfigError(f"{file} exists already, and is not changed; choose another file with --output")


def with_iperf3(desk: Desk, is_wanted: bool, answers: Answers, say: Callable[[str], None]) -> Desk:
    """Return the desk with iperf3 on all machines where the user agrees. ``is_wanted``: the user agreed by an option.

    An installation that fails is reported, and stays in ``to_do``.
    """
    nodes = []
    for node in desk.nodes:
        machine = node.machine
        if machine.no_iperf3 is not None and machine.installer is not None and machine.no_root is None:
            answers.say(f"{_what(node)}. This command installs it there: {machine.installer}")
            if is_wanted or answers.agrees(f"Install iperf3 on {machine.who} now?"):
                say(f"Installing iperf3 on {machine.who} ...")
                try:
                    machine = replace(machine, iperf3=install_iperf3(machine, desk.keyfile), no_iperf3=None)
                except PinetError as error:
                    say(str(error))
        nodes.append(replace(node, machine=machine))
    return replace(desk, nodes=nodes)


def to_do(desk: Desk) -> list[str]:
    """Return what must be done on each machine before the first test, with the command."""
    lines = []
    for node in desk.nodes:
        machine = node.machine
        if machine.no_root is not None:
            lines.append(f"{_who(node)}: user {machine.user} has no root rights ({machine.no_root})")
            own = 'start pytest as root: sudo env PATH="$PATH" pytest ...'
            lines.append(f"  -> {own if machine.login is None else root_cure(node.name)}")
        if machine.no_iperf3 is not None:
            command = _command(machine, machine.installer, "install iperf3 3.12 or newer")
            lines += [_what(node), f"  -> {command}, or: pinet init --install-iperf3"]
        if machine.lacks:
            programs = ", ".join(machine.lacks)
            lines.append(f"{_who(node)}: these programs are missing, so tests of some metrics are skipped: {programs}")
            lines.append(f"  -> {_command(machine, machine.adding, f'install {programs}')}")
    return lines


def next_steps(file: str, text: str) -> list[str]:
    """Return the next commands. ``text`` is that of the lab file, which can name variables for passwords."""
    variables = re.findall(r'^[^#\n]*!template "\$(\w+)"', text, re.MULTILINE)
    return [
        "Next:",
        *(f"  export {name}=..." for name in dict.fromkeys(variables)),
        f"  pinet doctor --lab {shlex.quote(file)}",
        f"  pytest --pyargs pytest_pinet.suites.test_everyday --pinet-profile=fast --pinet-lab={shlex.quote(file)}",
    ]


def _who(node: DeskNode) -> str:
    return "this machine" if node.machine.login is None else node.name


def _what(node: DeskNode) -> str:
    return f"{_who(node)}: {(node.machine.no_iperf3 or '').removeprefix(f'{node.machine.who} ')}"


def _command(machine: Machine, command: str | None, unknown: str) -> str:
    """Return a command as it is typed at this machine. ``unknown`` is what to do if the command is None."""
    if command is None:
        return unknown
    command = f"sudo {command}" if machine.user != "root" else command
    # sudo passes no variables of the shell on.
    command = command.replace("sudo DEBIAN_FRONTEND=noninteractive ", "sudo ")
    if machine.login is None:
        return command
    return f"ssh -t {' '.join(machine.login.words)} '{command}'"
