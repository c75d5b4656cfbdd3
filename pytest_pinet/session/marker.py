"""Reads the ``pinet`` marker during collection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.profile import OTHER_WORDS, PROFILES
from pytest_pinet.matrix.expansion import Request
from pytest_pinet.model.limit_parser import WORDS, parse_arguments
from pytest_pinet.model.limits import Origin
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.tuning.registry import read_tunings

SIGNATURE = (
    "pinet(board='*', nic='*', topology='pair', tuning={}, min=None, sum, share, fairness, tolerance, marginal, "
    "retransmits, loss, latency, cpu, max_drops=None, profile=None, reset=False, tuning_required=False)"
)
ARGUMENTS = ("board", "nic", "topology", "tuning", *WORDS, "profile", "reset", "tuning_required")


def _globs(test: str, name: str, value: object) -> tuple[str, ...]:
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not values or not all(isinstance(v, str) and v for v in values):
        raise ConfigError(f"{test}: {name}={value!r} in the pinet marker: expected a name or glob, or a list of them")
    return tuple(dict.fromkeys(values))


def read_profile(where: str, value: object) -> str | None:
    """Return the name of a profile, or None for None. Raises ConfigError."""
    if value is None:
        return None
    if isinstance(value, str) and value in OTHER_WORDS:
        return OTHER_WORDS[value]
    if not isinstance(value, str) or value not in PROFILES:
        start = f"{where}: " if where else ""
        raise ConfigError(f"{start}{unknown('profile', str(value), PROFILES)}")
    return value


def read_marker(test: str, markers: Sequence[pytest.Mark], where: Where | None = None) -> Request:
    """Return the request of a test. For each argument, the marker nearest to it counts. Raises ConfigError."""
    arguments: dict[str, object] = {}
    for marker in reversed(markers):
        if marker.args:
            raise ConfigError(f"{test}: the pinet marker takes keywords only: {SIGNATURE}")
        for name, value in marker.kwargs.items():
            if name not in ARGUMENTS:
                raise ConfigError(f"{test}: {unknown('argument of the pinet marker', name, ARGUMENTS)}: {SIGNATURE}")
            arguments[name] = value
    with mistake_in(f"{test}: topology"):
        topologies = tuple(parse_topology(text) for text in _globs(test, "topology", arguments.get("topology", "pair")))
    boards = _globs(test, "board", arguments.get("board", "*"))
    nics = _globs(test, "nic", arguments.get("nic", "*"))
    reset, required = (_switch(test, name, arguments.get(name, False)) for name in ("reset", "tuning_required"))
    with mistake_in(test):
        limits = parse_arguments(arguments, Origin.MARKER)
    profile = read_profile(test, arguments.get("profile"))
    with mistake_in(f"{test}: tuning", where):
        tunings = read_tunings(arguments.get("tuning", {}))
    return Request(boards, nics, topologies, tuple(limits), reset, profile, tunings, required)


def _switch(test: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{test}: {name}={value!r} in the pinet marker: expected True or False")
    return value
