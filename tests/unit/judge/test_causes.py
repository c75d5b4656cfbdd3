"""Named causes are right: mixed scenarios in random order, some of them with published values of real boards."""

from __future__ import annotations

from functools import cache

import pytest

from pytest_pinet.model.diagnosis import Cause
from tests.support.cause_scenarios import Scenario
from tools.causes import PAGE, SEEDS, judged, page

mix = cache(judged)


def _wrong(some: list[tuple[Scenario, Cause]]) -> list[str]:
    return [f"{one.name} ({one.source}): {found} instead of {one.cause}" for one, found in some if found != one.cause]


@pytest.mark.parametrize("seed", SEEDS)
def test_at_least_95_of_100_causes_are_right(seed: int) -> None:
    wrong = _wrong(mix(seed))
    assert len(mix(seed)) >= 100
    assert len(wrong) <= 0.05 * len(mix(seed)), "\n".join(wrong)


@pytest.mark.parametrize("cause", list(Cause))
def test_each_cause_has_scenarios_and_is_found_in_them(cause: Cause) -> None:
    own = [(one, found) for one, found in mix(18) if one.cause is cause]
    assert own
    assert len(_wrong(own)) <= len(own) / 4, "\n".join(_wrong(own))


def test_the_page_has_the_count_and_each_wrong_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == page([one for seed in SEEDS for one in mix(seed)]), (
        "run: python -m tools.causes"
    )
