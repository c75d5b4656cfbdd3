"""Finds the NICs of a combination on their nodes when a link opens, and compares board and NICs with the lab file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.at_once import at_once
from pytest_pinet.execution.shell import Shell
from pytest_pinet.judge.hardware import Mismatch, compare_board, find, identify
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.hardware import FoundBoard
from pytest_pinet.model.lab import Interface, Node

# Among the facts of a node that hold until its next boot.
_KEY = "nics"


def with_found_nics(combination: Combination, sessions: Mapping[str, NodeSession]) -> Combination:
    """Return the combination with the devices that its NICs have now.

    If a node has other NICs than before, or other names for them, all that was known of the node since its boot is
    forgotten, because it was known by the names.

    Raises InvalidMeasurement for another board than the lab file's, and for a NIC that is gone, that has another driver
    or that is in another place: its values would stand under the wrong name.
    """
    names = [node.name for node in combination.nodes]
    boards = dict(zip(names, at_once(lambda name: _read(sessions[name]), names), strict=True))
    for node in combination.nodes:
        for one in compare_board(node, boards[node.name].model):
            raise _invalid(f"{node.where}: {node.name}", one)
    nodes = {node.name: with_devices(node, boards[node.name]) for node in combination.nodes}
    for end in combination.ends:
        for one in identify(end.node, end.interface, boards[end.node.name])[1]:
            raise _invalid(f"{end.interface.where}: {end.interface}", one)
    ends = (
        Endpoint(nodes[end.node.name], nodes[end.node.name].interface(end.interface.name)) for end in combination.ends
    )
    return replace(combination, ends=tuple(ends))


def _read(session: NodeSession) -> FoundBoard:
    board = read_board(session.shell)
    if session.facts.get(_KEY, board.identities) != board.identities:
        session.facts.clear()
    session.facts[_KEY] = board.identities
    return board


def _invalid(who: str, one: Mismatch) -> InvalidMeasurement:
    return InvalidMeasurement(f"{who}: {one.message}: not measured", one.act)


def with_devices(node: Node, board: FoundBoard) -> Node:
    """Return the node with the devices that its NICs have on this board. A NIC that is not found keeps its device."""

    def named(interface: Interface) -> Interface:
        nic = find(interface, board)
        return interface if isinstance(nic, Mismatch) else replace(interface, device=nic.device)

    return replace(node, interfaces=tuple(map(named, node.interfaces)))


def is_missing(node: Node, interface: Interface, shell: Shell) -> bool:
    """Return whether the node has no such NIC, or another driver uses it. Raises SshError."""
    return bool(identify(node, interface, read_board(shell))[1])
