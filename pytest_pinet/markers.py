"""The ``pinet`` marker: what it takes, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import WAYS, Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate, Share, parse_fraction, parse_minimum
from pytest_pinet.model.topology import Topology, parse_topology

SIGNATURE = "pinet(board='*', nic='*', topology='pair', min=None, sum=None, share=None, fairness=None, reset=False)"
ARGUMENTS = ("board", "nic", "topology", "min", "sum", "share", "fairness", "reset")


@dataclass(frozen=True)
class Request:
    """What one test asks for: globs for boards and NICs, topologies, and the limits that its marker sets.

    ``reset``: the nodes are power-cycled before the test.
    """

    boards: tuple[str, ...]
    nics: tuple[str, ...]
    topologies: tuple[Topology, ...]
    limits: tuple[Limit, ...]
    reset: bool = False

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
    where: str, value: object, origin: Origin, source: str, metric: Metric = Metric.GOODPUT
) -> list[Limit]:
    """Read ``min=`` or ``sum=`` (a bit rate or share), ``share=`` or ``fairness=`` (a share). Raises ConfigError.

    Each may be a mapping from direction to one; ``tx`` and ``rx`` speak of whatever the test measures, one way or both
    ways at once.
    """
    per_direction: Mapping[object, object] = value if isinstance(value, Mapping) else {None: value}
    limits = []
    for way, minimum in per_direction.items():
        if way is not None and way not in WAYS:
            raise ConfigError(f"{where or metric}: {unknown('direction', str(way), WAYS)}")
        try:
            parsed = _minimum(minimum, metric)
        except ValueError as error:
            raise ConfigError(f"{where}: {metric}: {error}" if where else f"{metric}: {error}") from None
        direction, both_ways = WAYS[str(way)] if way is not None else (None, None)
        limits.append(Limit(parsed, origin, source, direction=direction, both_ways=both_ways or None, metric=metric))
    return limits


def _minimum(value: object, metric: Metric) -> Bitrate | Share:
    if metric in (Metric.SHARE, Metric.FAIRNESS):
        return parse_fraction(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a limit with a unit, such as '94%' or '2.3 Gbit/s', got {value!r}")
    return parse_minimum(value)


def read_marker(test: str, markers: Sequence[pytest.Mark]) -> Request:
    """The request of a test; the marker nearest to the function wins, argument by argument. Raises ConfigError."""
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
    reset = arguments.get("reset", False)
    if not isinstance(reset, bool):
        raise ConfigError(f"{test}: reset={reset!r} in the pinet marker: expected True or False")
    limits = [
        limit
        for metric in Metric
        if (value := arguments.get(metric.value)) is not None
        for limit in parse_limits(test, value, Origin.MARKER, f"{metric}={value!r} of the marker", metric)
    ]
    return Request(boards, nics, topologies, tuple(limits), reset)
