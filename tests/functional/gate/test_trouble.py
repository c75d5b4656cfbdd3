"""Lab errors: a quick error that says who must act, never a failure and never a value."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.amid_traffic import CONFTEST, seconds_to_failure
from tests.support.gate_project import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

TESTS = """
import pytest
from conftest import pinet

# Other tests run side by side with these.
FEW = dict(bitrate="50 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_cable_pulled(link, gate):
    gate.tcp(link, duration=1, **FEW)

@pytest.mark.pinet(board="pi5", nic="rtl8125")
def test_killed_at_dut(link, gate, amid_traffic):
    amid_traffic(lambda: pinet("exec", "pi5-1", "--", "pkill -KILL -x iperf3"))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="rtl8125")
def test_killed_at_peer(link, gate, amid_traffic):
    amid_traffic(lambda: pinet("exec", "cm4-1", "--", "pkill -KILL -x iperf3"))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi5", nic="onboard")
def test_frozen_in_mid_traffic(link, gate, amid_traffic):
    amid_traffic(lambda: pinet("degrade", "pi5-1", "--freeze"))
    gate.tcp(link, duration=60, **FEW)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_frozen_before(link, gate):
    gate.tcp(link, duration=1, **FEW)

@pytest.mark.pinet(board="pi4b", nic="rtl8153")
def test_well(link, gate):
    gate.tcp(link, duration=1, **FEW)
"""


@dataclass(frozen=True)
class Trouble:
    """The affected combination, and the words of the message."""

    combination: str
    words: tuple[str, ...]


TROUBLES = {
    "test_cable_pulled": Trouble(
        "pi3b:onboard/pair", ("no link on pi3b-1 eth0 (port p1 of switch sw1)", "check the cable")
    ),
    "test_killed_at_dut": Trouble(
        "pi5:rtl8125/pair", ("iperf3", "on pi5-1 was killed (SIGKILL)", "find out what killed it on pi5-1")
    ),
    "test_killed_at_peer": Trouble(
        "pi5:rtl8125/pair", ("iperf3", "on cm4-1 was killed (SIGKILL)", "find out what killed it on cm4-1")
    ),
    "test_frozen_in_mid_traffic": Trouble(
        "pi5:onboard/pair", ("pi5-1 does not answer any more", "s of traffic", "power-cycle")
    ),
    "test_frozen_before": Trouble(
        "pi4b:onboard/pair", ("pi4b-1 does not answer on its serial console", "labgrid-client -p pi4b-1 console")
    ),
}


@dataclass(frozen=True)
class Run:
    """A run with many lab errors and one test without."""

    project: Project
    output: pytest.RunResult
    results: dict[str, Any]

    def result(self, test: str) -> dict[str, Any]:
        found: dict[str, Any] = next(r for r in self.results["results"] if f"::{test}[" in r["test"])
        return found


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Run:
    project = new_project({"conftest.py": CONFTEST, "test_trouble.py": TESTS})
    gate_lab.degrade("pi3b-1:onboard", "--down")
    gate_lab.degrade("pi4b-1", "--freeze")
    output = project.pytest("--junitxml=junit.xml")
    gate_lab.restore()
    return Run(project, output, project.results)


def test_trouble_is_an_error_and_not_a_failure(run: Run) -> None:
    run.output.assert_outcomes(errors=len(TROUBLES), passed=1)
    assert run.output.ret == pytest.ExitCode.TESTS_FAILED
    suite = next(ElementTree.parse(run.project.path / "junit.xml").getroot().iter("testsuite"))
    assert (suite.get("failures"), suite.get("errors")) == ("0", str(len(TROUBLES)))
    broken = [str(case.get("name")) for case in suite.iter("testcase") if case.find("error") is not None]
    assert broken == [f"{test}[{trouble.combination}]" for test, trouble in TROUBLES.items()]


def test_trouble_gives_no_figure(run: Run) -> None:
    for test, trouble in TROUBLES.items():
        result = run.result(test)
        assert result["verdict"] == "error"
        assert result["combination"]["id"] == trouble.combination
        assert result["directions"] == {}


def test_the_message_says_where_and_who_must_act(run: Run) -> None:
    for test, trouble in TROUBLES.items():
        message = run.result(test)["message"]
        for word in trouble.words:
            assert word in message
        run.output.stdout.fnmatch_lines([f"* ERROR at setup of {test}*", f"{message[:30]}*", "  -> *", "  repeat *"])


def test_the_table_shows_each_error_with_its_reason(run: Run) -> None:
    for test, trouble in TROUBLES.items():
        reason = run.result(test)["message"][:40]
        run.output.stdout.fnmatch_lines(["combination *", f"{trouble.combination[:12]}* ERROR", f"    {reason}*"])
    count = len(TROUBLES)
    run.output.stdout.fnmatch_lines([f"1 measured: 1 pass; {count} not measured: {count} error"])


def test_no_traceback_of_ours_is_shown(run: Run) -> None:
    output = run.output.stdout.str()
    assert "Traceback" not in output
    assert "/pytest_pinet/" not in output


def test_what_could_not_be_undone_is_said_of_hung_nodes_only(run: Run) -> None:
    unclean = [line for line in run.output.outlines if "could not" in line]
    assert [line for line in unclean if "pi5-1" not in line] == []


def test_trouble_ends_the_traffic(run: Run) -> None:
    for test in TROUBLES:
        # The traffic would run for a minute.
        assert seconds_to_failure(run.project, test) < 50, test


def test_afterwards_the_lab_is_clean(run: Run, gate_lab: GateLab) -> None:
    assert gate_lab.nodes_on() == set()
    assert set(gate_lab.port_groups().values()) == {"br0"}
    assert gate_lab.holders() == []


def test_the_next_run_is_green(run: Run) -> None:
    output = run.project.pytest("-k", "cable_pulled or frozen_before")
    output.assert_outcomes(passed=2, deselected=4)
    assert "could not" not in output.stdout.str()
