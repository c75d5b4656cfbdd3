"""Emulated boards with one port: ssh comes in by the NIC under test, without a tag and in a tagged VLAN."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.emulated_gate import LAB, NEEDS, card_or_skip, patient
from tests.support.gate_project import Project, lab_up

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
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


def test_the_vlan_is_found_and_what_would_cut_it_is_skipped(project: Project) -> None:
    project.write("test_it.py", TESTS)
    output = project.pytest("-rs", "test_it.py", timeout_s=600)
    output.assert_outcomes(passed=2, skipped=1)
    assert "mtu may take down the link of tagged:onboard" in output.stdout.str()
    # No port was moved.
    assert set(project.lab.port_groups().values()) == {"br0"}
