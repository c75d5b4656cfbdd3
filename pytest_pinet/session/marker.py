"""Reads the ``pinet`` marker during collection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.names import unknown
from pytest_pinet.judge.profile import OTHER_WORDS, PROFILES
from pytest_pinet.matrix.expansion import Request
from pytest_pinet.model.limits import WORDS, Origin, parse_arguments
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.tuning.registry import read_tunings

MARKER = "pinet"
SIGNATURE = (
    "pinet(board='*', nic='*', topology='pair', tuning={}, min=None, sum, share, fairness, tolerance, marginal, "
    "retransmits, loss, latency, cpu, max_drops=None, profile=None, reset=False, tuning_required=False)"
)
ARGUMENTS = ("board", "nic", "topology", "tuning", *WORDS, "profile", "reset", "tuning_required")


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
    arguments = nearest_arguments(test, MARKER, markers, ARGUMENTS, SIGNATURE)
    with mistake_in(f"{test}: topology"):
        named = globs_of(test, MARKER, "topology", arguments.get("topology", "pair"))
        topologies = tuple(parse_topology(text) for text in named)
    boards = globs_of(test, MARKER, "board", arguments.get("board", "*"))
    nics = globs_of(test, MARKER, "nic", arguments.get("nic", "*"))
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
