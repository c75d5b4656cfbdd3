"""The suite everyday on the virtual lab: which parts a profile runs, and what they find."""

from __future__ import annotations

import pytest

from tests.support.gate_project import NewProject

SUITE = "pytest_pinet.suites.test_everyday"
FAST = {"test_line_rate", "test_ping"}
STANDARD = FAST | {
    "test_both_ways",
    "test_packets",
    "test_latency",
    "test_idle",
    "test_recovery",
    "test_path",
    "test_ipv6",
    "test_vlan",
}
SOAK = STANDARD | {
    "test_long_both_ways",
    "test_without_a_drop",
    "test_boots",
    "test_background",
    "test_nat",
    "test_speeds",
}


@pytest.mark.parametrize(("profile", "parts"), [("fast", FAST), ("standard", STANDARD), ("soak", SOAK), ("full", SOAK)])
def test_a_profile_runs_its_parts_for_every_nic(new_project: NewProject, profile: str, parts: set[str]) -> None:
    project = new_project({})
    result = project.pytest("--strict-markers", "--collect-only", "-q", "--pyargs", SUITE, f"--pinet-profile={profile}")
    ids = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert {one.partition("[")[0] for one in ids} == parts
    nics = {
        *("pi3b:onboard", "pi3b:ax88179", "pi4b:onboard", "pi4b:ax88179", "pi4b:rtl8153"),
        *("cm4:onboard", "cm4:aqc107", "pi5:onboard", "pi5:rtl8125"),
    }
    assert {one for one in ids if one.startswith("test_ping")} == {f"test_ping[{nic}/pair]" for nic in nics}


def test_a_part_that_is_named_runs_in_every_profile(new_project: NewProject) -> None:
    project = new_project({})
    named = f"{SUITE}::test_long_both_ways"
    result = project.pytest("--collect-only", "-q", "--pyargs", named, "--pinet-profile=fast", "-k", "pi5:onboard")
    assert any(line.endswith("::test_long_both_ways[pi5:onboard/pair]") for line in result.outlines)


def test_a_healthy_nic_passes_the_fast_level(new_project: NewProject) -> None:
    project = new_project({})
    # On a busy machine, links carry less than the limits of the suite.
    words = ("--pyargs", SUITE, "--pinet-profile=fast", "--pinet-min=20%", "--pinet-board=pi4b", "--pinet-nic=onboard")
    result = project.pytest(*words, timeout_s=240)
    assert result.ret == 0
    assert set(project.verdicts.values()) <= {"pass", "marginal"}
    found = project.results["results"]
    assert [way for one in found for way in one["directions"]] == ["tx", "rx"]
    assert [len(one["figures"]["loss"]["values"]) for one in found if one.get("figures")] == [3]
