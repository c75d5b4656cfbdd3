"""The ``pinet`` marker: what it takes, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.judge.profile import OTHER_WORDS, PROFILES
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limit_values import parse_bound, parse_marginal
from pytest_pinet.model.limits import WAYS, Limit, Metric, Origin
from pytest_pinet.model.quantities import Share
from pytest_pinet.model.tolerance import PARTS
from pytest_pinet.model.topology import Topology, parse_topology
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.registry import read_tunings

MARGINAL = "marginal"
LIMITS = (*(metric.value for metric in Metric), MARGINAL)
SIGNATURE = (
    "pinet(board='*', nic='*', topology='pair', tuning={}, min=None, sum, share, fairness, tolerance, marginal, "
    "retransmits, loss, latency, cpu=None, profile=None, reset=False, tuning_required=False)"
)
ARGUMENTS = ("board", "nic", "topology", "tuning", *LIMITS, "profile", "reset", "tuning_required")


@dataclass(frozen=True)
class Request:
    """What one test asks for: globs for boards and NICs, topologies, tunings, and the limits that its marker sets.

    ``reset``: the nodes are power-cycled before the test. ``profile`` is a name of PROFILES (None: none is asked for).
    ``tuning_required``: a tuning that does not hold ends the test.
    """

    boards: tuple[str, ...]
    nics: tuple[str, ...]
    topologies: tuple[Topology, ...]
    limits: tuple[Limit, ...]
    reset: bool = False
    profile: str | None = None
    tunings: tuple[Tuning, ...] = (Tuning(),)
    tuning_required: bool = False

    def limits_for(self, combination: Combination) -> tuple[Limit, ...]:
        """The marker's limits for one combination: an axis that it names without a wildcard counts as named."""

        def narrow(globs: tuple[str, ...], value: str) -> str:
            return "*" if any(set(glob) & set("*?[") for glob in globs) else value

        return tuple(
            replace(limit, board=narrow(self.boards, combination.board), nic=narrow(self.nics, combination.nic))
            for limit in self.limits
        )


def _globs(test: str, name: str, value: object) -> tuple[str, ...]:
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not values or not all(isinstance(v, str) and v for v in values):
        raise ConfigError(f"{test}: {name}={value!r} in the pinet marker: expected a name or glob, or a list of them")
    return tuple(dict.fromkeys(values))


def parse_limits(
    where: str,
    value: object,
    origin: Origin,
    source: str,
    metric: Metric = Metric.GOODPUT,
    marginal: Share | None = None,
) -> list[Limit]:
    """Read what stands behind ``min=`` or another metric's word (``parse_bound`` says what may). Raises ConfigError.

    Each may be a mapping from direction to one; ``tx`` and ``rx`` speak of whatever the test measures, one way or both
    ways at once.
    """
    by_direction = isinstance(value, Mapping) and not (metric is Metric.TOLERANCE and set(value) <= set(PARTS))
    per_direction: Mapping[object, object] = value if by_direction and isinstance(value, Mapping) else {None: value}
    limits = []
    for way, written in per_direction.items():
        if way is not None and way not in WAYS:
            kind, accepted = "direction", tuple(WAYS)
            if metric is Metric.TOLERANCE:
                kind, accepted = "part or direction", (*PARTS, *WAYS)
            raise ConfigError(f"{where or metric}: {unknown(kind, str(way), accepted)}")
        try:
            bound = parse_bound(metric, written)
        except ValueError as error:
            raise ConfigError(f"{where}: {metric}: {error}" if where else f"{metric}: {error}") from None
        direction, both_ways = WAYS[str(way)] if way is not None else (None, None)
        limits.append(
            Limit(
                bound,
                origin,
                source,
                direction=direction,
                both_ways=both_ways or None,
                metric=metric,
                marginal=marginal,
            )
        )
    return limits


def read_limits(where: str, given: Mapping[str, object], origin: Origin, written_in: str) -> list[Limit]:
    """All limits among keyword arguments, by their words; other arguments and None are passed over.

    ``written_in`` is what sources name (``the marker``). ``marginal`` is the band of all others. Raises ConfigError.
    """
    start = f"{where}: " if where else ""
    metrics = [metric for metric in Metric if given.get(metric.value) is not None]
    written, marginal = given.get(MARGINAL), None
    if written is not None:
        try:
            marginal = parse_marginal(written)
        except ValueError as error:
            raise ConfigError(f"{start}{MARGINAL}: {error}") from None
        if not metrics:
            accepted = ", ".join(metric.value for metric in Metric)
            raise ConfigError(f"{start}{MARGINAL}={written!r} is the band of no limit; expected one of {accepted} too")
    return [
        limit
        for metric in metrics
        for value in [given[metric.value]]
        for limit in parse_limits(where, value, origin, f"{metric}={value!r} of {written_in}", metric, marginal)
    ]


def read_profile(where: str, value: object) -> str | None:
    """The name of a profile, or None where none is asked for. Raises ConfigError."""
    if value is None:
        return None
    if isinstance(value, str) and value in OTHER_WORDS:
        return OTHER_WORDS[value]
    if not isinstance(value, str) or value not in PROFILES:
        start = f"{where}: " if where else ""
        raise ConfigError(f"{start}{unknown('profile', str(value), PROFILES)}")
    return value


def read_marker(test: str, markers: Sequence[pytest.Mark], where: Where | None = None) -> Request:
    """The request of a test; the marker nearest to the function wins, argument by argument. Raises ConfigError.

    ``where`` is the test's place in its file.
    """
    arguments: dict[str, object] = {}
    for marker in reversed(markers):
        if marker.args:
            raise ConfigError(f"{test}: the pinet marker takes keywords only: {SIGNATURE}")
        for name, value in marker.kwargs.items():
            if name not in ARGUMENTS:
                raise ConfigError(f"{test}: {unknown('argument of the pinet marker', name, ARGUMENTS)}: {SIGNATURE}")
            arguments[name] = value
    try:
        topologies = tuple(parse_topology(text) for text in _globs(test, "topology", arguments.get("topology", "pair")))
    except ValueError as error:
        raise ConfigError(f"{test}: topology: {error}") from None
    boards = _globs(test, "board", arguments.get("board", "*"))
    nics = _globs(test, "nic", arguments.get("nic", "*"))
    reset, required = (_switch(test, name, arguments.get(name, False)) for name in ("reset", "tuning_required"))
    limits = read_limits(test, arguments, Origin.MARKER, "the marker")
    profile = read_profile(test, arguments.get("profile"))
    try:
        tunings = read_tunings(arguments.get("tuning", {}))
    except ValueError as error:
        raise ConfigError(f"{test}: tuning: {error}", where) from None
    return Request(boards, nics, topologies, tuple(limits), reset, profile, tunings, required)


def _switch(test: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{test}: {name}={value!r} in the pinet marker: expected True or False")
    return value
