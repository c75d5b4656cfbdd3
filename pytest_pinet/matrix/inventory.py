"""Lists everything that a lab can and cannot measure, for ``pinet matrix`` and ``pinet graph``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import nearest
from pytest_pinet.matrix.endpoints import EndpointSelector
from pytest_pinet.matrix.expansion import combinations
from pytest_pinet.matrix.request import Request
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import KINDS, LARGEST, Topology, parse_topology
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.report.diagrams.matrix import MatrixEntry
from pytest_pinet.tuning.registry import parse_key

ALL = ("*",)
AS_IT_IS = (Tuning(),)


def entries(
    lab: Lab,
    topologies: Sequence[Topology],
    boards: Sequence[str] = ALL,
    nics: Sequence[str] = ALL,
    ends: EndpointSelector | None = None,
    tunings: Sequence[Tuning] = AS_IT_IS,
) -> list[MatrixEntry]:
    """Return board x NIC x topology x tuning, in the order of the lab file, with the same choice as for tests.

    Boards and NICs must match the globs. Whether a node supports a tuning is known only when it is applied.
    """
    request = Request(tuple(boards), tuple(nics), tuple(topologies), (), tunings=tuple(tunings))
    found = []
    for cell in combinations(lab, request, ends):
        if isinstance(cell, Combination):
            found.append(MatrixEntry(cell.board, cell.nic, cell.topology.name, cell, tuning=cell.tuning.key))
        else:
            # Names contain neither colons nor slashes.
            board, _, rest = cell.id.partition(":")
            nic, _, topology = rest.partition("/")
            found.append(MatrixEntry(board, nic, topology, None, cell.reason))
    return found


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
    try:
        return plain, parse_key(key)
    except ValueError as error:
        raise ConfigError(f"{id_!r}: {error}") from None


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
            raise ConfigError(f"lab {lab.name} cannot do {id_}: {entry.reason}")
        if entry.id == id_ and entry.combination is not None:
            return replace(entry.combination, tuning=tuning)
    known = [entry.id for entry in entries(lab, [*topologies, *largest(lab)])]
    near = nearest(id_, known)
    hint = f"did you mean '{near}'?" if near else f"ids look like '{known[0]}'"
    raise ConfigError(f"no combination {id_!r} in lab {lab.name}; {hint} ('pinet matrix --topology all' lists them)")
