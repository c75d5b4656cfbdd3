"""Draws a lab as a tree of text: switches, their ports, and the other end of each cable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.model.lab import Lab, PortRef
from pytest_pinet.report.diagrams.columns import columns
from pytest_pinet.report.diagrams.labels import count, free_ports, nic, ranges, speed
from pytest_pinet.report.text_wrap import wrap

_MOST = (18, 10, 30)


def lab_text(lab: Lab, domains: Mapping[str, Sequence[str]]) -> list[str]:
    """Return lines of at most 80 columns. ``domains`` are the nodes of each contention domain."""
    lines = wrap(lab_summary(lab), hanging="  ")
    for switch in lab.switches.values():
        ports = count(len(switch.ports), "port")
        lines += ["", *wrap(f"switch {switch.name} ({switch.backend}, {ports})", hanging="  ")]
        lines += columns(_ports(lab, switch.name), _MOST, indent="|-- ", hanging="|   ")
        free = ranges(free_ports(lab, switch.name))
        lines += wrap("free: " + (", ".join(free) or "none"), indent="`-- ", hanging="    ")
    lines += ["", "contention domains, in each one measurement at a time:"] if domains else []
    for domain, members in domains.items():
        lines += wrap(f"{domain}: {domain_members(lab, members)}", indent="  ", hanging="    ")
    return lines


def lab_summary(lab: Lab) -> str:
    """Return ``lab virtual: 6 nodes with 11 interfaces, 1 switch; its values are emulated``."""
    parts = [
        f"{count(len(lab.nodes), 'node')} with {count(len(lab.interfaces()), 'interface')}",
        count(len(lab.switches), "switch", "switches"),
    ]
    parts += [count(len(lab.uplinks), "uplink")] if lab.uplinks else []
    return f"lab {lab.name}: {', '.join(parts)}; its values are {lab.figures}"


def domain_members(lab: Lab, members: Sequence[str]) -> str:
    """Return the nodes of a domain in words."""
    return "all nodes" if set(members) == set(lab.nodes) else ", ".join(members)


def _ports(lab: Lab, switch: str) -> list[tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for interface in lab.interfaces():
        if interface.port.switch == switch:
            board = lab.nodes[interface.node].board.name
            what = f"{board}, {nic(interface)}, {interface.device}"
            rows[interface.port.port] = (interface.port.port, speed(interface.speed_mbps), str(interface), what)
    for uplink in lab.uplinks.values():
        own = uplink.port_on(switch)
        if own is not None:
            (other,) = (port for port in uplink.ports if port != PortRef(switch, own))
            rows[own] = (own, speed(uplink.speed_mbps), str(other), f"uplink {uplink.name}")
    return [rows[port] for port in lab.switches[switch].ports if port in rows]
