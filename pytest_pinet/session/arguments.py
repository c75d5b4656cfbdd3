"""Reads the arguments of the marker and of gate calls, and the options that depend on the lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypedDict

import pytest

from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.matrix.expansion import Request
from pytest_pinet.model.lab import Lab, names_of
from pytest_pinet.model.limits import PART_FORM, WAYS, WORDS, Limit, Metric, Origin, Scope, parse_arguments, parse_limit
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Share, parse_duration, parse_size, parse_text
from pytest_pinet.model.topology import KINDS, all_names, parse_topology
from pytest_pinet.model.traffic import PathSetup
from pytest_pinet.model.tuning import UNTUNED
from pytest_pinet.session.option_table import PINET, profile_name
from pytest_pinet.tuning.registry import names, read_tunings

MARKER = "pinet"
ARGUMENTS = ("board", "nic", "topology", "tuning", *WORDS, "profile", "reset", "tuning_required", "link_required")


def nearest_arguments(
    test: str, marker: str, markers: Sequence[pytest.Mark], accepted: Sequence[str], signature: str
) -> dict[str, object]:
    """Return the arguments of these markers; for each argument, the marker nearest to the test counts.

    ``marker`` is the name of the marker, ``accepted`` are the names of its arguments. Raises ConfigError.
    """
    found: dict[str, object] = {}
    for one in reversed(markers):
        if one.args:
            raise ConfigError(f"{test}: the {marker} marker takes keywords only: {signature}")
        for name, value in one.kwargs.items():
            if name not in accepted:
                raise ConfigError(f"{test}: {unknown(f'argument of the {marker} marker', name, accepted)}: {signature}")
            found[name] = value
    return found


def globs_of(test: str, marker: str, name: str, value: object) -> tuple[str, ...]:
    """Return the globs of an argument of this marker. Raises ConfigError."""
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not values or not all(isinstance(v, str) and v for v in values):
        raise ConfigError(
            f"{test}: {name}={value!r} in the {marker} marker: expected a name or glob, or a list of them"
        )
    return tuple(dict.fromkeys(values))


def read_marker(test: str, markers: Sequence[pytest.Mark], where: Where | None = None) -> Request:
    """Return the request of a test. For each argument, the marker nearest to it counts. Raises ConfigError."""
    arguments = nearest_arguments(test, MARKER, markers, ARGUMENTS, PINET)
    with mistake_in(f"{test}: topology"):
        named = globs_of(test, MARKER, "topology", arguments.get("topology", "pair"))
        topologies = tuple(parse_topology(text) for text in named)
    boards = globs_of(test, MARKER, "board", arguments.get("board", "*"))
    nics = globs_of(test, MARKER, "nic", arguments.get("nic", "*"))
    usual = {"reset": False, "tuning_required": False, "link_required": True}
    reset, tuned, linked = (_switch(test, name, arguments.get(name, value)) for name, value in usual.items())
    with mistake_in(test):
        limits = parse_arguments(arguments, Origin.MARKER)
        profile = profile_name(str(arguments["profile"])) if arguments.get("profile") is not None else None
    with mistake_in(f"{test}: tuning", where):
        tunings = read_tunings(arguments.get("tuning", {}))
    return Request(boards, nics, topologies, tuple(limits), reset, profile, tunings, tuned, linked)


def _switch(test: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{test}: {name}={value!r} in the pinet marker: expected True or False")
    return value


# A rate or size is text with a unit; a duration may also be a number of seconds.
Rate = str
Size = str | int
Duration = str | int | float


def parse_path(family: int, path: object) -> PathSetup:
    """Return the setup of ``family=`` and ``path=`` of a gate call. Raises ConfigError, ValueError."""
    if path is None:
        return PathSetup(family)
    if not isinstance(path, Mapping) or not path or set(path) - {"delay", "loss", "vlan"}:
        raise ConfigError(f"path={path!r}: expected a mapping such as {{'delay': '20 ms', 'loss': '0.1%', 'vlan': 7}}")
    delay_s = parse_seconds("delay", path["delay"]) if "delay" in path else 0.0
    loss = parse_share("loss", path["loss"]) if "loss" in path else 0.0
    return PathSetup(family, delay_s, loss, path.get("vlan"))


class CallOptions(TypedDict, total=False):
    """What every call takes beside its limits: ``family`` of IP (4 or 6), ``path`` as in `parse_path`, ``profile``."""

    family: int
    path: Mapping[str, str | int] | None
    profile: str | None


class FlowOptions(CallOptions, total=False):
    """The limits of every measurement of goodput (``docs/reference/tests.md``). None is no limit.

    ``min`` and ``sum`` are a rate (``'2.3 Gbit/s'``) or a share of the physical limit (``'94%'``). ``share``,
    ``fairness``, ``tolerance``, ``cost_tolerance``, ``marginal`` and ``retransmits`` are shares; ``cpu`` is
    percent of a core for each Gbit/s, such as ``'140%'``. ``latency`` is a duration.
    ``max_drops`` is a number. Each limit except ``marginal`` can be a mapping from direction to value.
    """

    min: str | Mapping[str, str] | None
    sum: str | Mapping[str, str] | None
    share: str | float | Mapping[str, str | float] | None
    fairness: str | float | Mapping[str, str | float] | None
    tolerance: str | Mapping[str, object] | None
    cost_tolerance: str | Mapping[str, str] | None
    marginal: str | None
    retransmits: str | Mapping[str, str] | None
    latency: str | Mapping[str, str] | None
    cpu: str | Mapping[str, str] | None
    max_drops: int | Mapping[str, int] | None


class TrafficOptions(FlowOptions, total=False):
    """The limits of TCP, UDP and HTTP. ``loss`` is a share of datagrams, such as ``'0.1%'``."""

    loss: str | Mapping[str, str] | None


class FigureOptions(CallOptions, total=False):
    """The limits of all values beside goodput. ``tolerance`` is that below an accepted baseline."""

    tolerance: str | None
    marginal: str | None


class RateOptions(FigureOptions, total=False):
    """The limit of a rate, such as ``'8000/s'``: that of the call with the same name."""

    transactions: str | None
    connections: str | None
    packets: str | None


class PingOptions(FigureOptions, total=False):
    """The limits of pings."""

    loss: str | None
    latency: str | None


class LatencyOptions(FigureOptions, total=False):
    """The limits of probes: durations such as ``'5 ms'``, and a share such as ``'1%'``."""

    p50: str | None
    p90: str | None
    p99: str | None
    late: str | None


class IdleOptions(FigureOptions, total=False):
    """The limits around an idle time."""

    idle_loss: str | None
    first_answer: str | None
    first_second: str | None


def parse_seconds(name: str, value: Duration) -> float:
    """Read a duration, in seconds."""
    if isinstance(value, bool) or (isinstance(value, int | float) and not 0 <= value < float("inf")):
        raise ConfigError(f"{name}={value!r}: expected a number of seconds or text such as '10 s'")
    return parse_duration(value) if isinstance(value, str) else float(value)


def parse_silence(value: str | None, most_s: float) -> tuple[float, float]:
    """Read ``4 s in 90%``: the longest silence (s), and the share of flaps that may exceed it.

    A silence is measured for ``most_s``. None: so long, and 2%.
    """
    if value is None:
        return most_s, 0.02
    longest, word, share = value.partition(" in ") if isinstance(value, str) else ("", "", "")
    with suppress(ConfigError, ValueError):
        if word and (seconds := parse_duration(longest)) <= most_s:
            return seconds, parse_share("silence", f"{100 - Share.parse(share).fraction * 100:g}%")
    form = f"the longest silence (at most {most_s:g} s with this down) and its share of the flaps, such as '4 s in 90%'"
    raise ConfigError(f"silence={value!r}: expected {form}")


def parse_share(name: str, value: str) -> float:
    """Read a share from 0 to 1, less than 1."""
    with suppress(ValueError):
        if (found := Share.parse(parse_text(value, PART_FORM)).fraction) < 1:
            return found
    raise ConfigError(f"{name}={value!r}: expected {PART_FORM}, less than 100%")


def parse_octets(name: str, value: Size | None) -> int | None:
    """Read a size, in bytes."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, int) and value <= 0):
        raise ConfigError(f"{name}={value!r}: expected a number of bytes or text such as '64K'")
    return parse_size(value) if isinstance(value, str) else value


def parse_rate(value: Rate | None) -> Bitrate | None:
    """Read a bit rate."""
    return None if value is None else Bitrate.parse(value)


def parse_rising_rates(values: Sequence[Rate]) -> tuple[Bitrate, ...]:
    """Read the rates of a ladder. The lowest is the first."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigError(f"rates={values!r}: expected a list of rates such as ['100M', '200M']")
    return tuple(sorted({Bitrate.parse(value) for value in values}))


def with_requests(
    limits: tuple[Limit, ...], marked: Sequence[Limit], written: str, size: int, key: MetricKey
) -> tuple[Limit, ...]:
    """Add ``requests`` of ``size`` bytes as a minimum goodput, unless ``min`` of the call or the marker is higher."""
    number, slash, unit = written.partition("/") if isinstance(written, str) else ("", "", "")
    try:
        rate = Bitrate(float(number) * size * 8)
    except ValueError:
        rate = Bitrate(0.0)
    if not (slash and unit.strip() == "s" and 0 < rate.bps < float("inf")):
        raise ConfigError(f"requests={written!r}: expected a number for each second, such as '1200/s'")
    minimum = most_specific((*marked, *limits), key)
    if minimum is not None:
        if not isinstance(minimum.bound, Bitrate):
            message = f"requests={written!r} needs min= as a rate such as '80 Mbit/s', got a share ({minimum.source})"
            raise ConfigError(message)
        if minimum.bound >= rate:
            return limits
    here = key.combination
    source = f"requests={written!r} of the call, {size} bytes each"
    return (*limits, Limit(rate, Origin.CALL, source, Scope(here.board, here.nic, here.topology, key.direction)))


# The accepted forms, for each metric that has an option.
_FORMS = {
    Metric.GOODPUT: "'90%', '2.3 Gbit/s' or 'pi4b:*/pair=tx=700 Mbit/s'",
    Metric.TOLERANCE: "'3%', '3% and 20 Mbit/s' or 'pi4b:*/pair=tx=5%'",
    Metric.COST_TOLERANCE: "'10%' or 'pi4b:*/pair=tx=20%'",
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
