"""One NIC is slower in one direction: exactly the tests over it fail, and report the cause."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.gate_project import BIN, SLOW_ON_PURPOSE, GateLab, NewProject, Project

pytestmark = pytest.mark.smoke

MATRIX = """
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic=["onboard", "ax88179"], min="60%")
def test_rate(link, gate, direction):
    gate.tcp(link, direction=direction, duration=1)
"""
SLOW = "test_rate[pi3b:onboard/pair-tx]"
OTHERS = [
    "test_rate[pi3b:onboard/pair-rx]",
    "test_rate[pi3b:ax88179/pair-tx]",
    "test_rate[pi3b:ax88179/pair-rx]",
]


@dataclass(frozen=True)
class Run:
    """The run over the slow link."""

    project: Project
    output: pytest.RunResult
    results: dict[str, Any]
    verdicts: dict[str, str]

    @property
    def text(self) -> list[str]:
        """Return the output of the failed test."""
        lines = self.output.outlines
        start = next(n for n, line in enumerate(lines) if "FAILURES" in line)
        end = next(n for n, line in enumerate(lines) if "pinet throughput" in line)
        return lines[start + 2 : end]


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Iterator[Run]:
    project = new_project({"conftest.py": SLOW_ON_PURPOSE, "test_matrix.py": MATRIX})
    gate_lab.switch_power(True, "pi3b-1", "cm4-1")
    gate_lab.await_boot("pi3b-1", "cm4-1")
    gate_lab.degrade("pi3b-1:onboard", "--rate", "0.4", "--direction", "tx")
    output = project.pytest("--junitxml=junit.xml")
    yield Run(project, output, project.results, project.verdicts)
    gate_lab.restore()
    gate_lab.switch_power(False, "pi3b-1", "cm4-1")


def test_exactly_the_combination_over_that_nic_and_direction_fails(run: Run) -> None:
    assert run.output.ret == pytest.ExitCode.TESTS_FAILED
    run.output.assert_outcomes(failed=1, passed=3)
    assert run.verdicts.keys() == {SLOW, *OTHERS}
    assert run.verdicts[SLOW] == "fail"
    # A connection that other work disturbed may be repeated.
    assert {run.verdicts[test] for test in OTHERS} <= {"pass", "marginal"}


def test_the_value_is_that_of_the_slower_link(run: Run) -> None:
    tx, rx = (run.results["results"][index]["directions"][way] for index, way in ((0, "tx"), (1, "rx")))
    # A busy machine may carry less, but never more.
    assert 0.2 * 94.15e6 < tx["goodput_bps"] < 0.41 * 94.15e6
    assert rx["goodput_bps"] > 1.5 * tx["goodput_bps"]
    assert run.results["complete"] is True
    assert run.results["exitstatus"] == 1


def test_the_failure_says_what_is_needed_to_believe_and_repeat_it(run: Run) -> None:
    text = pytest.LineMatcher(run.text)
    text.fnmatch_lines(
        [
            "tx ??.? Mbit/s is *.? % below the limit 56.5 Mbit/s*",
            "*= 60% of 94.1 Mbit/s (min='60%' of the marker)*",
            "  interval   ??.? to ??.? Mbit/s at 1 % error: docs/explanation/error-rates.md",
            "  limited by *",
            "  to do      *",
            "  ends       pi3b-1:onboard at sw1/p1 (DUT), pi3b-2:onboard at sw1/p3 (peer)",
            "  raw        .pinet/runs/*",
            "  repeat     pytest *",
        ]
    )
    assert len(run.text) <= 12
    (details,) = run.project.path.glob(".pinet/runs/*/raw/*/failure.txt")
    assert "Mbit/s (fresh link-up)" in " ".join(details.read_text().split())


def test_the_failure_has_no_traceback(run: Run) -> None:
    output = run.output.stdout.str()
    for trace in ("Traceback", "pytest_pinet/", "gate.tcp(", "Error"):
        assert trace not in output, trace


def test_the_table_has_the_worst_first(run: Run) -> None:
    run.output.stdout.fnmatch_lines(
        ["combination *", "pi3b:onboard/pair * tx * FAIL", "pi3b:onboard/pair * rx *", "4 measured: *1 fail*"]
    )


def test_without_v_nothing_is_said_of_what_a_profile_may_miss(run: Run) -> None:
    assert "may miss faults" not in run.output.stdout.str()


def test_the_command_that_repeats_it_selects_exactly_it(run: Run) -> None:
    command = run.results["results"][0]["rerun"]
    done = subprocess.run(
        f"{BIN}/{command} --collect-only -q",
        shell=True,
        cwd=run.project.path,
        env=run.project.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if "::" in line] == [f"test_matrix.py::{SLOW}"]


def test_junit_calls_it_a_failure(run: Run) -> None:
    suite = next(ElementTree.parse(run.project.path / "junit.xml").getroot().iter("testsuite"))
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    failed = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == [SLOW]
    properties = {item.get("name"): item.get("value") for item in failed[0].iter("property")}
    assert properties["pinet.tx.verdict"] == "fail"
