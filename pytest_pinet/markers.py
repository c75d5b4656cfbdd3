"""The ``pinet`` marker: what it takes, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import WAYS, Limit, Origin
from pytest_pinet.model.quantities import parse_minimum
from pytest_pinet.model.topology import TOPOLOGIES

SIGNATURE = "pinet(board='*', nic='*', topology='pair', min=None)"
ARGUMENTS = ("board", "nic", "topology", "min")


@dataclass(frozen=True)
class Request:
    """What one test asks for: globs for each axis, and the limits that its marker sets."""

    boards: tuple[str, ...]
    nics: tuple[str, ...]
    topologies: tuple[str, ...]
    limits: tuple[Limit, ...]

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


def parse_limits(where: str, value: object, origin: Origin, source: str) -> list[Limit]:
    """Read ``min=``: a bit rate or share, or a mapping from direction to one. Raises ConfigError.

    Here ``tx`` and ``rx`` speak of whatever the test measures, one way or both ways at once.
    """
    per_direction: Mapping[object, object] = value if isinstance(value, Mapping) else {None: value}
    limits = []
    for way, minimum in per_direction.items():
        if way is not None and way not in WAYS:
            raise ConfigError(f"{where}: {unknown('direction', str(way), WAYS)}")
        if not isinstance(minimum, str):
            raise ConfigError(f"{where}: min={minimum!r}: expected a limit with a unit, such as '94%' or '2.3 Gbit/s'")
        try:
            parsed = parse_minimum(minimum)
        except ValueError as error:
            raise ConfigError(f"{where}: min: {error}") from None
        direction, both_ways = WAYS[str(way)] if way is not None else (None, None)
        limits.append(Limit(parsed, origin, source, direction=direction, both_ways=both_ways or None))
    return limits


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
    topologies = _globs(test, "topology", arguments.get("topology", "pair"))
    for topology in topologies:
        if topology not in TOPOLOGIES:
            raise ConfigError(f"{test}: {unknown('topology', topology, TOPOLOGIES)}")
    boards = _globs(test, "board", arguments.get("board", "*"))
    nics = _globs(test, "nic", arguments.get("nic", "*"))
    limits: list[Limit] = []
    if arguments.get("min") is not None:
        source = f"min={arguments['min']!r} of the marker"
        limits = parse_limits(test, arguments["min"], Origin.MARKER, source)
    return Request(boards, nics, topologies, tuple(limits))
