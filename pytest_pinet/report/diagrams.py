"""Drawings of a lab, of the part that a combination uses, and of the matrix of combinations, as text in 80 columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Interface, Lab, Node, PortRef
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import CombinationId, MetricKey, metric_keys
from pytest_pinet.model.topology import Topology
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.text_wrap import WIDTH, blocks, columns, count, shorten, text_table, wrap, wrap_each

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
    ends = [combination.ends[number] for number in combination.topology.segments[index]]
    kept = any(end.interface == end.node.carrying for end in ends)
    usual = "the VLAN of the management" if kept else "a VLAN of its own"
    hows = grouped(
        ("fixed wiring" if lab.switches[name].is_wired_by_hand else usual, name)
        for name in switches(combination, index)
    )
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
    found = grouped(
        (node.management, node.name + (f" {node.carrying.device}" if node.carrying is not None else ""))
        for node in nodes
        if node.management is not None
    )
    return [f"management {way} ({', '.join(names)}): {way.cost}" for way, names in found.items()]


_ID_MOST = 30
POSSIBLE = {True: "ok", False: "-"}


@dataclass(frozen=True)
class MatrixEntry:
    """One cell of the matrix. If the lab cannot measure it, ``combination`` is None and ``reason`` says why."""

    identity: CombinationId
    combination: Combination | None
    reason: str | None = None

    @property
    def untuned(self) -> str:
        """Return the id without the tuning, which is too long for a table."""
        return str(replace(self.identity, tuning=""))

    @property
    def id(self) -> str:
        return str(self.identity)


def matrix_text(lab: Lab, entries: Sequence[MatrixEntry]) -> list[str]:
    """Return a grid if there are several topologies, then the lines of each entry; at most 80 columns."""
    rows = [(POSSIBLE[entry.combination is not None], entry.untuned, _what(entry, lab.limits)) for entry in entries]
    lines = columns([("", "combination", "interfaces, the one under test first"), *rows], (2, _ID_MOST))
    possible = sum(entry.combination is not None for entry in entries)
    total = f"lab {lab.name}: {possible} of {count(len(entries), 'combination')} possible"
    grid = _grid(entries)
    ways = management_lines(lab.nodes.values())
    return [*grid, *([""] if grid else []), *lines, "", *wrap_each([total, *ways], hanging="")]


def _grid(entries: Sequence[MatrixEntry]) -> list[str]:
    """Return a grid of board:NIC by topology; empty for a single topology or if wider than a terminal."""
    ids = {entry.identity: entry for entry in entries}
    topologies = list(dict.fromkeys(of.topology for of in ids))
    cells = {(f"{of.board}:{of.nic}", of.topology): entry.combination for of, entry in ids.items()}
    names = list(dict.fromkeys(name for name, _ in cells))
    rows = [["board:NIC", *topologies]]
    rows += [[name, *(POSSIBLE[cells.get((name, topology)) is not None] for topology in topologies)] for name in names]
    lines = text_table(rows, "<  " * len(rows[0]))
    return lines if len(topologies) > 1 and len(lines[0]) <= WIDTH else []


def _what(entry: MatrixEntry, limits: Sequence[Limit]) -> str:
    combination = entry.combination
    if combination is None:
        return entry.reason or "not possible"
    over = [uplink.name for segment in combination.uplinks for uplink in segment]
    ends = ", ".join(map(str, combination.ends)) + (f", over uplink {', '.join(over)}" if over else "")
    tuned = [f"tuned {entry.identity.tuning}"] if entry.identity.tuning else []
    return "\n".join([ends, *tuned, *(f"limit {line}" for line in held_lines(held(combination, limits)))])


def matrix_record(entry: MatrixEntry, limits: Sequence[Limit]) -> dict[str, object]:
    """Return a cell of the matrix as plain data.

    ``interfaces`` are in the order of the topology's ends; the first one is under test. ``management`` has the ways of
    management in the lab file, by node.
    """
    of, combination = entry.identity, entry.combination
    found = held(combination, limits) if combination else {}
    return {
        "id": entry.id,
        "board": of.board,
        "nic": of.nic,
        "topology": of.topology,
        "tuning": of.tuning,
        "nodes": list(dict.fromkeys(end.node.name for end in combination.ends)) if combination else [],
        "interfaces": [str(end) for end in combination.ends] if combination else [],
        "uplinks": [cable.name for segment in combination.uplinks for cable in segment] if combination else [],
        "places": list(combination.places) if combination else [],
        "management": {n.name: str(n.management) for n in combination.nodes if n.management} if combination else {},
        "limits": {str(way): {"min": str(limit.minimum), "source": limit.source} for way, limit in found.items()},
        "possible": combination is not None,
        "reason": entry.reason,
    }


RUNNERS = {"github": ("self-hosted", "network-lab"), "gitlab": ("network-lab",)}
# GitHub refuses larger matrices.
MOST_JOBS = 256


def job_matrix(form: str, entries: Sequence[MatrixEntry], runners: Sequence[str]) -> str:
    """Return one line of JSON, which is also YAML. Raises ConfigError if there is nothing to measure.

    For GitHub it is the value of ``strategy: matrix`` with the keys ``board`` and ``runner``, for GitLab the value of
    ``parallel: matrix`` with the variables BOARD and RUNNER.
    """
    labels = list(runners or RUNNERS[form])
    boards = list(dict.fromkeys(entry.identity.board for entry in entries if entry.combination is not None))
    if not boards:
        raise ConfigError("the lab can measure none of these combinations; 'pinet matrix' without --format says why")
    if len(boards) > MOST_JOBS:
        raise ConfigError(f"{len(boards)} boards are more than {MOST_JOBS} jobs; choose some with --board")
    if form == "github":
        return json.dumps({"include": [{"board": board, "runner": labels} for board in boards]}, separators=(",", ":"))
    if len(labels) > 1:
        raise ConfigError(f"--runner: {', '.join(labels)}: a variable of GitLab holds one tag; expected one --runner")
    return json.dumps([{"BOARD": boards, "RUNNER": labels}], separators=(",", ":"))
