"""Boots, flaps and idle times on the default virtual lab, as a test calls them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_project import GateLab, NewProject

TESTS = """
import pytest

pytestmark = pytest.mark.pinet(board="pi3b", nic="onboard")

def test_flaps(link, gate):
    found = gate.recovery(link, count=1, down=0.3, silence="10 s in 98%", goodput="10%")
    print("FLAPS", 0.29 <= found.values["silence"] < 10, found.values["bad_flaps"])
    gate.ping(link, count=2)

def test_silent_flaps(link, gate):
    gate.recovery(link, count=2, down=0.3, silence="100 ms in 98%")

def test_idle(link, gate):
    found = gate.idle(link, idle="1 s", idle_loss="50%", first_answer="5 s", first_second="10%")
    print("IDLE", sorted(found.values))

def test_boots(link, gate):
    found = gate.boots(link, count=2)
    print("BOOTS", found.values["bad_boots"], found.values["boot_to_carrier"] > 0)
    gate.ping(link, count=2)

def test_a_mistake(link, gate):
    gate.recovery(link, silence="4 s")
"""


@pytest.fixture(scope="module")
def run(new_project: NewProject) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    project = new_project({"test_it.py": TESTS})
    output = project.pytest("-rA")
    return output, {
        one["test"].partition("::")[2].partition("[")[0]: one
        for one in project.results["results"]
        if {"bad_flaps", "bad_boots", "idle_loss"}.intersection(one.get("figures") or ())
    }


Run = tuple[pytest.RunResult, dict[str, dict[str, Any]]]


def test_a_link_that_comes_back_passes(run: Run) -> None:
    output, results = run
    output.stdout.fnmatch_lines(["*FLAPS True 0.0*"])
    result = results["test_flaps"]
    assert (result["verdict"], result["id"]) == ("pass", "pi3b:onboard/pair/recovery-ping-d0.3")
    assert set(result["figures"]) == {"bad_flaps", "silence", "goodput_after"}
    assert "port p1 of switch sw1 was down for 0.3 s" in result["notes"]


def test_a_link_that_is_silent_for_longer_than_its_limit_fails(run: Run) -> None:
    result = run[1]["test_silent_flaps"]
    assert result["verdict"] == "fail"
    assert "flaps were bad" in result["message"] or "flaps was bad" in result["message"]
    assert any("is bad: silent for " in note for note in result["notes"])


def test_an_idle_time_has_three_values(run: Run) -> None:
    output, results = run
    output.stdout.fnmatch_lines(["*IDLE ?'first_answer', 'first_second', 'idle_loss'?*"])
    result = results["test_idle"]
    assert (result["verdict"], result["id"]) == ("pass", "pi3b:onboard/pair/idle-ping-t1")
    assert result["figures"]["idle_loss"]["limit"] is not None


def test_boots_are_counted_and_the_link_is_usable_afterwards(run: Run) -> None:
    output, results = run
    output.stdout.fnmatch_lines(["*BOOTS 0.0 True*"])
    result = results["test_boots"]
    assert result["verdict"] == "pass"
    assert result["figures"]["bad_boots"]["values"] == [0.0, 0.0]
    assert len(result["figures"]["boot_to_reply"]["values"]) == 2


def test_a_silence_without_a_share_is_a_mistake(run: Run) -> None:
    run[0].stdout.fnmatch_lines(
        ["*recovery: silence='4 s': expected the longest silence (at most 46 s with this down) and its share of *"]
    )
    run[0].assert_outcomes(passed=3, failed=1, errors=1)


WITHOUT_A_LINK = """
import pytest

pytestmark = pytest.mark.pinet(board="pi3b", nic="onboard", link_required=False)

def test_boots(link, gate):
    gate.boots(link, count=2)

def test_ping(link, gate):
    gate.ping(link, count=2)
"""


@pytest.mark.slow
def test_boots_without_a_link_are_bad_boots_and_no_error_of_the_lab(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_it.py": WITHOUT_A_LINK})
    gate_lab.degrade("pi3b-1:onboard", "--down")
    try:
        output = project.pytest("-rA")
    finally:
        gate_lab.restore()
    output.assert_outcomes(failed=1, errors=1)
    (boots,) = (one for one in project.results["results"] if one.get("figures"))
    assert boots["verdict"] == "fail"
    assert "2 of 2 boots were bad" in boots["message"]
    said = "boot 1 is bad: no link * s after the boot: no carrier on pi3b-1 *"
    pytest.LineMatcher(boots["notes"]).fnmatch_lines([said])
    output.stdout.fnmatch_lines(["*no link on pi3b-1 *"])
