"""Emulated boards with one port: ssh comes in by the NIC under test, without a tag and in a tagged VLAN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulated_gate import LAB, NEEDS, card_or_skip, patient
from tests.support.gate_project import GateLab, Project, lab_up

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
GATE = Path(__file__).parents[3] / "pytest_pinet" / "suites" / "test_line_rate.py"
# How the boards see our connection, and what a driver must not lose.
TESTS = """
import pytest

from pytest_pinet.lab.deploy.live import _USED


@pytest.mark.pinet(board="virt-*", nic="onboard")
def test_ways(link):
    ways = {
        "tagged": ("eth0.4000", ["eth0", "eth0.4000"], 4000),
        "untagged": ("eth0", ["eth0"], None),
    }
    way = link.dut.management
    assert (way.device, sorted(way.carriers), way.vlan) == ways[link.dut.endpoint.node.name]
    assert link.dut.carries_management
    assert not link.peer.carries_management
    used = link.dut.shell.run(_USED.format("virtio_net")).stdout.split()
    assert used == (["eth0", "eth0.4000"] if way.vlan else [])


@pytest.mark.pinet(board="virt-vlan", nic="onboard", tuning={"mtu": 1400})
def test_cut(link):
    raise AssertionError
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    text = patient((LAB / "single-port-emulated.yaml").read_text()).replace('    host: "*"\n', '    single: "*"\n')
    with card_or_skip(), lab_up(tmp_path_factory.mktemp("single-port") / "lab.yaml", text) as lab:
        yield Project(tmp_path_factory.mktemp("project"), lab)


def nodes_are_left_alone(lab: GateLab) -> None:
    """Check that no port was moved, and that no test address is left."""
    assert set(lab.port_groups().values()) == {"br0"}


@pytest.mark.parametrize("board", ["virt-same", "virt-vlan"])
def test_the_line_rate_suite_passes_over_the_port_that_carries_ssh(project: Project, board: str) -> None:
    options = ("-p", "no:cacheprovider", f"--pinet-run-dir={project.path}", f"--pinet-board={board}", "-k", "onboard")
    output = project.pytest(str(GATE), *options, timeout_s=600)
    assert output.ret == 0
    assert set(project.verdicts.values()) <= {"pass", "marginal"}
    measured = [(result["combination"]["id"], *result["directions"]) for result in project.results["results"]]
    assert sorted(measured) == [(f"{board}:onboard/pair", way) for way in ("rx", "tx")]
    for result in project.results["results"]:
        # Each attempt has the evidence of both ends.
        for end in result["evidence"]:
            own = end.get("management")
            assert own is None if end["end"] == "peer:pcie" else 0 < own["share"] < 0.001
    nodes_are_left_alone(project.lab)


def test_the_vlan_is_found_and_what_would_cut_it_is_skipped(project: Project) -> None:
    project.write("test_it.py", TESTS)
    output = project.pytest("-rs", "test_it.py", timeout_s=600)
    output.assert_outcomes(passed=2, skipped=1)
    assert "mtu may take down the link of tagged:onboard" in output.stdout.str()
    nodes_are_left_alone(project.lab)
