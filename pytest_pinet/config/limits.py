"""The limits of a lab file, checked against what its interfaces can carry."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pytest_pinet.config.hardware import Hardware
from pytest_pinet.config.names import unknown
from pytest_pinet.config.schema import LimitSection
from pytest_pinet.config.yaml_lines import Document, Path
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.oracle import highest_limit
from pytest_pinet.model.lab import Interface, Node
from pytest_pinet.model.limits import WAYS, Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import KINDS, all_names


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
    minima = {metric: value for metric in Metric if (value := getattr(section, metric.value)) is not None}
    if not minima:
        accepted = ", ".join(metric.value for metric in Metric)
        raise ConfigError(f"this limit limits nothing; expected at least one of {accepted}", document.key(path))
    direction, both_ways = (None, None) if section.direction is None else WAYS[section.direction]
    found = []
    for metric, minimum in minima.items():
        limit = Limit(
            minimum=minimum,
            origin=Origin.LAB_FILE,
            source=str(document.key(path)),
            board=section.board,
            nic=hardware.nic_name(section.nic),
            topology=section.topology,
            direction=direction,
            both_ways=both_ways,
            metric=metric,
        )
        matching = _matching(limit, nodes, document, path)
        if metric is Metric.GOODPUT and isinstance(minimum, Bitrate):
            _check_bound(minimum, matching, document, path)
        found.append(limit)
    return found


def _matching(limit: Limit, nodes: Sequence[Node], document: Document, path: Path) -> list[Interface]:
    """The interfaces that the limit speaks of, or the name that speaks of none."""
    if not any(fnmatchcase(topology, limit.topology) for topology in all_names()):
        raise ConfigError(unknown("topology", limit.topology, KINDS), document.value((*path, "topology")))
    of_board = [node for node in nodes if fnmatchcase(node.board.name, limit.board)]
    if not of_board:
        names = {node.board.name for node in nodes}
        message = f"this limit matches nothing in the lab: {unknown('board', limit.board, names)}"
        raise ConfigError(message, document.value((*path, "board")))
    matching = [i for node in of_board for i in node.interfaces if fnmatchcase(i.label, limit.nic)]
    if not matching:
        there = [interface for node in of_board for interface in node.interfaces]
        reason = unknown("NIC", limit.nic, {interface.label for interface in there})
        if any(interface.nic.name == limit.nic for interface in there):
            reason = f"'{limit.nic}' is the board's own NIC there; write 'onboard'"
        message = f"this limit matches nothing in the lab: {reason}"
        raise ConfigError(message, document.value((*path, "nic")))
    return matching


def _check_bound(minimum: Bitrate, matching: Sequence[Interface], document: Document, path: Path) -> None:
    bounds = [(highest_limit(i.speed_mbps, i.nic.mtu_max, i.bus), i) for i in matching]
    oracle, interface = max(bounds, key=lambda bound: bound[0].goodput)
    if minimum > oracle.goodput:
        bound = f"{interface} carries at most {oracle.goodput} ({oracle.because})"
        message = f"a limit of {minimum} can never be met: {bound}"
        raise ConfigError(message, document.value((*path, "min")))
