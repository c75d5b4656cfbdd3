"""A broken part of the lab ends the test in time as a lab error that names it, and the lab is clean afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.gate_project import GateLab, NewProject, Project

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
    ends_in_error(project, r"no ssh connection to switch sw1 at ssh://root@127\.0\.0\.1:\d+: ")
    # Nothing had been changed, so nothing is left to undo.


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
    # BBR does not slow down, so goodput alone would not show the fault. The port counts packets before they are cut
    # into frames, so a loss of a few per cent could also be headers.
    project = new_project({"test_it.py": LOSSY})
    gate_lab.degrade("pi4b-1:onboard", "--loss", "12%", "--direction", "tx")
    assert project.pytest().ret == 1
    (result,) = project.results["results"]
    assert result["verdict"] == "invalid"
    assert "came in from pi4b-1:onboard at port sw1/p4" in " ".join(result["message"].split())
