"""Draws a lab in DOT: switches in the middle, nodes on both sides, a cable from each interface to its port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from pytest_pinet.model.lab import Lab, Node, PortRef
from pytest_pinet.report.diagrams.dot import edge, graph, html, quoted
from pytest_pinet.report.diagrams.lab_text import domain_members, lab_summary
from pytest_pinet.report.diagrams.labels import count, free_ports, nic, ranges
from pytest_pinet.report.text_wrap import wrap

_FREE_WIDTH = 40


def lab_dot(lab: Lab, domains: Mapping[str, Sequence[str]]) -> str:
    """Return the DOT text. ``domains`` are the nodes of each contention domain."""
    facts = [lab_summary(lab).partition(": ")[2]]
    if domains:
        named = "; ".join(f"{name}: {domain_members(lab, members)}" for name, members in domains.items())
        facts.append(f"contention domains, in each one measurement at a time: {named}")
    left = _left(lab)
    body = [_node(node, lab, domains) for node in lab.nodes.values()]
    body += [_switch(lab, name, left) for name in lab.switches]
    for node in lab.nodes.values():
        for number, interface in enumerate(node.interfaces):
            end, port = f"{_node_id(node.name)}:i{number}", _port_id(lab, interface.port)
            # Graphviz puts the first end of an edge to the left of the second.
            ends = (f"{end}:e", f"{port}:w") if node.name in left else (f"{port}:e", f"{end}:w")
            body.append(edge(*ends, interface.speed_mbps))
    for uplink in lab.uplinks.values():
        one, other = sorted(uplink.ports, key=lambda port: list(lab.switches).index(port.switch))
        body.append(edge(f"{_port_id(lab, one)}:e", f"{_port_id(lab, other)}:w", uplink.speed_mbps, uplink.name))
    return graph(f"lab {lab.name}", facts, body)


def _left(lab: Lab) -> set[str]:
    """Return the nodes on the left side: for each switch the nodes with the first half of its cables."""
    found: set[str] = set()
    for switch in lab.switches:
        nodes = [node for node in lab.nodes.values() if node.interfaces[0].port.switch == switch]
        half, passed = sum(len(node.interfaces) for node in nodes) / 2, 0
        for node in nodes:
            if passed < half:
                found.add(node.name)
            passed += len(node.interfaces)
    return found


def _node_id(name: str) -> str:
    return quoted(f"node {name}")


def _switch_id(name: str) -> str:
    return quoted(f"switch {name}")


def _port_id(lab: Lab, port: PortRef) -> str:
    # Use numbers, because Graphviz reads a name such as `a:e` or `n` as a side of a box.
    return f"{_switch_id(port.switch)}:p{lab.switches[port.switch].ports.index(port.port)}"


def _node(node: Node, lab: Lab, domains: Mapping[str, Sequence[str]]) -> str:
    cells = [f"<td><b>{html(node.name)}</b>, {html(node.board.name)}</td>"]
    # A domain of all nodes appears only in the head.
    own = [name for name, members in domains.items() if node.name in members and set(members) != set(lab.nodes)]
    cells += [f"<td>domain {html(', '.join(own))}</td>"] if own else []
    for number, interface in enumerate(node.interfaces):
        what = f"{interface.name}: {nic(interface)}, {interface.device}"
        cells.append(f'<td port="i{number}" align="left">{html(what)}</td>')
    return f"{_node_id(node.name)} [{_table(cells)}]"


def _switch(lab: Lab, name: str, left: set[str]) -> str:
    """Return the table of a switch: ports of left nodes, of right nodes, of uplinks, then the free ports."""
    switch = lab.switches[name]
    columns: tuple[list[str], list[str]] = ([], [])
    for interface in lab.interfaces():
        if interface.port.switch == name:
            columns[interface.node not in left].append(interface.port.port)
    uplinks = [port for cable in lab.uplinks.values() if (port := cable.port_on(name)) is not None]
    free = wrap(f"free: {', '.join(ranges(free_ports(lab, name))) or 'none'}", width=_FREE_WIDTH)

    def cell(port: str | None, span: int = 1) -> str:
        number = "" if port is None else f' port="p{switch.ports.index(port)}"'
        return f'<td colspan="{span}"{number}>{html(port or "")}</td>'

    head = f"<b>switch {html(name)}</b><br/>{html(switch.backend)}, {count(len(switch.ports), 'port')}"
    rows = [f'<td colspan="2">{head}</td>']
    rows += [cell(one) + cell(other) for one, other in zip_longest(*columns)]
    rows += [cell(port, 2) for port in uplinks]
    rows.append(f'<td colspan="2">{"<br/>".join(map(html, free))}</td>')
    return f"{_switch_id(name)} [{_table(rows)}]"


def _table(rows: Sequence[str]) -> str:
    attributes = 'border="0" cellborder="1" cellspacing="0" cellpadding="5"'
    return f"shape=plain, label=<<table {attributes}>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>>"
