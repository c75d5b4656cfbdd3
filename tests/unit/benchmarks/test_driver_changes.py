"""The table of real changes: its findings in words, and the page."""

from __future__ import annotations

from benchmarks.driver_changes.changes import CHANGES, PATCHES
from benchmarks.driver_changes.judges import Finding, exact, goodput
from benchmarks.driver_changes.table import load
from pytest_pinet.judge.exact import ExactChange, ExactLimits, judge_exact
from tests.support.exact_boots import RECEIVE, boot, window, with_module


def compared(gem_rx: float = 151.0, rate: float = 5297.0) -> ExactChange:
    """Compare frames one by one and at full load with another ``gem_rx``, sent at another rate at full load."""
    b = {**RECEIVE, "gem_rx [macb]": gem_rx}
    return judge_exact(
        boot(window(RECEIVE), window(RECEIVE, "pktgen")),
        boot(window(b), window(b, "pktgen", rate=rate), identity=with_module("macb")),
        ExactLimits(),
    )


def test_a_change_below_the_limits_is_named() -> None:
    found = compared(155.0)
    assert exact(found) == Finding("changed", "`gem_rx [macb]` 151.00 -> 155.00 in frame-60-rx")
    assert goodput(found) == Finding("same")


def test_a_change_beyond_the_limits_has_its_worst_window_and_its_function() -> None:
    found = compared(471.0, 4700.0)
    assert exact(found) == Finding("slower", "+6.7% in frame-60-rx: `gem_rx [macb]` 151.00 -> 471.00")
    assert goodput(found) == Finding("slower", "-11.3% in pktgen-60-rx")
    assert exact(compared(71.0)).outcome == "faster"


def test_nothing_changed() -> None:
    assert exact(compared()) == goodput(compared()) == Finding("same")


def test_each_patch_belongs_to_one_change() -> None:
    assert sorted(one.patch for one in CHANGES if one.patch) == sorted(file.stem for file in PATCHES.glob("*.patch"))
    assert len({one.name for one in CHANGES}) == len(CHANGES) >= 12


def test_each_miss_has_a_reason_and_nothing_else_has_one() -> None:
    findings = load()
    for change in CHANGES:
        own = {gate: found.outcome for gate, found in findings.get(change.name, {}).items()}
        wrong = {"same", "faster"} if "slower" in own.values() else {"same"}
        missed = {gate for gate, outcome in own.items() if outcome in wrong}
        assert set(change.missed) == missed, change.name
