"""What labgrid's coordinator and exporter read at their start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from pytest_pinet.virtual.spec import LabSpec, NodeSpec

EXPORTER = "pinet"


def places(spec: LabSpec) -> str:
    """``places.yaml`` of the coordinator: one place per node, tagged with what it is."""
    return yaml.safe_dump(
        {
            node.place: {
                "matches": [{"exporter": EXPORTER, "group": node.place, "cls": "*"}],
                "tags": {"board": node.board, "node": node.name, "nics": ",".join(i.name for i in node.interfaces)},
            }
            for node in spec.nodes
        }
    )


def exporter(spec: LabSpec, ports: Mapping[str, Any]) -> str:
    """The exporter's file; ``ports`` is what the daemon tells."""
    text = yaml.safe_dump({n.place: _resources(n, i, ports) for i, n in enumerate(spec.nodes, start=1)})
    # The exporter reads it as a Jinja template first; names of a lab file must not become code there.
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def environment(
    spec: LabSpec, coordinator: str, keyfile: str, password: str, ports: Mapping[str, Any]
) -> dict[str, str]:
    """The ``LG_*`` variables under which the lab file's ``!template`` entries find this lab."""
    variables = {"LG_COORDINATOR": coordinator, "LG_KEYFILE": keyfile, "LG_CONSOLE_PASSWORD": password}
    for switch in spec.switches:
        name = re.sub(r"[^A-Z0-9]", "_", switch.name.upper())
        variables[f"LG_SWITCH_{name}"] = f"ssh://root@127.0.0.1:{ports['switches'][switch.name]}"
    return variables


def _resources(node: NodeSpec, index: int, ports: Mapping[str, Any]) -> dict[str, Any]:
    own = ports["nodes"][node.name]
    pdu = f"http://127.0.0.1:{ports['pdu']}/relay/{{index}}/value"
    return {
        "NetworkPowerPort": {"model": "rest", "host": pdu, "index": index},
        "NetworkSerialPort": {"host": "127.0.0.1", "port": own["console"], "protocol": "raw"},
        "NetworkService": {"address": "127.0.0.1", "port": own["ssh"], "username": "root"},
        **{i.name: {"cls": "EthernetPort", "switch": i.switch, "interface": i.port} for i in node.interfaces},
    }
