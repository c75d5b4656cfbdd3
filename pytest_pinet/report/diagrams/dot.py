"""Draws a lab and a combination in DOT, the language of Graphviz."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import zip_longest

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node, PortRef
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.diagrams import text as facts
from pytest_pinet.report.text_wrap import count, plain, wrap

# Characters per line of the head.
_WIDTH = 90
_STYLE = (
    'graph [rankdir=LR, labelloc=t, labeljust=l, fontname="Helvetica", fontsize=13, nodesep=0.3, ranksep=1]',
    'node [shape=box, fontname="Helvetica", fontsize=12]',
    'edge [fontname="Helvetica", fontsize=11]',
)
_FREE_WIDTH = 40
# One colour per group of ports. With more groups the colours repeat.
_HUES = ("#0969da", "#1a7f37", "#8250df", "#bc4c00", "#0e7490", "#bf3989")


def lab_dot(lab: Lab, domains: Mapping[str, Sequence[str]]) -> str:
    """Return the DOT text. ``domains`` are the nodes of each contention domain."""
    head = [facts.lab_summary(lab).partition(": ")[2]]
    if domains:
        named = "; ".join(f"{name}: {facts.domain_members(lab, members)}" for name, members in domains.items())
        head.append(f"contention domains (one measurement at a time in each): {named}")
    left = _left(lab)
    body = [_node(node, lab, domains) for node in lab.nodes.values()]
    body += [_switch(lab, name, left) for name in lab.switches]
    for node in lab.nodes.values():
        for number, interface in enumerate(node.interfaces):
            end, port = f"{quoted(f'node {node.name}')}:i{number}", _port_id(lab, interface.port)
            # Graphviz puts the first end of an edge to the left of the second.
            ends = (f"{end}:e", f"{port}:w") if node.name in left else (f"{port}:e", f"{end}:w")
            body.append(edge(*ends, interface.speed_mbps))
    for uplink in lab.uplinks.values():
        one, other = sorted(uplink.ports, key=lambda port: list(lab.switches).index(port.switch))
        body.append(edge(f"{_port_id(lab, one)}:e", f"{_port_id(lab, other)}:w", uplink.speed_mbps, uplink.name))
    return graph(f"lab {lab.name}", head, body)


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


def _port_id(lab: Lab, port: PortRef) -> str:
    # Use numbers, because Graphviz reads a name such as `a:e` or `n` as a side of a box.
    return f"{quoted(f'switch {port.switch}')}:p{lab.switches[port.switch].ports.index(port.port)}"


def _node(node: Node, lab: Lab, domains: Mapping[str, Sequence[str]]) -> str:
    cells = [f"<td><b>{html(node.name)}</b>, {html(node.board.name)}</td>"]
    # A domain of all nodes appears only in the head.
    own = [name for name, members in domains.items() if node.name in members and set(members) != set(lab.nodes)]
    cells += [f"<td>domain {html(', '.join(own))}</td>"] if own else []
    for number, interface in enumerate(node.interfaces):
        what = f"{interface.name}: {facts.nic(interface)}, {interface.found_by}"
        cells.append(f'<td port="i{number}" align="left">{html(what)}</td>')
    return f"{quoted(f'node {node.name}')} [{_table(cells)}]"


def _switch(lab: Lab, name: str, left: set[str]) -> str:
    """Return the table of a switch: ports of left nodes, of right nodes, of uplinks, then the free ports."""
    switch = lab.switches[name]
    columns: tuple[list[str], list[str]] = ([], [])
    for interface in lab.interfaces():
        if interface.port.switch == name:
            columns[interface.node not in left].append(interface.port.port)
    uplinks = [port for cable in lab.uplinks.values() if (port := cable.port_on(name)) is not None]
    free = wrap(f"free: {', '.join(facts.ranges(facts.free_ports(lab, name))) or 'none'}", width=_FREE_WIDTH)

    def cell(port: str | None, span: int = 1) -> str:
        number = "" if port is None else f' port="p{switch.ports.index(port)}"'
        return f'<td colspan="{span}"{number}>{html(port or "")}</td>'

    head = f"<b>switch {html(name)}</b><br/>{html(switch.backend)}, {count(len(switch.ports), 'port')}"
    rows = [f'<td colspan="2">{head}</td>']
    rows += [cell(one) + cell(other) for one, other in zip_longest(*columns)]
    rows += [cell(port, 2) for port in uplinks]
    rows.append(f'<td colspan="2">{"<br/>".join(map(html, free))}</td>')
    return f"{quoted(f'switch {name}')} [{_table(rows)}]"


def _table(rows: Sequence[str]) -> str:
    attributes = 'border="0" cellborder="1" cellspacing="0" cellpadding="5"'
    return f"shape=plain, label=<<table {attributes}>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>>"


def combination_dot(lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str]) -> str:
    """Return the DOT text. ``domains`` are the contention domains that the combination measures in."""
    head = [f"lab {lab.name}: {facts.traffic(combination, direction)}"]
    head += [f"limit {line}" for line in facts.held_lines(facts.held(combination, lab.limits))]
    head.append(f"leases {', '.join(combination.places)}")
    head += [f"contention domains (no other measurement runs there): {', '.join(domains)}"] if domains else []
    body = [line for index in range(len(combination.topology.segments)) for line in _group(lab, combination, index)]
    return graph(combination.id, head, [*body, *_flows(combination, direction)])


def _group(lab: Lab, combination: Combination, index: int) -> Iterator[str]:
    """Yield a box with the ends of a group of ports, and with its switches if uplinks connect several."""
    label, hue = quoted(facts.group(lab, combination, index)), _HUES[index % len(_HUES)]
    yield f'subgraph "cluster group {index + 1}" {{ label={label}; color="{hue}"; fontcolor="{hue}"'
    for number in combination.topology.segments[index]:
        yield _end(combination, number)
    names = facts.switches(combination, index)
    ids = {name: quoted(f"group {index + 1} switch {name}") for name in names}
    if len(names) > 1:
        yield from (f"{ids[name]} [label={quoted(f'switch {name}')}]" for name in names)
    for cable in combination.uplinks[index]:
        one, other = sorted(cable.ports, key=lambda port: names.index(port.switch))
        yield edge(ids[one.switch], ids[other.switch], cable.speed_mbps, f"uplink {cable.name}: {one} to {other}")
    yield "}"


def _end(combination: Combination, number: int) -> str:
    end = combination.ends[number]
    interface = end.interface
    lines = [
        f"{interface}{', under test' if number == 0 else ''}",
        f"{end.node.board.name}, {facts.nic(interface)}, {interface.found_by}",
        f"{interface.port}, {facts.speed(interface.speed_mbps)}",
    ]
    fill = ', style=filled, fillcolor="#fff1c2"' if number == 0 else ""
    return f"{quoted(str(end))} [label={quoted(*lines)}{fill}]"


def _flows(combination: Combination, direction: Direction) -> Iterator[str]:
    """Yield an arrow for each part of each flow's path, in the colour of its group of ports."""
    for flow in facts.arrows(combination.topology, direction):
        ways = [(hop, False) for hop in flow.hops] + [(hop, True) for hop in flow.forwarded]
        for (sender, receiver), inside in ways:
            index = next(i for i, segment in enumerate(combination.topology.segments) if sender in segment)
            look = (
                f"style=dashed, label={quoted(f'forwarded inside {combination.ends[sender].node.name}')}"
                if inside
                else f'color="{_HUES[index % len(_HUES)]}"'
            )
            both = "dir=both, " if flow.both else ""
            yield f"{quoted(str(combination.ends[sender]))} -> {quoted(str(combination.ends[receiver]))} [{both}{look}]"


def quoted(*lines: str) -> str:
    """Return a DOT string. Several lines are left-aligned."""
    escaped = [plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return f'"{escaped[0]}"' if len(escaped) == 1 else '"' + "".join(f"{line}\\l" for line in escaped) + '"'


def html(text: str) -> str:
    """Return the text escaped for an HTML-like label."""
    return escape(plain(text))


def graph(title: str, said: Sequence[str], body: Iterable[str]) -> str:
    """Return a graph with a head: the title and what is ``said``, each wrapped."""
    head = [title, *(line for fact in said for line in textwrap.wrap(plain(fact), _WIDTH, break_on_hyphens=False)), ""]
    return "\n".join([f"digraph {quoted(title)} {{", *_STYLE, f"label={quoted(*head)}", *body, "}", ""])


def edge(one: str, other: str, mbps: int, name: str = "") -> str:
    """Return a cable between two ends, labelled with its speed. A faster cable is drawn wider."""
    label = quoted(", ".join(filter(None, (name, facts.speed(mbps)))))
    width = 1 if mbps < 1000 else 2 if mbps < 10_000 else 3.5
    return f'{one} -> {other} [dir=none, color="#59636e", penwidth={width}, label={label}]'
