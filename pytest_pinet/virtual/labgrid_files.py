"""The configuration files of labgrid's coordinator and exporter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from pytest_pinet.model.lab import PortRef
from pytest_pinet.virtual.spec import REST, SHELLY, LabSpec, NodeSpec

EXPORTER = "pinet"


def places(spec: LabSpec) -> str:
    """Return ``places.yaml`` of the coordinator: one place per node and uplink, with tags that describe it."""
    tags = {
        node.place: {"board": node.board.name, "node": node.name, "nics": ",".join(i.name for i in node.interfaces)}
        for node in spec.lab.nodes.values()
    }
    tags |= {uplink.place: {"uplink": uplink.name} for uplink in spec.lab.uplinks.values()}
    return yaml.safe_dump(
        {
            place: {"matches": [{"exporter": EXPORTER, "group": place, "cls": "*"}], "tags": own}
            for place, own in tags.items()
        }
    )


def exporter(spec: LabSpec, ports: Mapping[str, Any]) -> str:
    """Return the exporter's configuration. ``ports`` is the content of the daemon's ``ports.json``."""
    groups = {n.node.place: _resources(n, i, ports) for i, n in enumerate(spec.nodes, start=1)}
    for uplink in spec.lab.uplinks.values():
        groups[uplink.place] = {end.switch: _ethernet_port(end) for end in uplink.ports}
    text = yaml.safe_dump(groups)
    # The exporter first reads the file as a Jinja template. Names from a lab file must not be run as code there.
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def environment(
    spec: LabSpec, coordinator: str, keyfile: str, password: str, ports: Mapping[str, Any]
) -> dict[str, str]:
    """Return the ``LG_*`` variables by which the lab file's ``!template`` entries find this lab."""
    variables = {"LG_COORDINATOR": coordinator, "LG_KEYFILE": keyfile, "LG_CONSOLE_PASSWORD": password}
    for switch in spec.lab.switches.values():
        name = re.sub(r"[^A-Z0-9]", "_", switch.name.upper())
        variables[f"LG_SWITCH_{name}"] = f"ssh://root@127.0.0.1:{ports['switches'][switch.name]}"
    return variables


def _resources(own_spec: NodeSpec, index: int, ports: Mapping[str, Any]) -> dict[str, Any]:
    node = own_spec.node
    own = ports["nodes"][node.name]
    return {
        "NetworkPowerPort": _outlet(own_spec, index, ports),
        "NetworkSerialPort": {"host": "127.0.0.1", "port": own["console"], "protocol": "raw"},
        "NetworkService": {"address": "127.0.0.1", "port": own["ssh"], "username": node.user},
        **{i.name: _ethernet_port(i.port) for i in node.interfaces},
    }


def _ethernet_port(port: PortRef) -> dict[str, str]:
    return {"cls": "EthernetPort", "switch": port.switch, "interface": port.port}


def _outlet(node: NodeSpec, index: int, ports: Mapping[str, Any]) -> dict[str, Any]:
    pdu = f"http://127.0.0.1:{ports['pdu']}"
    if node.node.outlet == SHELLY:
        return {"model": SHELLY, "host": pdu, "index": index}
    return {"model": REST, "host": f"{pdu}/relay/{{index}}/value", "index": index}
