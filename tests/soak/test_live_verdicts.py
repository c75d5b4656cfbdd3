"""Verdicts on a real link of the virtual lab."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.gate_project import LINE_RATE_SUITE, PINET, GateLab, NewProject, Project, shaped
from tests.support.visited_link import PAIR

# Gates per reduction in one process.
EACH = 10
GATES = 100


@pytest.mark.soak(
    "Of 200 gates on links that are unchanged or {slower} % slower, at most 2 give a wrong verdict or none.",
    runs=2 * GATES,
    allowed=2,
    minutes=30,
)
@pytest.mark.parametrize("slower", [5, 10])
def test_gates_on_a_known_reduction(
    gate_lab: GateLab, soak_count: Callable[[int, int, str], None], soak_number: int, slower: int
) -> None:
    words = ("--reductions", f"{slower}%", "--repeats", str(EACH), "--seed", str(soak_number + 1), "--json")
    argv = [PINET, "selftest", "--lab", str(gate_lab.file), PAIR, *words]
    environment = {**os.environ, **gate_lab.environment}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    print(done.stdout, done.stderr)  # noqa: T201  (into the log of the run)
    (found,) = json.loads(done.stdout)
    counts = [{name: count[name] for name in ("reduction", "right", "wrong")} for count in found["counts"]]
    soak_count(2 * EACH, 2 * EACH - sum(count["right"] for count in found["counts"]), f"{counts}")


def run_gate(project: Project) -> tuple[pytest.RunResult, dict[str, Any]]:
    options = ("-p", "no:cacheprovider", f"--pinet-run-dir={project.path}")
    return project.pytest(str(LINE_RATE_SUITE), *options, timeout_s=240), project.results


def what(result: dict[str, Any]) -> tuple[str, str]:
    (direction,) = result["directions"]
    return result["combination"]["id"], direction


@pytest.mark.soak(
    "If {target} loses a tenth of its {direction} rate, exactly the results that are limited by this rate fail.", runs=3
)
@pytest.mark.parametrize(
    ("target", "direction", "id_"),
    [("pi4b-1:usb", "tx", "pi4b:ax88179/pair"), ("pi5-1:onboard", "rx", "pi5:onboard/pair")],
)
def test_exactly_what_runs_over_a_degraded_nic_fails(
    new_project: NewProject, gate_lab: GateLab, target: str, direction: str, id_: str
) -> None:
    gate_lab.degrade(target, "--rate", "0.9", "--direction", direction)
    try:
        output, results = run_gate(new_project({}))
    finally:
        gate_lab.restore()
    assert output.ret == pytest.ExitCode.TESTS_FAILED
    failed = {what(result) for result in results["results"] if result["verdict"] == "fail"}
    # A direction of the device under test is the other direction of the peer.
    other = {"tx": "rx", "rx": "tx"}[direction]
    ends = {("dut", direction), ("peer", other)}
    over = [
        result
        for result in results["results"]
        if any((result["combination"][end], [way]) == (target, list(result["directions"])) for end, way in ends)
    ]
    # A link that is slower than the degraded NIC (the AX88179 sends 730 Mbit/s) does not notice.
    rate = shaped(gate_lab, target, direction)
    noticed = {
        what(result) for result in over if next(iter(result["directions"].values()))["limit"]["number"] > 0.9 * rate
    }
    assert (id_, direction) in noticed
    assert failed == noticed
