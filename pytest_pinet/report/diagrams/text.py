"""Draws a lab and a combination as text, in lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, PortRef
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.diagrams import facts
from pytest_pinet.report.text_wrap import plain, shorten, wrap

_GAP = "  "
# The longest cells of each column except the last.
_MOST_OF_LAB = (18, 10, 30)
_MOST = (16, 10, 24)
_NAME_MOST = 34
ONE_WAY = "---->"
BOTH_WAYS = "<--->"
FORWARDED = "====>"


def lab_text(lab: Lab, domains: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a tree of switches, ports and cables. ``domains`` are the nodes of each contention domain."""
    lines = wrap(facts.lab_summary(lab), hanging="  ")
    for switch in lab.switches.values():
        ports = facts.count(len(switch.ports), "port")
        lines += ["", *wrap(f"switch {switch.name} ({switch.backend}, {ports})", hanging="  ")]
        lines += columns(_ports(lab, switch.name), _MOST_OF_LAB, indent="|-- ", hanging="|   ")
        free = facts.ranges(facts.free_ports(lab, switch.name))
        lines += wrap("free: " + (", ".join(free) or "none"), indent="`-- ", hanging="    ")
    lines += ["", "contention domains (one measurement at a time in each):"] if domains else []
    for domain, members in domains.items():
        lines += wrap(f"{domain}: {facts.domain_members(lab, members)}", indent="  ", hanging="    ")
    return lines


def _ports(lab: Lab, switch: str) -> list[tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for interface in lab.interfaces():
        if interface.port.switch == switch:
            board = lab.nodes[interface.node].board.name
            what = f"{board}, {facts.nic(interface)}, {interface.found_by}"
            rows[interface.port.port] = (interface.port.port, facts.speed(interface.speed_mbps), str(interface), what)
    for uplink in lab.uplinks.values():
        own = uplink.port_on(switch)
        if own is not None:
            (other,) = (port for port in uplink.ports if port != PortRef(switch, own))
            rows[own] = (own, facts.speed(uplink.speed_mbps), str(other), f"uplink {uplink.name}")
    return [rows[port] for port in lab.switches[switch].ports if port in rows]


def combination_text(lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str]) -> list[str]:
    """Return the groups of ports, their interfaces and flows. ``domains`` are the combination's contention domains."""
    lines = wrap(f"{combination.id} in lab {lab.name}", hanging="  ")
    lines += wrap(facts.traffic(combination, direction), hanging="  ")
    lines += [*_groups(lab, combination), "", *_flows(combination, direction), ""]
    rows = [
        ("limit", "\n".join(facts.held_lines(facts.held(combination, lab.limits))) or "none"),
        ("leases", ", ".join(combination.places)),
        ("domains", f"{', '.join(domains)} (no other measurement runs there)" if domains else "none"),
    ]
    return lines + columns(rows, (7,))


def _groups(lab: Lab, combination: Combination) -> list[str]:
    rows = []
    for number, end in enumerate(combination.ends):
        interface = end.interface
        tested = ", under test" if number == 0 else ""
        what = f"{end.node.board.name}, {facts.nic(interface)}, {interface.found_by}{tested}"
        rows.append((str(interface.port), facts.speed(interface.speed_mbps), str(interface), what))
    # One table for all groups, so that their columns line up.
    table = blocks(rows, _MOST, indent="  |-- ", hanging="  |")
    lines = []
    for index, segment in enumerate(combination.topology.segments):
        lines += ["", *wrap(facts.group(lab, combination, index), hanging="  ")]
        for number in segment:
            lines += table[number]
        for cable in combination.uplinks[index]:
            over = f"{cable.ports[0]} to {cable.ports[1]}, {facts.speed(cable.speed_mbps)} ({cable.name})"
            lines += wrap(f"over uplink {over}", indent="  |-- ", hanging="  |   ")
    return lines


def _flows(combination: Combination, direction: Direction) -> list[str]:
    found = facts.arrows(combination.topology, direction)
    names = shorten(map(str, combination.ends), _NAME_MOST)
    rows = [_flow(arrow, [names[str(combination.ends[end])] for end in arrow.path]) for arrow in found]
    lines = ["flows, all at once:" if len(rows) > 1 else "flow:", *columns(rows, (_NAME_MOST,), indent="  ")]
    if combination.topology.forwards:
        node = combination.dut.node.name
        lines += wrap(f"({FORWARDED} inside {node}, which forwards from one NIC to the other)", "  ", "  ")
    return lines


def _flow(arrow: facts.FlowArrow, names: Sequence[str]) -> tuple[str, str]:
    first, *others = names
    between = [BOTH_WAYS if arrow.both else ONE_WAY, f"<{FORWARDED[:-1]}>" if arrow.both else FORWARDED]
    return first, " ".join(f"{between[index % 2]} {name}" for index, name in enumerate(others))


def columns(rows: Sequence[Sequence[str]], most: Sequence[int], indent: str = "", hanging: str = "") -> list[str]:
    """Return the lines of all ``blocks``."""
    return list(chain.from_iterable(blocks(rows, most, indent, hanging)))


def blocks(rows: Sequence[Sequence[str]], most: Sequence[int], indent: str = "", hanging: str = "") -> list[list[str]]:
    """Return the lines of each row. The last cell wraps below itself.

    ``most`` is the maximum width of each column except the last; longer cells are shortened but stay different. Line
    breaks in the last cell are kept. ``hanging`` replaces ``indent`` on continued lines.
    """
    tables = [shorten([plain(row[index]) for row in rows], limit) for index, limit in enumerate(most)]
    widths = [max((len(cell) for cell in table.values()), default=0) for table in tables]
    found = []
    for row in rows:
        cells = [tables[index][plain(cell)].ljust(widths[index]) for index, cell in enumerate(row[:-1])]
        head = indent + "".join(cell + _GAP for cell in cells)
        below = hanging.ljust(len(indent)) + " " * (len(head) - len(indent))
        lines: list[str] = []
        for part in row[-1].split("\n"):
            lines += [line.rstrip() for line in wrap(part, below if lines else head, below)]
        found.append(lines)
    return found
