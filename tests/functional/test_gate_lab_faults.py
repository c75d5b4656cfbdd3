"""Whatever of the lab breaks ends the test as a lab error in time, names the culprit, and leaves the lab clean."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from gate_bench import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

TEST = """\
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_it(link, gate):
    gate.tcp(link, duration={duration}, warmup=1, bitrate={bitrate!r})
"""

LOSSY = """\
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="1 Mbit/s")
def test_it(link, gate):
    gate.tcp(link, duration=2, congestion="bbr", profile="fast")
"""


@pytest.fixture
def project(new_project: NewProject) -> Project:
    return new_project({"test_it.py": TEST.format(duration=1, bitrate="40M")})


@pytest.fixture(autouse=True)
def healed(gate_lab: GateLab) -> Iterator[None]:
    """Whatever a test broke is whole again, and the lab as it was found."""
    yield
    gate_lab.pinet("restore")
    assert set(gate_lab.port_groups().values()) == {"br0"}
    assert gate_lab.holders() == []
    assert gate_lab.nodes_on() == set()


def ends_in_error(project: Project, says: str, within_s: float) -> None:
    """The one test is an error of the lab that says this; nobody waits longer than its deadline."""
    started = time.monotonic()
    done = project.pytest()
    assert time.monotonic() - started < within_s
    done.assert_outcomes(errors=1)
    (result,) = project.results["results"]
    assert result["verdict"] == "error", result
    assert re.search(says, " ".join(result["message"].split())), result["message"]
    assert not result["directions"]


def test_a_dead_power_switch_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.pinet("degrade", "pdu", "--dead")
    ends_in_error(project, r"the power switch of pi3b-[12] \(http://.*, outlet [12]\) failed to", within_s=40)


def test_a_power_switch_that_lies_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.pinet("degrade", "pdu/pi3b-2", "--lie")
    ends_in_error(project, r"the power switch of pi3b-2 said yes to 'on' but still reports the opposite", within_s=40)


def test_a_switch_that_does_not_answer_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.pinet("degrade", "sw1", "--dead")
    ends_in_error(project, r"switch sw1 .*does not answer", within_s=45)
    # What could not be undone meanwhile had not been done.


def test_a_switch_that_says_yes_and_does_nothing_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.pinet("degrade", "sw1", "--lie")
    ends_in_error(project, r"switch sw1 said yes to VLAN 39\d\d, but has not made it", within_s=45)


def test_two_cables_that_were_exchanged_are_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.pinet("degrade", "pi3b-1:onboard", "--swap-with", "pi3b-2:onboard")
    ends_in_error(
        project, r"wrong cable: the lab file has pi3b-1 eth0 on port p1 of switch sw1, but .*(p3|pi3b-2)", within_s=40
    )


def test_a_cable_in_the_port_of_a_third_node_is_named(project: Project, gate_lab: GateLab) -> None:
    gate_lab.pinet("degrade", "pi3b-2:onboard", "--swap-with", "pi5-1:onboard")
    ends_in_error(
        project,
        r"wrong cable: the lab file has pi3b-2 eth0 on port p3 of switch sw1, but the switch sees it on port p10",
        within_s=40,
    )


def test_octets_lost_in_the_switch_make_a_figure_invalid(new_project: NewProject, gate_lab: GateLab) -> None:
    # BBR does not slow down for it, so that the figure alone would not tell.
    project = new_project({"test_it.py": LOSSY})
    gate_lab.pinet("degrade", "pi3b-1:onboard", "--loss", "9%", "--direction", "tx")
    # Of iperf3's own words 9 % are lost too; where it was kept waiting too long for one there is no figure at all.
    for _ in range(3):
        assert project.pytest().ret == 1
        (result,) = project.results["results"]
        if "cannot be trusted" not in result["message"]:
            break
    assert result["verdict"] == "invalid"
    assert "came in from pi3b-1:onboard at port sw1/p1" in " ".join(result["message"].split())


def test_stale_counters_are_waited_for(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_it.py": TEST.format(duration=2, bitrate="40M")})
    gate_lab.pinet("degrade", "sw1", "--stale-counters", "2")
    done = project.pytest()
    done.assert_outcomes(passed=1)
    (result,) = project.results["results"]
    payload = sum(sample["bytes"] for sample in result["directions"]["tx"]["samples"])
    dut, peer = result["cables"]
    assert dut["switch"]["rx_octets"] == pytest.approx(payload, rel=0.07)
    assert peer["switch"]["tx_octets"] == pytest.approx(payload, rel=0.07)
    assert dut["node"]["tx_bytes"] == pytest.approx(payload, rel=0.07)
