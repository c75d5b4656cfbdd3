"""The status of a running virtual lab, for users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.lab import Scale
from pytest_pinet.virtual.launcher import PROCESSES
from pytest_pinet.virtual.processes import ProcessId
from pytest_pinet.virtual.runtime import Runtime

_SSH_OPTIONS = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")


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


def ssh_command(lab_file: str, node: str, command: Sequence[str]) -> list[str]:
    """Return the ssh command line that runs ``command`` in a node. Raises ConfigError, LabError if it is off."""
    found = status(lab_file)
    if found is None or not found["processes"]["daemon"]:
        raise LabError(f"the lab of {lab_file} is down", f"pinet lab up --lab {lab_file}")
    nodes = {entry["name"]: entry for entry in found["nodes"]}
    if node not in nodes:
        raise ConfigError(unknown("node", node, nodes))
    if nodes[node]["power"] != "on":
        raise LabError(
            f"{node} is switched off",
            f"labgrid-client -p {nodes[node]['place']} power on (with the LG_ lines of `pinet lab status`)",
        )
    return [
        *("ssh", "-F", "none", "-i", found["environment"]["LG_KEYFILE"], "-p", str(nodes[node]["ssh"])),
        *(word for option in _SSH_OPTIONS for word in ("-o", option)),
        f"{nodes[node]['user']}@127.0.0.1",
        *command,
    ]
