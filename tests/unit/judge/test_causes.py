"""Named causes are right: 100 mixed scenarios in random order, some of them with published values of real boards."""

from __future__ import annotations

import pytest

from pytest_pinet.model.diagnosis import Cause
from tests.support.cause_scenarios import Scenario, scenarios

ALL = scenarios()


def _wrong(some: list[Scenario]) -> list[str]:
    return [
        f"{one.name} ({one.source}): {found.cause} instead of {one.cause}: {found.text}"
        for one in some
        if (found := one.found()).cause is not one.cause
    ]


@pytest.mark.parametrize("seed", [18, 19, 20])
def test_at_least_95_of_100_causes_are_right(seed: int) -> None:
    mixed = scenarios(seed)
    wrong = _wrong(mixed)
    assert len(mixed) >= 100
    assert len(wrong) <= 0.05 * len(mixed), "\n".join(wrong)


@pytest.mark.parametrize("cause", list(Cause))
def test_each_cause_has_scenarios_and_is_found_in_them(cause: Cause) -> None:
    own = [one for one in ALL if one.cause is cause]
    assert own
    assert len(_wrong(own)) <= len(own) / 4, "\n".join(_wrong(own))
