"""Every topology on the default virtual lab, wired by the VLANs of its switch: figures against theory."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gate_bench import GateLab, NewProject

pytestmark = pytest.mark.slow

TEST = """
@pytest.mark.pinet(board="pi3b", nic="onboard", topology="{topology}")
def test_{name}(link, gate):
    gate.tcp(link, {words})
"""
# The 94 % of the lab file are too near for a verdict where many flows compete in both directions.
TOPOLOGIES = {
    "pair": "duration=3",
    # Two Gigabit pairs at once are what the two processors of a test machine can just carry.
    "pairs:3": "duration=5",
    "incast:5": 'duration=12, sum="94%", share="90%", fairness=0.99',
    "chain": "duration=3",
    "outcast:3": 'duration=5, min="85%"',
    "opposed": 'duration=3, min="85%"',
    "mesh:3": 'duration=5, min="85%"',
}
# TCP with timestamps at MTU 1500: link * 1448 / 1538.
FAST_ETHERNET = 100e6 * 1448 / 1538
GIGABIT = 1e9 * 1448 / 1538


def text(topologies: dict[str, str]) -> str:
    tests = (TEST.format(topology=t, name=re.sub(r"\W", "_", t), words=words) for t, words in topologies.items())
    return "import pytest\n" + "".join(tests)


@pytest.fixture(scope="module")
def results(new_project: NewProject) -> dict[str, dict[str, Any]]:
    """What one run measured, by topology."""
    project = new_project({"test_it.py": text(TOPOLOGIES)})
    project.pytest("-v", timeout_s=400)
    return {result["combination"]["id"].partition("/")[2]: result for result in project.results["results"]}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_limits_hold(results: dict[str, dict[str, Any]], topology: str) -> None:
    assert results[topology]["verdict"] in ("pass", "marginal"), results[topology]["message"]


def test_the_lab_is_left_clean(results: dict[str, dict[str, Any]], gate_lab: GateLab) -> None:
    assert set(gate_lab.port_groups().values()) == {"br0"}
    assert gate_lab.holders() == []


def test_a_pair(results: dict[str, dict[str, Any]]) -> None:
    assert results["pair"]["directions"]["tx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.01)


def test_three_pairs_at_once_each_get_their_own_wire(results: dict[str, dict[str, Any]]) -> None:
    result = results["pairs:3"]
    goodputs = sorted(flow["goodput_bps"] for flow in result["flows"])
    assert goodputs[0] == pytest.approx(FAST_ETHERNET, rel=0.01)
    # Two at once are what two processors can just carry; over one wire they would have a half each.
    assert goodputs[1:] == pytest.approx([GIGABIT] * 2, rel=0.03)
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(sum(goodputs))
    assert result["evenness"]["jain"] > 0.999
    assert len({end["end"].partition(":")[0] for end in result["combination"]["ends"]}) == 6


def test_five_senders_share_one_receiver_evenly(results: dict[str, dict[str, Any]]) -> None:
    result = results["incast:5"]
    assert result["directions"]["rx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.01)
    assert [flow["goodput_bps"] for flow in result["flows"]] == pytest.approx([FAST_ETHERNET / 5] * 5, rel=0.05)
    assert result["evenness"]["least_share"] > 0.95


def test_a_node_forwards_between_its_two_nics(results: dict[str, dict[str, Any]]) -> None:
    result = results["chain"]
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(FAST_ETHERNET, rel=0.01)
    ends = [end["end"] for end in result["combination"]["ends"]]
    assert ends[0] == "pi3b-1:onboard"
    assert ends[2] == "pi3b-1:usb"


@pytest.mark.parametrize("topology", ["outcast:3", "opposed", "mesh:3"])
def test_the_other_topologies_fill_the_wire(results: dict[str, dict[str, Any]], topology: str) -> None:
    for direction in results[topology]["directions"].values():
        assert direction["goodput_bps"] == pytest.approx(direction["oracle_bps"], rel=0.07)


def test_a_share_that_is_too_small_fails_and_names_the_flow(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_it.py": text({"incast:3": 'duration=3, share="90%"'})})
    gate_lab.pinet("degrade", "pi3b-2:onboard", "--rate", "0.1", "--direction", "tx")
    try:
        done = project.pytest()
    finally:
        gate_lab.pinet("restore")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["pi3b-2:onboard>pi3b-1:onboard got [23]* % of its fair share, below the limit 90%*"])
    assert project.verdicts == {"test_incast_3[pi3b:onboard/incast:3]": "fail"}
