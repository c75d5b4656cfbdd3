"""Everything that a lab can and cannot measure, as ``pinet matrix`` and ``pinet graph`` show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.collect import combinations
from pytest_pinet.config.names import nearest
from pytest_pinet.ends import Ends
from pytest_pinet.errors import ConfigError
from pytest_pinet.markers import Request
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import KINDS, LARGEST, Topology, parse_topology
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.pictures.matrix import Entry
from pytest_pinet.tuning.registry import parse_key

ALL = ("*",)
AS_IT_IS = (Tuning(),)


def entries(
    lab: Lab,
    topologies: Sequence[Topology],
    boards: Sequence[str] = ALL,
    nics: Sequence[str] = ALL,
    ends: Ends | None = None,
    tunings: Sequence[Tuning] = AS_IT_IS,
) -> list[Entry]:
    """Board x NIC x topology x tuning, in the order of the lab file, by the same choice as tests get; globs must match.

    Whether a node can be tuned so is seen only when it is.
    """
    request = Request(tuple(boards), tuple(nics), tuple(topologies), (), tunings=tuple(tunings))
    found = []
    for cell in combinations(lab, request, ends):
        if isinstance(cell, Combination):
            found.append(Entry(cell.board, cell.nic, cell.topology.name, cell, tuning=cell.tuning.key))
        else:
            # Names hold neither colons nor slashes.
            board, _, rest = cell.id.partition(":")
            nic, _, topology = rest.partition("/")
            found.append(Entry(board, nic, topology, None, cell.reason))
    return found


def largest(lab: Lab, boards: Sequence[str] = ALL, nics: Sequence[str] = ALL) -> list[Topology]:
    """One topology of each kind: the largest that this lab can do, the least where it can do none."""
    ends = Ends(lab)
    found = []
    for kind in KINDS:
        least = parse_topology(kind)
        _, colon, number = least.name.partition(":")
        sizes = range(LARGEST, int(number) - 1, -1) if colon else ()
        # No topology takes a node twice.
        fitting = (t for size in sizes if (t := parse_topology(f"{kind}:{size}")).nodes <= len(lab.nodes))
        able = (t for t in fitting if any(e.combination for e in entries(lab, [t], boards, nics, ends)))
        found.append(next(able, least))
    return found


def split_tuning(id_: str) -> tuple[str, Tuning]:
    """``pi4b:onboard/pair/mtu=9000`` as the id of the same without a tuning, and the tuning. Raises ConfigError."""
    plain, _, key = id_.rpartition("/")
    if "/" not in plain or "=" not in key:
        return id_, Tuning()
    try:
        return plain, parse_key(key)
    except ValueError as error:
        raise ConfigError(f"{id_!r}: {error}") from None


def combination(lab: Lab, id_: str) -> Combination:
    """The combination of this id. Raises ConfigError with the nearest one, or why this lab cannot do it."""
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
