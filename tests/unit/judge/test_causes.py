"""Named causes are right: mixed scenarios in random order, some of them with goodputs published for real boards."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest

from pytest_pinet.judge import causes_in_flow, causes_in_link
from pytest_pinet.model.evidence import Cause
from tests.support.cause_scenario import Scenario
from tests.support.cause_scenarios import scenarios
from tools.causes import PAGE, SEEDS, judged, page

mix = cache(judged)
mixed = cache(scenarios)


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


# A cause is named from its evidence; "nothing decisive" is what remains.
NAMED = [cause for cause in Cause if cause is not Cause.NOTHING]


@pytest.mark.parametrize("cause", NAMED)
def test_each_cause_has_a_negative_control_and_all_controls_are_right(cause: Cause) -> None:
    controls = [(one, found) for seed in SEEDS for one, found in mix(seed) if one.control_of is cause]
    assert {one.name for one, _ in controls}
    assert cause not in {one.cause for one, _ in controls}
    assert _wrong(controls) == []


# A rule that asks for less names its cause in a control of this cause: so near are the controls.
LAX: list[tuple[Cause, ModuleType, str, float]] = [
    (Cause.LINE_RATE, causes_in_link, "LINE_RATE", 0.9),
    (Cause.SENDER, causes_in_link, "PACING", 0.5),
    (Cause.LINK, causes_in_link, "SLOW_LINK", 0.4),
    (Cause.POWER, causes_in_link, "CLOCK_KEPT", 1.0),
    (Cause.USB, causes_in_link, "USB2_LEAST", 0.15),
    (Cause.USB, causes_in_link, "USB_SHARED_MOST", 1.5),
    (Cause.PCIE, causes_in_link, "PCIE_MODEL", 0.6),
    (Cause.CPU, causes_in_link, "BUSY", 0.85),
    (Cause.IRQ, causes_in_link, "MOSTLY_INTERRUPTS", 0.05),
    (Cause.OTHERS, causes_in_link, "OTHERS", 0.02),
    (Cause.OTHERS, causes_in_link, "STOLEN", 0.005),
    (Cause.OTHERS, causes_in_link, "NEARLY_BUSY", 0.4),
    (Cause.PEER, causes_in_link, "BUSY", 0.85),
    (Cause.PEER, causes_in_link, "CEILING", 0.1),
    (Cause.WINDOW, causes_in_flow, "WAITING", 0.2),
    (Cause.LOSS, causes_in_flow, "LOST_LEAST", 0.00001),
    (Cause.SHAPER, causes_in_flow, "WELL_BELOW", 0.99),
]


@pytest.mark.parametrize(("cause", "module", "threshold", "value"), LAX)
def test_a_lax_rule_fails_a_control_of_its_cause(
    cause: Cause, module: ModuleType, threshold: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, threshold, value)
    assert cause in {one.found().cause for one in mixed(18) if one.control_of is cause}


def test_the_page_has_the_count_and_each_wrong_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == page([one for seed in SEEDS for one in mix(seed)]), (
        "run: python -m tools.causes"
    )
