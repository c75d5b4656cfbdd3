"""A broken part of the lab ends the test in time as a lab error that names it, and the lab is clean afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.gate_project import SCALE, GateLab, NewProject, Project

pytestmark = pytest.mark.slow

TEST = """\
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_it(link, gate):
    gate.tcp(link, duration=1, warmup=1, bitrate="40M", min="10 Mbit/s")
"""

# With so much traffic that a few per cent of it are more than other traffic on a port.
LOSSY = """\
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", min="1 Mbit/s")
def test_it(link, gate):
    gate.tcp(link, duration=2, congestion="bbr", profile="fast")
"""
PACED = """\
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", min="100 Mbit/s")
def test_it(link, gate):
    gate.tcp(link, duration=2, warmup=1, bitrate="400M")
"""


@pytest.fixture
def project(new_project: NewProject) -> Project:
    return new_project({"test_it.py": TEST})


@pytest.fixture(autouse=True)
def healed(gate_lab: GateLab) -> Iterator[None]:
    """Repair all faults, and assert that the lab is in its initial state."""
    yield
    gate_lab.restore()
    assert set(gate_lab.port_groups().values()) == {"br0"}
    assert gate_lab.holders() == []
    assert gate_lab.nodes_on() == set()


def ends_in_error(project: Project, says: str) -> None:
    """Assert that the only test ends as a lab error with this message."""
    done = project.pytest()
    done.assert_outcomes(errors=1)
    (result,) = project.results["results"]
    assert result["verdict"] == "error", result
    assert re.search(says, " ".join(result["message"].split())), result["message"]
    assert not result["directions"]


def test_a_switch_that_does_not_answer_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.degrade("sw1", "--dead")
    ends_in_error(project, r"switch sw1 .*does not answer")
    # Nothing had been changed, so nothing is left to undo.


def test_a_switch_that_says_yes_and_does_nothing_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.degrade("sw1", "--lie")
    ends_in_error(project, r"switch sw1 accepted VLAN 39\d\d, but did not create it")


def test_two_cables_that_were_exchanged_are_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.degrade("pi3b-1:onboard", "--swap-with", "pi3b-2:onboard")
    ends_in_error(project, r"wrong cable: the lab file has pi3b-1 eth0 on port p1 of switch sw1, but .*(p3|pi3b-2)")


def test_a_cable_in_the_port_of_a_third_node_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.degrade("pi3b-2:onboard", "--swap-with", "pi5-1:onboard")
    ends_in_error(
        project,
        r"wrong cable: the lab file has pi3b-2 eth0 on port p3 of switch sw1, but the switch sees it on port p10",
    )


def test_octets_lost_in_the_switch_make_a_figure_invalid(new_project: NewProject, gate_lab: GateLab) -> None:
    # BBR does not slow down, so goodput alone would not show the fault.
    project = new_project({"test_it.py": LOSSY})
    gate_lab.degrade("pi4b-1:onboard", "--loss", "6%", "--direction", "tx")
    assert project.pytest().ret == 1
    (result,) = project.results["results"]
    assert result["verdict"] == "invalid"
    assert "came in from pi4b-1:onboard at port sw1/p4" in " ".join(result["message"].split())


def test_stale_counters_are_waited_for(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_it.py": PACED})
    gate_lab.degrade("sw1", "--stale-counters", "2")
    done = project.pytest()
    done.assert_outcomes(passed=1)
    (result,) = project.results["results"]
    payload = SCALE * sum(
        sample["bytes"] for one in result["directions"]["tx"]["connections"] for sample in one["samples"]
    )
    dut, peer = result["cables"]
    # Counters that are two seconds old lack most of three seconds of traffic.
    for counted in (dut["switch"]["rx_octets"], peer["switch"]["tx_octets"], dut["node"]["tx_bytes"]):
        assert payload < counted < 1.3 * payload
