"""The exact boards of a lab file are its nodes with ``clock: exact``. The default is the packaged lab ``exact``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError
from pytest_pinet.exact.board import NICS, PARTS, ExactBoard, ExactMachine
from pytest_pinet.model.lab import EXACT, Node

DEFAULT = "exact"


def exact_boards(lab: str = DEFAULT) -> Mapping[str, ExactBoard]:
    """Return the exact boards of a lab file, or of a packaged lab, by the name of their node. Raises ConfigError."""
    found = load(lab, in_use=False)
    boards = {node.name: _board(node) for node in found.nodes.values() if node.clock == EXACT}
    if not boards:
        raise ConfigError(
            f"{found.file} has no exact board, which is a node with 'clock: {EXACT}'; without a lab file, the boards "
            f"of the packaged lab '{DEFAULT}' are used"
        )
    return boards


def _board(node: Node) -> ExactBoard:
    """Return the board of a node, which the reader of lab files has checked. Raises ConfigError for its parts."""
    first, *others = node.interfaces
    if others:
        raise ConfigError(
            f"node '{node.name}' is an exact board (clock: {EXACT}); expected one interface, whose NIC QEMU connects "
            "with a second one of its kind",
            others[0].where,
        )
    for machine, nics in PARTS.items():
        if machine.name == node.machine and first.nic.name in nics and NICS[first.nic.name].driver == first.nic.driver:
            return ExactBoard(node.name, _with_cores(machine, node), NICS[first.nic.name])
    ways = "; ".join(f"{machine.name} with {', '.join(nics)}" for machine, nics in PARTS.items())
    raise ConfigError(
        f"node '{node.name}': no exact board is {node.machine} with NIC {first.nic.name} and driver "
        f"{first.nic.driver}; accepted: {ways}",
        node.where,
    )


def _with_cores(machine: ExactMachine, node: Node) -> ExactMachine:
    if (cores := node.board.cores) not in (1, 2):
        raise ConfigError(
            f"board '{node.board.name}' of node '{node.name}' has {cores} cores; an exact board has 1 or 2", node.where
        )
    return replace(machine, processors=cores)
