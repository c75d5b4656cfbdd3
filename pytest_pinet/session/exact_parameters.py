"""Parametrizes tests of exact gates: one test for each NIC that has an exact board."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_pinet.judge.exact import ExactLimits
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.exact_record import exact_combination
from pytest_pinet.session.exact_gate import ExactMode, chosen, read_marker
from pytest_pinet.session.settings import settings

FIXTURE = "pinet_exact_gate"
NO_BUILD = "an exact gate needs --pinet-exact and --pinet-build PATH, or: pinet gate --exact BUILD"


def parametrize(metafunc: pytest.Metafunc, mode_of: Callable[[], ExactMode | None]) -> None:
    """Add one parameter for each NIC of the marker and of ``--pinet-nic``. Raises ConfigError.

    ``mode_of`` makes the session, which a run without ``--pinet-exact`` does not need.
    """
    test = f"{metafunc.definition.path.name}::{metafunc.definition.name}"
    globs, _ = read_marker(test, list(metafunc.definition.iter_markers("exact")))
    found = settings(metafunc.config)
    mode = mode_of() if found["exact"] else None
    if mode is None:
        parameters = [pytest.param(None, id="no-build", marks=pytest.mark.skip(reason=NO_BUILD))]
    else:
        wanted = set(chosen(mode.nics, found["nic"], found.origin("nic")))
        parameters = [pytest.param(nic, id=nic) for nic in chosen(mode.nics, globs, test) if nic in wanted]
    if not parameters:
        reason = "--pinet-nic selects none of the NICs of this test"
        parameters = [pytest.param(None, id="no-nic", marks=pytest.mark.skip(reason=reason))]
    metafunc.parametrize(FIXTURE, parameters, indirect=True)


def limits_of(item: pytest.Item) -> ExactLimits:
    """Return the limits of the marker of a test. Raises ConfigError."""
    return read_marker(item.nodeid, list(item.iter_markers("exact")))[1]


def exact_identity(item: pytest.Item) -> CombinationId | None:
    """Return the combination of a test of an exact gate, before its first boot; None for every other test."""
    callspec = getattr(item, "callspec", None)
    nic = callspec.params.get(FIXTURE) if callspec is not None else None
    return None if nic is None else CombinationId.parse(exact_combination(nic).id)
