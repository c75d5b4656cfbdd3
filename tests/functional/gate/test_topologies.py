"""Every topology on the virtual lab, wired by VLANs: which ends reach each other, and which share a wire."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.gate_project import GateLab, NewProject

TEST = """
@pytest.mark.pinet(board="pi4b", nic="onboard", topology="{topology}")
def test_{name}(link, gate):
    gate.tcp(link, {words})
"""
# Limits far below the wires' capacity: a wrong topology differs by a factor of two or three.
TOPOLOGIES = {
    "pairs:2": 'duration=1, min="50%"',
    "incast:3": 'duration=1, sum="50%", share="5%"',
    "opposed": 'duration=1, min="50%"',
    "chain": 'duration=1, min="50%"',
}
FURTHER = {"outcast:3": 'duration=1, min="50%"', "mesh:3": 'duration=1, min="40%"'}


def text(topologies: dict[str, str]) -> str:
    tests = (TEST.format(topology=t, name=re.sub(r"\W", "_", t), words=words) for t, words in topologies.items())
    return "import pytest\n" + "".join(tests)


@dataclass(frozen=True)
class Run:
    """The results of one run of all topologies, and the lab's state after it."""

    results: dict[str, dict[str, Any]]
    port_groups: set[str]
    holders: list[str]


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Run:
    project = new_project({"test_it.py": text(TOPOLOGIES)})
    project.pytest("-v", timeout_s=300)
    found = {result["combination"]["id"].partition("/")[2]: result for result in project.results["results"]}
    return Run(found, set(gate_lab.port_groups().values()), gate_lab.holders())


def ends(result: dict[str, Any]) -> list[str]:
    return [end["end"] for end in result["combination"]["ends"]]


@pytest.mark.smoke
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_limits_hold(run: Run, topology: str) -> None:
    assert run.results[topology]["verdict"] in ("pass", "marginal"), run.results[topology]["message"]


@pytest.mark.smoke
def test_the_lab_is_left_clean(run: Run) -> None:
    assert run.port_groups == {"br0"}
    assert run.holders == []


@pytest.mark.smoke
def test_pairs_get_a_wire_each(run: Run) -> None:
    result = run.results["pairs:2"]
    goodputs = [flow["goodput_bps"] for flow in result["flows"]]
    # On one wire both together would get only its capacity.
    assert sum(goodputs) > 1.1e9
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(sum(goodputs))
    assert len({end.partition(":")[0] for end in ends(result)}) == 4


@pytest.mark.smoke
def test_senders_share_the_wire_of_their_one_receiver(run: Run) -> None:
    result = run.results["incast:3"]
    assert ends(result)[0].startswith("pi4b-")
    assert len(result["flows"]) == 3
    assert sum(flow["goodput_bps"] for flow in result["flows"]) < 950e6
    # tests/soak/test_sharing.py says how even the shares are.
    assert result["evenness"]["least_share"] > 0.05


@pytest.mark.smoke
def test_both_ways_at_once_have_the_wire_each(run: Run) -> None:
    directions = run.results["opposed"]["directions"]
    assert sorted(directions) == ["rx", "tx"]
    # Sequentially, or on a half-duplex wire, they would get no more than one direction.
    assert sum(direction["goodput_bps"] for direction in directions.values()) > 1.1e9


@pytest.mark.smoke
def test_a_node_forwards_between_its_two_nics(run: Run) -> None:
    first, _, middle = ends(run.results["chain"])[:3]
    assert first.endswith(":onboard")
    assert middle == f"{first.partition(':')[0]}:usb"


@pytest.mark.slow
def test_receivers_share_the_wire_of_their_one_sender_and_in_a_mesh_each_sends_to_each_other(
    new_project: NewProject,
) -> None:
    project = new_project({"test_it.py": text(FURTHER)})
    project.pytest("-v").assert_outcomes(passed=2)
    outcast, mesh = project.results["results"]
    assert len(outcast["flows"]) == 3
    assert sum(flow["goodput_bps"] for flow in outcast["flows"]) < 950e6
    assert len(mesh["flows"]) == 6
    assert len(set(ends(mesh))) == 3
