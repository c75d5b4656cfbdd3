"""The place of each connection: its number since the link-up over all tests of a run, and the traffic before it."""

from __future__ import annotations

from tests.support.gate_project import NewProject

WITHOUT_LIMITS = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="0%")
def test_first(link, gate):
    gate.tcp(link, direction="tx", duration=1)

@pytest.mark.pinet(board="pi3b", nic="onboard", min="0%")
def test_second(link, gate):
    gate.tcp(link, direction="tx", duration=1)
"""


def test_connections_count_over_all_tests_and_from_1_again_after_a_link_up(new_project: NewProject) -> None:
    """A run without a limit has the three connections of a suspicion, the last one after a fresh link-up."""
    project = new_project({"test_it.py": WITHOUT_LIMITS})
    project.pytest().assert_outcomes(passed=2)
    each = [result["directions"]["tx"]["connections"] for result in project.results["results"]]
    for own in each:
        # On a busy machine, connections beside other work are repeated.
        assert [one["fresh"] for one in own if not one["excluded"]] == ["connection", "connection", "link-up"]
    made = [one for own in each for one in own]
    last = {"number": 0, "traffic_before_s": -1.0, "boot_age_s": 0.0}
    for one in made:
        assert one["number"] == (1 if one["fresh"] == "link-up" else last["number"] + 1)
        assert one["traffic_before_s"] > last["traffic_before_s"]
        assert one["boot_age_s"] > last["boot_age_s"]
        last = one
    assert made[0]["traffic_before_s"] == 0
