"""The request of a test, its expansion over a lab, and what a lab can and cannot measure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeVar

from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.execution.names import nearest
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.forms import cuts_management
from pytest_pinet.model.lab import Lab, names_of
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.topology import KINDS, LARGEST, Topology, parse_topology
from pytest_pinet.model.tuning import UNTUNED, Tuning
from pytest_pinet.report.diagrams import MatrixEntry
from pytest_pinet.tuning.registry import boot_part, in_order, parse_key, running_part

# Other characters would need quotes in test IDs, -k expressions and shells.
_UNSAFE = re.compile(r"[^A-Za-z0-9._+:/@-]")


@dataclass(frozen=True)
class Request:
    """The request of one test: globs for boards and NICs, topologies, tunings, and the limits of its marker.

    ``reset``: the nodes are power-cycled before the test. ``profile`` is a name of PROFILES (None: not requested).
    ``tuning_required``: a tuning that does not take effect ends the test. ``link_required``: a link that does not come
    up ends the test.
    """

    boards: tuple[str, ...]
    nics: tuple[str, ...]
    topologies: tuple[Topology, ...]
    limits: tuple[Limit, ...]
    reset: bool = False
    profile: str | None = None
    tunings: tuple[Tuning, ...] = (Tuning(),)
    tuning_required: bool = False
    link_required: bool = True

    def limits_for(self, combination: Combination) -> tuple[Limit, ...]:
        """Return the marker's limits for one combination.

        A board or NIC that the marker names without a wildcard makes its limits more exact than a pattern does.
        """

        def narrow(globs: tuple[str, ...], value: str) -> str:
            return "*" if any(set(glob) & set("*?[") for glob in globs) else value

        board, nic = narrow(self.boards, combination.board), narrow(self.nics, combination.nic)
        return tuple(replace(limit, scope=replace(limit.scope, board=board, nic=nic)) for limit in self.limits)


@dataclass(frozen=True)
class Missing:
    """A requested item that this lab does not have. ``id`` is part of the skipped test's ID."""

    id: str
    reason: str


@dataclass(frozen=True)
class CombinationCase:
    """The case of one parametrised test: a combination, and the request of its marker."""

    combination: Combination
    request: Request


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def combinations(lab: Lab, request: Request, ends: EndpointSelector | None = None) -> list[Combination | Missing]:
    """Return one combination for each matching board, NIC, topology and tuning, in the order of the lab file.

    If several nodes have the same board and NIC, the first one that can be used stands for all. Each pair of a board
    and a NIC of the request, also with wildcards, that matches nothing becomes a Missing. ``ends`` is a selector of
    this lab, for callers that have one.
    """
    chooser = ends or EndpointSelector(lab)
    found: dict[str, Combination | Missing] = {}
    for topology in request.topologies:
        for interface in lab.interfaces():
            node = lab.nodes[interface.node]
            if node.runner or not _matches(node.board.name, request.boards):
                continue
            if not any(_matches(name, request.nics) for name in names_of(interface)):
                continue
            id_ = f"{node.board.name}:{interface.label}/{topology}"
            if isinstance(found.get(id_), Combination):
                continue
            try:
                found[id_] = chooser.combination(interface, topology)
            except NotEnoughNodes as reason:
                found.setdefault(id_, Missing(id_, str(reason)))
        for missing in _missing(lab, request, topology):
            found.setdefault(missing.id, missing)
    return [one for cell in found.values() for one in _tuned(cell, request.tunings)]


def _tuned(cell: Combination | Missing, tunings: Sequence[Tuning]) -> list[Combination | Missing]:
    """Return one combination for each tuning. A missing combination is reported once, without tunings."""
    if isinstance(cell, Missing):
        return [cell]
    tuned = [replace(cell, tuning=tuning) for tuning in tunings]
    return [Missing(one.id, why) if (why := _cuts_management(one)) else one for one in tuned]


def _cuts_management(combination: Combination) -> str:
    """Return why a tuning would cut the management of a node; empty if it does not."""
    settings = in_order(dict(running_part(combination.tuning).settings))
    for setting in (one for one in settings if one.disruptive):
        for end in combination.ends if setting.where.everywhere else (combination.dut,):
            if end.interface == end.node.carrying:
                return cuts_management(setting.name, str(end))
    return ""


def _missing(lab: Lab, request: Request, topology: Topology) -> list[Missing]:
    boards = sorted({node.board.name for node in lab.nodes.values() if not node.runner})
    result = []
    for board in request.boards:
        there = [i for i in lab.interfaces() if fnmatchcase(lab.nodes[i.node].board.name, board)]
        there = [i for i in there if not lab.nodes[i.node].runner]
        for nic in request.nics:
            if any(fnmatchcase(name, nic) for i in there for name in names_of(i)):
                continue
            id_ = _UNSAFE.sub("any", f"{board}:{nic}/{topology}")
            what, kind, near, has = f"board {board!r}", "boards", nearest(board, boards), boards
            if there:
                what, kind = f"NIC {nic!r} on {what}", "NICs"
                near = nearest(nic, sorted({name for i in there for name in names_of(i)}))
                has = sorted({i.label for i in there})
            hint = f"nearest is {near!r}; " if near else ""
            result.append(Missing(id_, f"no {what} in lab {lab.name} ({hint}{kind}: {', '.join(has)})"))
    return result


def marker_name(axis: str, value: str) -> str:
    """Return the automatic marker of a board, NIC, topology or tuning: ``board_pi4b``, ``tuning_mtu_9000``."""
    return f"{axis}_{re.sub(r'[^A-Za-z0-9]', '_', value.replace('+', 'plus'))}"


def marker_names(combination: Combination, request: Request) -> dict[str, str]:
    """Return a combination's automatic markers with their meanings: one for each setting of its tuning."""
    axes = [("board", combination.board), ("nic", combination.nic), ("topology", combination.topology.name)]
    axes += [("tuning", f"{name}={value}") for name, value in combination.tuning.settings]
    if not combination.tuning and any(request.tunings):
        axes.append(("tuning", UNTUNED))
    return {marker_name(axis, value): f"{axis} {value}" for axis, value in axes}


T = TypeVar("T")


def fewest_boots(items: Sequence[T], case_of: Callable[[T], CombinationCase | None]) -> list[T]:
    """Return the tests with boot tunings last, and equal boot tunings together. Other tests keep their order."""
    groups: dict[tuple[str, str], int] = {}

    def rank(item: T) -> int:
        case = case_of(item)
        boot = boot_part(case.combination.tuning) if case is not None else None
        if case is None or not boot:
            return 0
        return groups.setdefault((case.combination.dut.node.place, boot.key), len(groups) + 1)

    return sorted(items, key=rank)


def selected(combination: Combination, axes: Mapping[str, Sequence[str]]) -> bool:
    """Return whether globs for board, nic, topology and tuning (empty: all) select a combination.

    A tuning matches by its key, by each of its settings (``mtu=9000``) and by their names; ``none`` means no tuning.
    """
    settings = combination.tuning.settings
    names = {
        "board": {combination.board},
        "nic": names_of(combination.dut.interface),
        "topology": {combination.topology.name, combination.topology.kind},
        "tuning": {str(combination.tuning), *(f"{name}={value}" for name, value in settings), *dict(settings)},
    }
    return all(not globs or any(_matches(name, globs) for name in names[axis]) for axis, globs in axes.items())


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
