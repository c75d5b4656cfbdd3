"""The status of a running virtual lab, for users."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, LabError, PinetError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.names import unknown
from pytest_pinet.execution.shell import ssh_options
from pytest_pinet.model.lab import Scale
from pytest_pinet.virtual.launcher import PROCESSES
from pytest_pinet.virtual.processes import ProcessId
from pytest_pinet.virtual.runtime import Runtime

# Boards of virtual labs boot in a few seconds, on a busy machine in more.
BOOT_S = 60.0


def is_down(lab_file: str) -> PinetError:
    """Return the error for a command that needs a running virtual lab."""
    if load(lab_file, in_use=False).launcher is None:
        return ConfigError(f"{lab_file} has no launcher; this command is only for virtual labs")
    return LabError(f"the lab of {lab_file} is down", f"pinet lab up --lab {lab_file}")


def status(lab_file: str) -> dict[str, Any] | None:
    """Return nodes, switches, processes and environment of a lab, even if a process has ended. None if it is down."""
    runtime = Runtime.of(lab_file)
    state = runtime.read_json("state.json")
    if state is None or not state["complete"]:
        return None
    alive = {name: ProcessId(**state["processes"][name]).alive for name in PROCESSES}
    if not any(alive.values()):
        return None
    found = runtime.ask("status") if alive["daemon"] else {"lab": state["lab"], "nodes": [], "switches": []}
    scale = Scale(**state.get("scale", {}))
    return {
        **found,
        "scale": scale.share,
        "scale_because": scale.because,
        "processes": alive,
        "environment": state["environment"],
    }


def ssh_command(lab_file: str, node: str, command: Sequence[str], boot_s: float = 0.0) -> list[str]:
    """Return the ssh command line that runs ``command`` in a node, after a wait of at most ``boot_s`` for its boot.

    Raises ConfigError, LabError if it is off or does not boot in time.
    """
    found = status(lab_file)
    if found is None or not found["processes"]["daemon"]:
        raise is_down(lab_file)
    nodes = {entry["name"]: entry for entry in found["nodes"]}
    if node not in nodes:
        raise ConfigError(unknown("node", node, nodes))
    if nodes[node]["power"] != "on":
        raise LabError(
            f"{node} is switched off",
            f"labgrid-client -p {nodes[node]['place']} power on (with the LG_ lines of `pinet lab status`)",
        )
    if boot_s:
        await_ssh(node, nodes[node]["ssh"], boot_s)
    return [
        *("ssh", "-F", "none", "-i", found["environment"]["LG_KEYFILE"], "-p", str(nodes[node]["ssh"])),
        *ssh_options(),
        f"{nodes[node]['user']}@127.0.0.1",
        *command,
    ]


def await_ssh(node: str, port: int, timeout_s: float) -> None:
    """Wait until a node that was switched on has booted, so that its sshd greets. Raises LabError."""

    def greets() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as opened:
            return opened.recv(4) == b"SSH-"
        return False

    if not Deadline(timeout_s).wait_until(greets, 0.1):
        message = f"{node} is switched on, but did not answer over ssh within {timeout_s:.0f} s"
        raise LabError(message, f"look at the faults in `pinet lab status`, and at the console of {node}")
