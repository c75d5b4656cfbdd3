"""Reads and checks settings that depend on the lab. ``origin`` names the place where a value was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from pytest_pinet.errors import ConfigError, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.lab import Lab, names_of
from pytest_pinet.model.limits import WAYS, Limit, Metric, Origin, Scope, parse_limit
from pytest_pinet.model.topology import KINDS, all_names
from pytest_pinet.model.tuning import UNTUNED
from pytest_pinet.tuning.registry import names

# The accepted forms, for each metric that has an option.
_FORMS = {
    Metric.GOODPUT: "'90%', '2.3 Gbit/s' or 'pi4b:*/pair=tx=700 Mbit/s'",
    Metric.TOLERANCE: "'3%', '3% and 20 Mbit/s' or 'pi4b:*/pair=tx=5%'",
}


def command_line_limits(
    texts: Sequence[str], lab: Lab | None, metric: Metric = Metric.GOODPUT, origin: str | None = None
) -> tuple[Limit, ...]:
    """Read the values of ``--pinet-min`` or ``--pinet-tolerance``: ``[BOARD:NIC/TOPOLOGY[=DIRECTION]=]LIMIT``.

    Raises ConfigError, also for a limit that matches nothing in the lab: without the error, a looser limit would judge.
    """
    return tuple(_limit(text, lab, metric, origin or f"--pinet-{metric}") for text in texts)


def _limit(text: str, lab: Lab | None, metric: Metric, option: str) -> Limit:
    *selectors, written = [part.strip() for part in text.split("=")]
    if len(selectors) == 1 and selectors[0] in WAYS:
        selectors = ["*", *selectors]
    if len(selectors) > 2:
        raise ConfigError(f"{option} {text!r}: expected {_FORMS[metric]}")
    board, _, rest = (selectors[0] if selectors else "*").partition(":")
    nic, _, topology = rest.partition("/")
    with mistake_in(f"{option} {text!r}"):
        scope = Scope(board or "*", nic or "*", topology or "*").facing(selectors[1] if len(selectors) == 2 else None)
        limit = parse_limit(metric, written, Origin.COMMAND_LINE, f"{option} {text}", scope)
    return limit if lab is None else _of_lab(limit, lab, f"{option} {text!r}")


def _of_lab(limit: Limit, lab: Lab, option: str) -> Limit:
    """Return the limit with the label of the NIC in place of any other name of the NIC. Raises ConfigError."""
    boards = {node.board.name for node in lab.nodes.values()}
    if not any(fnmatchcase(board, limit.scope.board) for board in boards):
        raise ConfigError(f"{option}: {unknown('board of this lab', limit.scope.board, boards)}")
    there = [i for i in lab.interfaces() if fnmatchcase(lab.nodes[i.node].board.name, limit.scope.board)]
    labels = {i.label for i in there if any(fnmatchcase(name, limit.scope.nic) for name in names_of(i))}
    if not labels:
        names = sorted({name for i in there for name in names_of(i)})
        raise ConfigError(f"{option}: {unknown('NIC of these boards', limit.scope.nic, names)}")
    if not any(fnmatchcase(topology, limit.scope.topology) for topology in all_names()):
        raise ConfigError(f"{option}: {unknown('topology', limit.scope.topology, KINDS)}")
    if all(fnmatchcase(label, limit.scope.nic) for label in labels):
        return limit
    if len(labels) > 1:
        raise ConfigError(f"{option}: {limit.scope.nic!r} means several NICs here: write {' or '.join(sorted(labels))}")
    return replace(limit, scope=replace(limit.scope, nic=labels.pop()))


def check_axes(axes: Mapping[str, Sequence[str]], lab: Lab, origin: Callable[[str], str]) -> None:
    """Raise ConfigError for a glob of ``--pinet-board``, ``-nic`` or ``-topology`` that matches nothing in the lab."""
    there = {
        "board": {node.board.name for node in lab.nodes.values()},
        "nic": {name for interface in lab.interfaces() for name in names_of(interface)},
        "topology": {*KINDS, *all_names()},
    }
    for axis, globs in axes.items():
        for glob in globs if axis in there else ():
            if not any(fnmatchcase(name, glob) for name in there[axis]):
                what, known = (axis, KINDS) if axis == "topology" else (f"{axis} of lab {lab.name}", there[axis])
                raise ConfigError(f"{origin(axis)}: {unknown(what, glob, known)}")


def check_tunings(globs: Sequence[str], origin: str = "--pinet-tuning") -> None:
    """Raise ConfigError for a ``--pinet-tuning`` with an unknown setting. Values are not checked: tests define them."""
    for glob in globs:
        for part in glob.split("+"):
            name = part.partition("=")[0]
            if name != UNTUNED and not any(fnmatchcase(known, name) for known in names()):
                raise ConfigError(f"{origin}: {unknown('tuning', name, (*names(), UNTUNED))}")
