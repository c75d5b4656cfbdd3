"""The limits of a lab file, checked against what its interfaces can carry."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pytest_pinet.config.messages import named
from pytest_pinet.config.schema import LimitSection
from pytest_pinet.config.yaml_lines import Document, Path
from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.oracle import Oracle, highest_limit
from pytest_pinet.model.hardware import Hardware
from pytest_pinet.model.lab import Interface, Node
from pytest_pinet.model.limits import METRICS, Limit, Metric, Origin, Scope, parse_limit
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import KINDS, all_names, parse_topology


def resolve_limits(
    sections: Sequence[LimitSection], nodes: Sequence[Node], hardware: Hardware, document: Document
) -> tuple[Limit, ...]:
    """The limits in the order of the file. Raises ConfigError for one that can never match, or never be met."""
    return tuple(
        limit
        for index, section in enumerate(sections)
        for limit in _limits(section, nodes, hardware, document, ("pinet", "limits", index))
    )


def _limits(
    section: LimitSection, nodes: Sequence[Node], hardware: Hardware, document: Document, path: Path
) -> list[Limit]:
    """A limit for each metric that the entry names."""
    written = {metric: value for metric in Metric if (value := getattr(section, metric.value)) is not None}
    if not written:
        accepted = ", ".join(METRICS)
        raise ConfigError(f"this limit has no value; expected at least one of {accepted}", document.key(path))
    source = str(document.key(path))
    scope = Scope(section.board, hardware.nic_name(section.nic), section.topology).facing(section.direction)
    found = []
    for metric, value in written.items():
        at = (*path, metric.value)
        with mistake_in(named(at), document.value(at)):
            limit = parse_limit(metric, value, Origin.LAB_FILE, source, scope, section.marginal)
        matching = _matching(limit, nodes, document, path)
        if isinstance(limit.bound, Bitrate):
            everywhere = [interface for node in nodes for interface in node.interfaces]
            _check_bound(limit, limit.bound, matching, everywhere, document.value(at))
        found.append(limit)
    return found


def _matching(limit: Limit, nodes: Sequence[Node], document: Document, path: Path) -> list[Interface]:
    """The interfaces that the limit speaks of, or the name that speaks of none."""
    if not any(fnmatchcase(topology, limit.scope.topology) for topology in all_names()):
        raise ConfigError(unknown("topology", limit.scope.topology, KINDS), document.value((*path, "topology")))
    of_board = [node for node in nodes if fnmatchcase(node.board.name, limit.scope.board)]
    if not of_board:
        names = {node.board.name for node in nodes}
        message = f"this limit matches nothing in the lab: {unknown('board', limit.scope.board, names)}"
        raise ConfigError(message, document.value((*path, "board")))
    matching = [i for node in of_board for i in node.interfaces if fnmatchcase(i.label, limit.scope.nic)]
    if not matching:
        there = [interface for node in of_board for interface in node.interfaces]
        reason = unknown("NIC", limit.scope.nic, {interface.label for interface in there})
        if any(interface.nic.name == limit.scope.nic for interface in there):
            reason = f"'{limit.scope.nic}' is the onboard NIC of this board; write 'onboard'"
        message = f"this limit matches nothing in the lab: {reason}"
        raise ConfigError(message, document.value((*path, "nic")))
    return matching


def _check_bound(
    limit: Limit, bound: Bitrate, matching: Sequence[Interface], everywhere: Sequence[Interface], where: Where
) -> None:
    """Refuse a bit rate that no combination which the limit speaks of can reach."""
    both_ways = limit.scope.both_ways is True
    most, interface = max(((_oracle(i, both_ways), i) for i in matching), key=lambda found: found[0].goodput)
    possible = most.goodput
    what = f"{interface} carries at most {possible}{' each way' if both_ways else ''} ({most.because})"
    pairs = _pairs(limit) if limit.metric is Metric.SUM else 1
    if pairs > 1:
        # A pair is no faster than its slower end: of the others sorted by speed, every second one.
        others = sorted((_oracle(i, both_ways).goodput.bps for i in everywhere if i is not interface), reverse=True)
        counted = others[1::2][: pairs - 1]
        possible = Bitrate(possible.bps + sum(counted))
        if counted:
            what += f", and the {len(counted) + 1} fastest pairs of this lab carry {possible} together"
    if bound > possible:
        raise ConfigError(f"a limit of {bound} can never be met: {what}", where)


def _oracle(interface: Interface, both_ways: bool) -> Oracle:
    return highest_limit(interface.speed_mbps, interface.nic.mtu_max, interface.bus, both_ways)


def _pairs(limit: Limit) -> int:
    """How many NICs at most add to the sum that this limit speaks of: with shared NICs and chains it is one."""
    topologies = [parse_topology(name) for name in all_names() if fnmatchcase(name, limit.scope.topology)]
    return max(1 if t.shared or t.forwards else len(t.segments) for t in topologies)
