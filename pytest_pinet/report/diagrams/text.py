"""Draws a lab and a combination as text, in lines of at most 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.limits import most_specific
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Interface, Lab, Node, PortRef
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.management import Management
from pytest_pinet.model.metric_key import MetricKey, metric_keys
from pytest_pinet.model.topology import Topology
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.table import blocks, columns
from pytest_pinet.report.text_wrap import count, shorten, wrap

# The longest cells of each column except the last.
_MOST_OF_LAB = (18, 10, 30)
_MOST = (16, 10, 24)
_NAME_MOST = 34
ONE_WAY = "---->"
BOTH_WAYS = "<--->"
FORWARDED = "====>"
_NUMBERED = re.compile(r"(.*?)([1-9][0-9]*|0)")


def lab_text(lab: Lab, domains: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a tree of switches, ports and cables. ``domains`` are the nodes of each contention domain."""
    lines = wrap(lab_summary(lab), hanging="  ")
    for switch in lab.switches.values():
        ports = count(len(switch.ports), "port")
        lines += ["", *wrap(f"switch {switch.name} ({switch.backend}, {ports})", hanging="  ")]
        lines += columns(_ports(lab, switch.name), _MOST_OF_LAB, indent="|-- ", hanging="|   ")
        free = ranges(free_ports(lab, switch.name))
        lines += wrap("free: " + (", ".join(free) or "none"), indent="`-- ", hanging="    ")
    lines += ["", "contention domains (one measurement at a time in each):"] if domains else []
    for domain, members in domains.items():
        names = "all nodes" if set(members) == set(lab.nodes) else ", ".join(members)
        lines += wrap(f"{domain}: {names}", indent="  ", hanging="    ")
    return lines


def _ports(lab: Lab, switch: str) -> list[tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for interface in lab.interfaces():
        if interface.port.switch == switch:
            board = lab.nodes[interface.node].board.name
            what = f"{board}, {nic(interface)}, {interface.found_by}"
            rows[interface.port.port] = (interface.port.port, speed(interface.speed_mbps), str(interface), what)
    for uplink in lab.uplinks.values():
        own = uplink.port_on(switch)
        if own is not None:
            (other,) = (port for port in uplink.ports if port != PortRef(switch, own))
            rows[own] = (own, speed(uplink.speed_mbps), str(other), f"uplink {uplink.name}")
    return [rows[port] for port in lab.switches[switch].ports if port in rows]


def combination_text(lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str]) -> list[str]:
    """Return the groups of ports, their interfaces and flows. ``domains`` are the combination's contention domains."""
    lines = wrap(f"{combination.id} in lab {lab.name}", hanging="  ")
    lines += wrap(traffic(combination, direction), hanging="  ")
    lines += [*_groups(lab, combination), "", *_flows(combination, direction), ""]
    rows = [
        ("limit", "\n".join(held_lines(held(combination, lab.limits))) or "none"),
        ("leases", ", ".join(combination.places)),
        ("domains", f"{', '.join(domains)} (no other measurement runs there)" if domains else "none"),
    ]
    return lines + columns(rows, (7,))


def _groups(lab: Lab, combination: Combination) -> list[str]:
    rows = []
    for number, end in enumerate(combination.ends):
        interface = end.interface
        tested = ", under test" if number == 0 else ""
        what = f"{end.node.board.name}, {nic(interface)}, {interface.found_by}{tested}"
        rows.append((str(interface.port), speed(interface.speed_mbps), str(interface), what))
    # One table for all groups, so that their columns line up.
    table = blocks(rows, _MOST, indent="  |-- ", hanging="  |")
    lines = []
    for index, segment in enumerate(combination.topology.segments):
        lines += ["", *wrap(group(lab, combination, index), hanging="  ")]
        for number in segment:
            lines += table[number]
        for cable in combination.uplinks[index]:
            over = f"{cable.ports[0]} to {cable.ports[1]}, {speed(cable.speed_mbps)} ({cable.name})"
            lines += wrap(f"over uplink {over}", indent="  |-- ", hanging="  |   ")
    return lines


def _flows(combination: Combination, direction: Direction) -> list[str]:
    found = arrows(combination.topology, direction)
    names = shorten(map(str, combination.ends), _NAME_MOST)
    rows = [_flow(arrow, [names[str(combination.ends[end])] for end in arrow.path]) for arrow in found]
    lines = ["flows, all at once:" if len(rows) > 1 else "flow:", *columns(rows, (_NAME_MOST,), indent="  ")]
    if combination.topology.forwards:
        node = combination.dut.node.name
        lines += wrap(f"({FORWARDED} inside {node}, which forwards from one NIC to the other)", "  ", "  ")
    return lines


def _flow(arrow: FlowArrow, names: Sequence[str]) -> tuple[str, str]:
    first, *others = names
    between = [BOTH_WAYS if arrow.both else ONE_WAY, f"<{FORWARDED[:-1]}>" if arrow.both else FORWARDED]
    return first, " ".join(f"{between[index % 2]} {name}" for index, name in enumerate(others))


def speed(mbps: int) -> str:
    """Return a link speed: ``100 Mbit/s``, ``2.5 Gbit/s``."""
    return f"{mbps / 1000:g} Gbit/s" if mbps >= 1000 else f"{mbps} Mbit/s"


def ranges(ports: Iterable[str]) -> list[str]:
    """Return ports in the given order. Consecutive numbers are joined: ``p1-p4``."""
    runs: list[list[str]] = []
    for port in ports:
        if runs and _next(runs[-1][-1]) == port:
            runs[-1].append(port)
        else:
            runs.append([port])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _next(port: str) -> str | None:
    match = _NUMBERED.fullmatch(port)
    return f"{match[1]}{int(match[2]) + 1}" if match else None


def nic(interface: Interface) -> str:
    """Return chip and bus: ``ax88179 on usb3``."""
    return interface.nic.name if interface.bus is Bus.SOC else f"{interface.nic.name} on {interface.bus}"


def traffic(combination: Combination, direction: Direction) -> str:
    """Return the number of flows and their direction: ``5 flows at once, rx as seen from pi4b-1:onboard``."""
    flows = sum(len(run.direction.parts) for run in combination.topology.runs(direction))
    way = "both ways" if direction is Direction.BIDIR else f"{direction} as seen from {combination.dut}"
    return f"{count(flows, 'flow')}{' at once' if flows > 1 else ''}, {way}"


def switches(combination: Combination, segment: int) -> list[str]:
    """Return the switches of a segment: first the switch of its first end, then along the uplinks."""
    cables = combination.uplinks[segment]
    found = [combination.ends[combination.topology.segments[segment][0]].interface.port.switch]
    for here in found:
        for cable in cables:
            if cable.port_on(here) is not None:
                found += [port.switch for port in cable.ports if port.switch not in found]
    return found


def group(lab: Lab, combination: Combination, index: int) -> str:
    """Return how each switch connects a group of ports: ``group 1: a VLAN of its own on switch sw1``."""
    hows: dict[str, list[str]] = {}
    ends = [combination.ends[number] for number in combination.topology.segments[index]]
    kept = any(end.interface == end.node.carrying for end in ends)
    for name in switches(combination, index):
        fixed = "fixed wiring" if lab.switches[name].is_wired_by_hand else ""
        how = fixed or ("the VLAN of the management" if kept else "a VLAN of its own")
        hows.setdefault(how, []).append(name)
    wired = (f"{how} on switch{'' if len(names) == 1 else 'es'} {', '.join(names)}" for how, names in hows.items())
    return f"group {index + 1}: {'; '.join(wired)}"


def free_ports(lab: Lab, switch: str) -> list[str]:
    """Return the ports of a switch without a cable."""
    used = {interface.port for interface in lab.interfaces()}
    used |= {port for cable in lab.uplinks.values() for port in cable.ports}
    taken = {port.port for port in used if port.switch == switch}
    return [port for port in lab.switches[switch].ports if port not in taken]


def lab_summary(lab: Lab) -> str:
    """Return ``lab virtual: 6 nodes with 11 interfaces, 1 switch; its values are emulated``."""
    parts = [
        f"{count(len(lab.nodes), 'node')} with {count(len(lab.interfaces()), 'interface')}",
        count(len(lab.switches), "switch", "switches"),
    ]
    parts += [count(len(lab.uplinks), "uplink")] if lab.uplinks else []
    return f"lab {lab.name}: {', '.join(parts)}; its values are {lab.figures}"


@dataclass(frozen=True)
class FlowArrow:
    """One flow. ``path`` lists end numbers: the sender, the NICs that forward, the receiver.

    ``both`` means that the receiver sends at the same time.
    """

    path: tuple[int, ...]
    both: bool


def arrows(topology: Topology, direction: Direction) -> list[FlowArrow]:
    """Return one arrow per run of traffic. Raises ValueError if the topology does not support the direction."""
    found = []
    for run in topology.runs(direction):
        ends = (run.b, run.a) if run.direction is Direction.RX else (run.a, run.b)
        # In a chain all traffic between 3 and 1 goes through the NICs 2 and 0 of one node.
        inside = ((2, 0) if ends[0] == 3 else (0, 2)) if topology.forwards else ()
        found.append(FlowArrow((ends[0], *inside, ends[1]), run.direction is Direction.BIDIR))
    return found


def held(combination: Combination, limits: Sequence[Limit]) -> dict[Direction, Limit]:
    """Return the limits for the NIC under test, by direction.

    If the topology has no one-way direction, the limits apply to each direction of bidirectional traffic.
    """
    topology = combination.topology
    one_way = [way for way in (Direction.TX, Direction.RX) if way in topology.directions]
    keys = {way: MetricKey(combination.identity, Traffic(way), way) for way in one_way}
    # If flows share a NIC, the limit on their sum comes first.
    metrics = (Metric.SUM, Metric.GOODPUT) if topology.shared else (Metric.GOODPUT, Metric.SUM)
    found: dict[Direction, Limit] = {}
    for way, key in (keys or metric_keys(combination.identity, Traffic(Direction.BIDIR))).items():
        for metric in metrics:
            limit = most_specific(limits, key, metric)
            if limit is not None:
                found[way] = limit
                break
    return found


def held_lines(found: Mapping[Direction, Limit]) -> list[str]:
    """Return ``94% (lab/virtual.yaml:88)``, or one line per direction if limits differ. No lines without a limit."""
    limits = list(found.values())
    if len(limits) > 1 and limits.count(limits[0]) == len(limits):
        return [_line(limits[0])]
    return [f"{way} {_line(limit)}" for way, limit in found.items()]


def _line(limit: Limit) -> str:
    return f"{limit.minimum} ({limit.source})"


def management_lines(nodes: Iterable[Node]) -> list[str]:
    """Return a line for each way of management in the lab file: its nodes, and what it costs."""
    found: dict[Management, list[str]] = {}
    for node in nodes:
        if node.management is not None:
            shared = f" {node.carrying.device}" if node.carrying is not None else ""
            found.setdefault(node.management, []).append(node.name + shared)
    return [f"management {way} ({', '.join(names)}): {way.cost}" for way, names in found.items()]
