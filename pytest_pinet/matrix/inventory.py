"""Lists what a lab can and cannot measure, and finds the combinations that a user names, by ID or by glob."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.execution.names import nearest
from pytest_pinet.matrix.endpoints import EndpointSelector
from pytest_pinet.matrix.expansion import Request, combinations
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.topology import KINDS, LARGEST, Topology, parse_topology
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.report.diagrams import MatrixEntry
from pytest_pinet.tuning.registry import parse_key

ALL = ("*",)
AS_IT_IS = (Tuning(),)
PAIR = parse_topology("pair")
FORM = "an id such as 'pi4b:onboard/pair' or a glob such as 'pi4b:*/pair'"


def entries(
    lab: Lab,
    topologies: Sequence[Topology],
    boards: Sequence[str] = ALL,
    nics: Sequence[str] = ALL,
    ends: EndpointSelector | None = None,
    tunings: Sequence[Tuning] = AS_IT_IS,
) -> list[MatrixEntry]:
    """Return board x NIC x topology x tuning of these globs, in the order of the lab file, chosen as for tests."""
    request = Request(tuple(boards), tuple(nics), tuple(topologies), (), tunings=tuple(tunings))
    return [
        MatrixEntry(cell.identity, cell)
        if isinstance(cell, Combination)
        else MatrixEntry(CombinationId.parse(cell.id), None, cell.reason)
        for cell in combinations(lab, request, ends)
    ]


def largest(lab: Lab, boards: Sequence[str] = ALL, nics: Sequence[str] = ALL) -> list[Topology]:
    """Return one topology of each kind: the largest that this lab can run, or the smallest if it can run none."""
    ends = EndpointSelector(lab)
    found = []
    for kind in KINDS:
        least = parse_topology(kind)
        _, colon, number = least.name.partition(":")
        sizes = range(LARGEST, int(number) - 1, -1) if colon else ()
        # No topology uses a node twice.
        fitting = (t for size in sizes if (t := parse_topology(f"{kind}:{size}")).nodes <= len(lab.nodes))
        able = (t for t in fitting if any(e.combination for e in entries(lab, [t], boards, nics, ends)))
        found.append(next(able, least))
    return found


def split_tuning(id_: str) -> tuple[str, Tuning]:
    """Split ``pi4b:onboard/pair/mtu=9000`` into the ID without a tuning, and the tuning. Raises ConfigError."""
    plain, _, key = id_.rpartition("/")
    if "/" not in plain or "=" not in key:
        return id_, Tuning()
    with mistake_in(repr(id_)):
        return plain, parse_key(key)


def combination(lab: Lab, id_: str) -> Combination:
    """Return the combination of this ID. Raises ConfigError with the nearest ID, or why this lab cannot run it."""
    id_, tuning = split_tuning(id_)
    name = id_.rpartition("/")[2]
    try:
        topologies = [parse_topology(name)]
    except ValueError:
        topologies = []
    for entry in entries(lab, topologies):
        if entry.id == id_ and entry.combination is None:
            raise ConfigError(f"lab {lab.name} cannot run {id_}: {entry.reason}")
        if entry.id == id_ and entry.combination is not None:
            return replace(entry.combination, tuning=tuning)
    known = [entry.id for entry in entries(lab, [*topologies, *largest(lab)])]
    near = nearest(id_, known)
    hint = f"did you mean '{near}'?" if near else f"ids look like '{known[0]}'"
    raise ConfigError(f"no combination {id_!r} in lab {lab.name}; {hint} ('pinet matrix --topology NAME' lists them)")


def select_combinations(lab: Lab, names: Sequence[str]) -> list[Combination]:
    """Return the combinations of these IDs and globs, each once; all pairs if there are none. Raises ConfigError."""
    if not names:
        found = [entry.combination for entry in entries(lab, [PAIR]) if entry.combination is not None]
        if not found:
            message = f"lab {lab.name} has no two nodes that reach each other: add a board"
            if not any(node.runner for node in lab.nodes.values()):
                message += ", or the machine that runs pytest as a node with `runner: true`"
            raise ConfigError(message)
        return found
    each = [_matching(lab, name) if set(name) & set("*?[") else [combination(lab, name)] for name in names]
    return list({one.id: one for group in each for one in group}.values())


def _matching(lab: Lab, glob: str) -> list[Combination]:
    """Return the possible combinations that match a glob. Impossible combinations are ignored."""
    glob, tuning = split_tuning(glob)
    if "/" not in glob:
        raise ConfigError(f"{glob!r} names no topology; expected {FORM}")
    topologies = [PAIR, *largest(lab)]
    # The topology can be a glob, too.
    with suppress(ValueError):
        topologies.append(parse_topology(glob.rpartition("/")[2]))
    cells = entries(lab, list(dict.fromkeys(topologies)))
    found = [e.combination for e in cells if e.combination is not None and fnmatchcase(e.id, glob)]
    if not found:
        able = [entry.id for entry in cells if entry.combination is not None]
        near = nearest(glob, able)
        hint = f"did you mean '{near}'?" if near else f"it has {', '.join(able[:3])} ..."
        raise ConfigError(f"no combination of lab {lab.name} matches {glob!r}; {hint} ('pinet matrix' lists them)")
    return [replace(one, tuning=tuning) for one in found]
