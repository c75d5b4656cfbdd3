"""One NIC is slower in one direction: exactly the test over it fails. The results, and the lab afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from tests.support.gate_project import BIN, SLOW_ON_PURPOSE, GateLab, NewProject, Project
from tools.results_schema import SCHEMA_FILE

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
    """The run over the slow link, and the state of the lab right after it."""

    project: Project
    output: pytest.RunResult
    results: dict[str, Any]
    verdicts: dict[str, str]
    addresses: list[str]
    iperf3_left: list[int]
    on_before: set[str]
    on_after: set[str]


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Iterator[Run]:
    """The DUT is off before the run, a peer on."""
    project = new_project({"conftest.py": SLOW_ON_PURPOSE, "test_matrix.py": MATRIX})
    gate_lab.switch_power(True, "cm4-1")
    gate_lab.await_boot("cm4-1")
    gate_lab.degrade("pi3b-1:onboard", "--rate", "0.4", "--direction", "tx")
    before = gate_lab.nodes_on()
    output = project.pytest("--pinet-json=out/copy.json")
    seen = (gate_lab.addresses("cm4-1"), gate_lab.processes("iperf3"))
    yield Run(project, output, project.results, project.verdicts, *seen, before, gate_lab.nodes_on())
    gate_lab.restore()
    gate_lab.switch_power(False, "cm4-1")


def test_exactly_the_combination_over_that_nic_and_direction_fails(run: Run) -> None:
    assert run.output.ret == pytest.ExitCode.TESTS_FAILED
    run.output.assert_outcomes(failed=1, passed=3)
    assert run.verdicts.keys() == {SLOW, *OTHERS}
    assert run.verdicts[SLOW] == "fail"
    # A connection that other work disturbed may be repeated.
    assert {run.verdicts[test] for test in OTHERS} <= {"pass", "marginal"}
    (details,) = run.project.path.glob(".pinet/runs/*/raw/*/failure.txt")
    assert "Mbit/s (fresh link-up)" in " ".join(details.read_text().split())


def test_the_value_is_that_of_the_slower_link(run: Run) -> None:
    tx, rx = (run.results["results"][index]["directions"][way] for index, way in ((0, "tx"), (1, "rx")))
    # A busy machine may carry less, but never more.
    assert 0.2 * 94.15e6 < tx["goodput_bps"] < 0.41 * 94.15e6
    assert rx["goodput_bps"] > 1.5 * tx["goodput_bps"]
    # Between the limit and the wire's capacity.
    assert rx["limit"]["number"] == pytest.approx(0.6 * 94.15e6, rel=0.001)
    assert rx["limit"]["number"] < rx["goodput_bps"] < 1.005 * rx["oracle_bps"]


def test_a_value_is_the_mean_over_the_time_that_counts(run: Run) -> None:
    rx = run.results["results"][1]["directions"]["rx"]
    each = [[one for one in connection["samples"] if not one["warmup"]] for connection in rx["connections"]]
    # One second of traffic. The part of the warm-up second that was not needed counts, too. Without the argument it
    # would be three seconds.
    assert all(0.9 <= sum(sample["seconds"] for sample in samples) < 2.9 for samples in each)
    if len(each) == 1:
        rate = sum(sample["bytes"] for sample in each[0]) * 8 / sum(sample["seconds"] for sample in each[0])
        assert rx["goodput_bps"] == pytest.approx(rate)


def test_the_results_are_complete(run: Run, gate_lab: GateLab) -> None:
    results, latest = run.results, run.project.path / ".pinet" / "latest"
    head = {key: results[key] for key in ("lab", "lab_file", "scale", "complete", "exitstatus")}
    assert head == {
        "lab": "virtual", "lab_file": str(gate_lab.file), "scale": 0.1, "complete": True, "exitstatus": 1
    }  # fmt: skip
    jsonschema.validate(results, json.loads(SCHEMA_FILE.read_text()))
    assert json.loads((run.project.path / "out" / "copy.json").read_text()) == results
    for result in results["results"]:
        assert result["combination"]["dut_port"]
        assert result["build"]["uname"].startswith("Linux ")
        clients = [file for file in result["files"] if file.endswith("client.json")]
        assert len(clients) == len(next(iter(result["directions"].values()))["connections"])
        assert all("end" in json.loads((latest / client).read_text()) for client in clients)


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


def test_the_lab_is_left_as_it_was_found(run: Run, gate_lab: GateLab) -> None:
    assert run.on_before == run.on_after == {"cm4-1"}
    assert (run.addresses, run.iperf3_left) == ([], [])
    assert set(gate_lab.port_groups().values()) == {"br0"}
    assert gate_lab.holders() == []
