"""Baselines of values beside goodput: five runs are accepted, the same link passes, and a slower link fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.gate_project import SLOW_ON_PURPOSE, GateLab, NewProject, Project, lab_that_runs

# Large messages: the rate of the link decides, and not the load of this machine.
TESTS = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_large(link, gate):
    gate.transactions(link, size=60_000, duration=2, tolerance="40%")
"""
METRIC = "pi3b:onboard/pair/transactions-sockperf-tcp-s60000-transactions"
RUNS = 5
# Seven runs take two minutes.
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Runs:
    project: Project
    accepted: str
    unchanged: dict[str, Any]
    slower: dict[str, Any]
    output: pytest.RunResult


@pytest.fixture(scope="module")
def runs(new_project: NewProject, gate_lab: GateLab) -> Iterator[Runs]:
    project = new_project({"conftest.py": SLOW_ON_PURPOSE, "test_it.py": TESTS})
    # The lab runs at a tenth of its rate. Without its scale, these are the rates of the lab.
    bench = project.path / "bench.yaml"
    bench.write_text(lab_that_runs(gate_lab, ""))

    def result() -> tuple[pytest.RunResult, dict[str, Any]]:
        output = project.pytest(lab_file=bench, **gate_lab.environment)  # type: ignore[arg-type]  # none is a time
        (found,) = project.results["results"]
        return output, found

    gate_lab.switch_power(True, "pi3b-1", "pi3b-2", "cm4-1")
    for _ in range(RUNS):
        result()
    done = project.pinet("accept", "--lab", str(bench), "--reason", "a quiet link")
    assert done.returncode == 0, done.stderr
    _, unchanged = result()
    for node in ("pi3b-1", "pi3b-2"):
        gate_lab.degrade(f"{node}:onboard", "--rate", "0.3")
    output, slower = result()
    yield Runs(project, done.stdout + done.stderr, unchanged, slower, output)
    gate_lab.restore()
    gate_lab.switch_power(False, "pi3b-1", "pi3b-2", "cm4-1")


def test_the_file_has_the_values_with_their_unit(runs: Runs) -> None:
    entry = runs.accepted.partition(f"id: {METRIC}")[2]
    assert entry.partition("value: ")[2].splitlines()[0].endswith("/s")
    assert f"{METRIC}: " in runs.accepted


def test_the_unchanged_link_passes_by_its_baseline(runs: Runs) -> None:
    found = runs.unchanged["figures"]["transactions"]
    assert found["limit"]["words"].startswith("40% below the baseline ")
    assert found["verdict"] in ("pass", "marginal")


def test_a_slower_link_fails_and_names_the_baseline(runs: Runs) -> None:
    found = runs.slower["figures"]["transactions"]
    assert found["verdict"] == "fail"
    assert "/s is below the limit " in found["reason"]
    assert "/s; the baseline is " in found["reason"]
    runs.output.stdout.fnmatch_lines(["*transactions */s is below the limit */s; the baseline is*"])


def test_history_and_exports_show_the_values_with_their_unit(runs: Runs) -> None:
    lines = runs.project.pinet("history", "show", METRIC).stdout.splitlines()
    assert lines[0].startswith(f"{METRIC}  ")
    assert "/s " in lines[0]
    (trend,) = json.loads(runs.project.pinet("history", "show", METRIC, "--json").stdout)
    assert (trend["unit"], trend["better"], len(trend["points"])) == ("/s", "up", RUNS + 2)
    export = runs.project.pinet("export", "--format", "openmetrics").stdout
    assert "# UNIT pinet_transactions_per_second per_second\n" in export
    assert f'pinet_transactions_per_second{{figure="{METRIC}"' in export
