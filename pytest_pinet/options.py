"""Values of command line options that need reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Lab, names_of
from pytest_pinet.model.limit_values import parse_bound
from pytest_pinet.model.limits import WAYS, Limit, Metric, Origin
from pytest_pinet.model.topology import KINDS, all_names
from pytest_pinet.model.tuning import UNTUNED
from pytest_pinet.tuning.registry import NAMES

FORM = "'90%', '2.3 Gbit/s' or 'pi4b:*/pair=tx=700 Mbit/s'"
# What stands behind the options of the other metrics.
_FORMS = {
    Metric.GOODPUT: FORM,
    Metric.SUM: FORM,
    Metric.SHARE: "'90%' or 'pi4b:*/pair=tx=90%'",
    Metric.FAIRNESS: "'0.95' or 'pi4b:*/incast:*=95%'",
    Metric.TOLERANCE: "'3%', '3% and 20 Mbit/s' or 'pi4b:*/pair=tx=5%'",
    Metric.RETRANSMITS: "'0.1%' or 'pi4b:*/pair=tx=0.5%'",
    Metric.LOSS: "'0.5%' or 'pi4b:*/pair=rx=1%'",
    Metric.LATENCY: "'5 ms' or 'pi4b:*/pair=rx=2 ms'",
    Metric.CPU: "'40%' or 'pi4b:*/pair=tx=60%'",
}


def command_line_limits(texts: Sequence[str], lab: Lab | None, metric: Metric = Metric.GOODPUT) -> tuple[Limit, ...]:
    """Read every ``--pinet-min [BOARD:NIC/TOPOLOGY[=DIRECTION]=]LIMIT``; the options of other metrics bear their words.

    Raises ConfigError, also for a limit that matches nothing in the lab: dropped silently it would let a looser one
    judge.
    """
    return tuple(_limit(text, lab, metric) for text in texts)


def _limit(text: str, lab: Lab | None, metric: Metric) -> Limit:
    option = f"--pinet-{metric}"
    *selectors, written = [part.strip() for part in text.split("=")]
    if len(selectors) == 1 and selectors[0] in WAYS:
        selectors = ["*", *selectors]
    if len(selectors) > 2:
        raise ConfigError(f"{option} {text!r}: expected {_FORMS[metric]}")
    try:
        bound = parse_bound(metric, _number_of(written) if metric is Metric.FAIRNESS else written)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: {error}") from None
    direction, both_ways = None, None
    if len(selectors) == 2:
        if selectors[1] not in WAYS:
            raise ConfigError(f"{option} {text!r}: {unknown('direction', selectors[1], WAYS)}")
        direction, both_ways = WAYS[selectors[1]]
    board, _, rest = (selectors[0] if selectors else "*").partition(":")
    nic, _, topology = rest.partition("/")
    limit = Limit(
        bound,
        Origin.COMMAND_LINE,
        f"{option} {text}",
        board or "*",
        nic or "*",
        topology or "*",
        direction,
        both_ways,
        metric,
    )
    return limit if lab is None else _of_lab(limit, lab, f"{option} {text!r}")


def _number_of(text: str) -> object:
    """Jain's index may be a bare number, which a command line can only write as text."""
    try:
        return float(text)
    except ValueError:
        return text


def _of_lab(limit: Limit, lab: Lab, option: str) -> Limit:
    """The limit with the NIC's label for whatever name the user knows it by."""
    boards = {node.board.name for node in lab.nodes.values()}
    if not any(fnmatchcase(board, limit.board) for board in boards):
        raise ConfigError(f"{option}: {unknown('board of this lab', limit.board, boards)}")
    there = [i for i in lab.interfaces() if fnmatchcase(lab.nodes[i.node].board.name, limit.board)]
    labels = {i.label for i in there if any(fnmatchcase(name, limit.nic) for name in names_of(i))}
    if not labels:
        names = sorted({name for i in there for name in names_of(i)})
        raise ConfigError(f"{option}: {unknown('NIC of these boards', limit.nic, names)}")
    if not any(fnmatchcase(topology, limit.topology) for topology in all_names()):
        raise ConfigError(f"{option}: {unknown('topology', limit.topology, KINDS)}")
    if all(fnmatchcase(label, limit.nic) for label in labels):
        return limit
    if len(labels) > 1:
        raise ConfigError(f"{option}: {limit.nic!r} means several NICs here: write {' or '.join(sorted(labels))}")
    return replace(limit, nic=labels.pop())


def check_axes(axes: Mapping[str, Sequence[str]], lab: Lab, prefix: str = "--pinet-") -> None:
    """Refuse a glob of ``--pinet-board`` and its like that matches nothing in the lab. Raises ConfigError."""
    there = {
        "board": {node.board.name for node in lab.nodes.values()},
        "nic": {name for interface in lab.interfaces() for name in names_of(interface)},
        "topology": {*KINDS, *all_names()},
    }
    for axis, globs in axes.items():
        for glob in globs if axis in there else ():
            if axis == "topology" and not any(fnmatchcase(name, glob) for name in there[axis]):
                raise ConfigError(f"{prefix}{axis}: {unknown(axis, glob, KINDS)}")
            if not any(fnmatchcase(name, glob) for name in there[axis]):
                raise ConfigError(f"{prefix}{axis}: {unknown(f'{axis} of lab {lab.name}', glob, there[axis])}")


def check_tunings(globs: Sequence[str]) -> None:
    """Refuse a ``--pinet-tuning`` that names no setting: tests ask for tunings, so only names can be wrong.

    Raises ConfigError.
    """
    for glob in globs:
        for part in glob.split("+"):
            name = part.partition("=")[0]
            if name != UNTUNED and not any(fnmatchcase(known, name) for known in NAMES):
                raise ConfigError(f"--pinet-tuning: {unknown('tuning', name, (*NAMES, UNTUNED))}")
