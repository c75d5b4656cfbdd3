"""One NIC slower by 10 % in one direction: exactly what runs over it fails, and says how it failed."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from gate_bench import BIN, GateLab, NewProject, Project

pytestmark = pytest.mark.slow

MATRIX = """
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic=["onboard", "ax88179"])
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
        """What the failing test printed."""
        lines = self.output.outlines
        start = next(n for n, line in enumerate(lines) if "FAILURES" in line)
        end = next(n for n, line in enumerate(lines) if "pinet throughput" in line)
        return lines[start + 2 : end]


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Iterator[Run]:
    project = new_project({"test_matrix.py": MATRIX})
    gate_lab.switch_power(True, "pi3b-1", "cm4-1")
    gate_lab.await_boot("pi3b-1", "cm4-1")
    gate_lab.pinet("degrade", "pi3b-1:onboard", "--rate", "0.9", "--direction", "tx")
    output = project.undisturbed("--junitxml=junit.xml")
    yield Run(project, output, project.results, project.verdicts)
    gate_lab.pinet("restore")
    gate_lab.switch_power(False, "pi3b-1", "cm4-1")


def test_exactly_the_combination_over_that_nic_and_direction_fails(run: Run) -> None:
    assert run.output.ret == pytest.ExitCode.TESTS_FAILED
    run.output.assert_outcomes(failed=1, passed=3)
    assert run.verdicts == {SLOW: "fail", **dict.fromkeys(OTHERS, "pass")}


def test_the_figure_is_90_percent_of_the_link(run: Run) -> None:
    figures = run.results["results"][0]["directions"]["tx"]
    assert figures["goodput_bps"] == pytest.approx(0.9 * 94.15e6, rel=0.02)
    assert run.results["complete"] is True
    assert run.results["exitstatus"] == 1


def test_the_failure_says_what_is_needed_to_believe_and_repeat_it(run: Run, gate_lab: GateLab) -> None:
    text = pytest.LineMatcher(run.text)
    line = next(n for n, t in enumerate(gate_lab.file.read_text().splitlines(), 1) if "{min: 94%}" in t)
    text.fnmatch_lines(
        [
            "tx 8?.? Mbit/s is *.? % below the limit 88.5 Mbit/s*",
            "*= 94% of 94.1 Mbit/s*",
            "  physical   94.1 Mbit/s (100 Mbit/s link, MTU 1500, TCP timestamps)",
            "  attempts   8?.? Mbit/s, 8?.? Mbit/s, 8?.? Mbit/s (fresh link-up)*",
            "  interval   8?.? to 8?.? Mbit/s at 1 % error",
            "  stopped    below the limit in * of * connections*",
            "  samples    ??: min *, median 8*, max * Mbit/s; * retransmits",
            "  link       100 Mbit/s full duplex, MTU 1500",
            "  ends       pi3b-1:onboard at sw1/p1 (DUT), pi3b-2:onboard at sw1/p3 (peer)",
            "  raw        .pinet/runs/*",
            "  repeat     pytest *",
        ]
    )
    # The origin of the limit is its line in the lab file, however long that path makes it.
    assert f"{gate_lab.file}:{line})" in "".join(t.strip() for t in run.text)


def test_the_failure_has_no_traceback(run: Run) -> None:
    output = run.output.stdout.str()
    for trace in ("Traceback", "pytest_pinet/", "gate.tcp(", "Error"):
        assert trace not in output, trace
    assert len(run.text) <= 20


def test_the_table_has_the_worst_first(run: Run) -> None:
    run.output.stdout.fnmatch_lines(
        ["combination *", "pi3b:onboard/pair * tx * FAIL", "pi3b:* pass", "*", "4 measured: 3 pass, 1 fail"]
    )


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


def test_x_stops_at_the_first_that_fails(run: Run) -> None:
    output = run.project.pytest("-x")
    output.assert_outcomes(failed=1)
    assert run.project.verdicts == {SLOW: "fail"}


def test_lf_repeats_exactly_what_failed_and_restore_makes_it_green(run: Run, gate_lab: GateLab) -> None:
    assert gate_lab.pinet("restore") == "restored: pi3b-1:onboard\n"
    output = run.project.pytest("--lf")
    assert output.ret == 0
    assert run.project.verdicts == {SLOW: "pass"}
