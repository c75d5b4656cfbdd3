"""What the machines of a desk lack, and the next commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace

from pytest_pinet.errors import PinetError
from pytest_pinet.execution.shell import root_cure
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.desk import Desk, DeskNode
from pytest_pinet.init.machine import Machine, install_iperf3


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
            lines += [_what(node), f"  -> {_install_command(machine)}, or: pinet init --install-iperf3"]
    return lines


def next_steps(file: str, text: str) -> list[str]:
    """Return the next commands. ``text`` is that of the lab file, which can name variables for passwords."""
    variables = re.findall(r'^[^#\n]*!template "\$(\w+)"', text, re.MULTILINE)
    return [
        "Next:",
        *(f"  export {name}=..." for name in dict.fromkeys(variables)),
        f"  pinet doctor --lab {shlex.quote(file)}",
        f"  pytest --pyargs pytest_pinet.suites.test_line_rate --pinet-lab={shlex.quote(file)}",
    ]


def _who(node: DeskNode) -> str:
    return "this machine" if node.machine.login is None else node.name


def _what(node: DeskNode) -> str:
    return f"{_who(node)}: {(node.machine.no_iperf3 or '').removeprefix(f'{node.machine.who} ')}"


def _install_command(machine: Machine) -> str:
    if machine.installer is None:
        return "install iperf3 3.7 or newer"
    command = f"sudo {machine.installer}" if machine.user != "root" else machine.installer
    # sudo passes no variables of the shell on.
    command = command.replace("sudo DEBIAN_FRONTEND=noninteractive ", "sudo ")
    if machine.login is None:
        return command
    return f"ssh -t {' '.join(machine.login.words)} '{command}'"
