"""What is asked, times what the lab has: combinations, or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_pinet.config.names import nearest
from pytest_pinet.ends import Ends, NotEnough
from pytest_pinet.markers import Request
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, names_of
from pytest_pinet.model.topology import Topology

# What survives in test ids, -k expressions and shells without quoting.
_UNSAFE = re.compile(r"[^A-Za-z0-9._+:/@-]")


@dataclass(frozen=True)
class Missing:
    """Something was asked for that this lab does not have; ``id`` stands in the test id of the skipped test."""

    id: str
    reason: str


@dataclass(frozen=True)
class Case:
    """What one parametrised test stands for: a combination, and what its marker asked."""

    combination: Combination
    request: Request


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def combinations(lab: Lab, request: Request, ends: Ends | None = None) -> list[Combination | Missing]:
    """One combination for each board model, NIC and topology that matches, in the order of the lab file.

    Where several nodes have the same board and NIC the first one that can stands for all. Every board and NIC that is
    named without a wildcard and is not there becomes a Missing. ``ends`` chooses in this lab,
    for callers that keep it.
    """
    chooser = ends or Ends(lab)
    found: dict[str, Combination | Missing] = {}
    for topology in request.topologies:
        for interface in lab.interfaces():
            node = lab.nodes[interface.node]
            if not _matches(node.board.name, request.boards):
                continue
            if not any(_matches(name, request.nics) for name in names_of(interface)):
                continue
            id_ = f"{node.board.name}:{interface.label}/{topology}"
            if isinstance(found.get(id_), Combination):
                continue
            try:
                found[id_] = chooser.combination(interface, topology)
            except NotEnough as reason:
                found.setdefault(id_, Missing(id_, str(reason)))
        for missing in _missing(lab, request, topology):
            found.setdefault(missing.id, missing)
    return list(found.values())


def _missing(lab: Lab, request: Request, topology: Topology) -> list[Missing]:
    boards = sorted({node.board.name for node in lab.nodes.values()})
    result = []
    for board in request.boards:
        there = [i for i in lab.interfaces() if fnmatchcase(lab.nodes[i.node].board.name, board)]
        for nic in request.nics:
            if any(fnmatchcase(name, nic) for i in there for name in names_of(i)):
                continue
            id_ = _UNSAFE.sub("any", f"{board}:{nic}/{topology}")
            if not there:
                near = nearest(board, boards)
                hint = f"nearest is {near!r}; it" if near else "it"
                reason = f"no board {board!r} in lab {lab.name} ({hint} has {', '.join(boards)})"
            else:
                labels = sorted({i.label for i in there})
                near = nearest(nic, sorted({name for i in there for name in names_of(i)}))
                hint = f"nearest is {near!r}; " if near else ""
                reason = f"no NIC {nic!r} on board {board!r} in lab {lab.name} ({hint}it has {', '.join(labels)})"
            result.append(Missing(id_, reason))
    return result


def marker_name(axis: str, value: str) -> str:
    """The automatic marker of a combination's board, NIC or topology: ``board_pi4b``, ``nic_rtl8153``."""
    return f"{axis}_{re.sub(r'[^A-Za-z0-9]', '_', value.replace('+', 'plus'))}"


def selected(combination: Combination, axes: Mapping[str, Sequence[str]]) -> bool:
    """Whether a combination is among those that the globs for board, nic and topology (empty: all) choose."""
    names = {
        "board": {combination.board},
        "nic": names_of(combination.dut.interface),
        "topology": {combination.topology.name, combination.topology.kind},
    }
    return all(not globs or any(_matches(name, globs) for name in names[axis]) for axis, globs in axes.items())
