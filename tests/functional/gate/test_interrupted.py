"""Interrupted runs and parallel runs: no result is lost, and no process or setting is left."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gate_project import GateLab, NewProject, Project
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

QUICK = "duration=1, warmup=0.5, bitrate='20 Mbit/s', min='10 Mbit/s'"
TESTS = f"""
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_first(link, gate):
    gate.tcp(link, {QUICK})

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_long(link, gate):
    gate.tcp(link, duration=120, bitrate="20 Mbit/s", min="10 Mbit/s")
"""
FIRST = "test_first[pi3b:onboard/pair]"


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project({"test_cut.py": TESTS})


@contextmanager
def amid_long_traffic(project: Project, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start pytest and wait until its first test has passed and the traffic of the second one runs."""
    process = subprocess.Popen(
        project.argv("-v", *options), cwd=project.path, env=project.environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "PASSED" in line:
                break
        project.lab.await_traffic()
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def assert_clean(lab: GateLab) -> None:
    assert lab.processes("iperf3") == []
    assert lab.nodes_on() == set()
    assert set(lab.port_groups().values()) == {"br0"}
    assert lab.holders() == []


def test_ctrl_c_in_mid_traffic_writes_the_results_and_leaves_the_lab(project: Project, gate_lab: GateLab) -> None:
    with amid_long_traffic(project) as process:
        process.send_signal(signal.SIGINT)
        # Its traffic would run for two minutes.
        output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    assert "1 measured: 1 pass" in output
    assert project.results["complete"] is False
    assert project.results["exitstatus"] == pytest.ExitCode.INTERRUPTED
    assert project.verdicts == {FIRST: "pass"}
    assert_clean(gate_lab)


def test_ctrl_c_that_only_the_controller_gets_ends_its_workers_too(project: Project, gate_lab: GateLab) -> None:
    with amid_long_traffic(project, "-n", "2") as process:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "1 measured: 1 pass" in output
    assert project.verdicts == {FIRST: "pass"}
    assert_clean(gate_lab)


@dataclass(frozen=True)
class AfterKill:
    """The state after pytest was killed during traffic, when the traffic had ended, and the next run."""

    folder: Path
    kept: list[str]
    output: pytest.RunResult
    addresses: list[str]


@pytest.fixture(scope="module")
def after_kill(project: Project, gate_lab: GateLab) -> Iterator[AfterKill]:
    with amid_long_traffic(project) as process:
        process.kill()
        process.wait(5)
    wait_until("the end of traffic that lasts two minutes", lambda: not gate_lab.processes("iperf3"), timeout_s=60)
    folder = (project.path / ".pinet" / "latest").resolve()
    kept = (folder / "results.jsonl").read_text().splitlines()
    output = project.pytest("-k", "first")
    addresses = gate_lab.addresses("pi3b-1") + gate_lab.addresses("pi3b-2")
    yield AfterKill(folder, kept, output, addresses)
    gate_lab.switch_power(False, "pi3b-1", "pi3b-2")


def test_a_killed_run_keeps_what_it_has_measured(after_kill: AfterKill) -> None:
    assert [json.loads(line)["test"].partition("::")[2] for line in after_kill.kept] == [FIRST]


def test_after_kill_9_in_mid_traffic_the_next_run_works(project: Project, after_kill: AfterKill) -> None:
    assert after_kill.output.ret == 0
    assert project.verdicts == {FIRST: "pass"}


def test_after_kill_9_the_next_run_leaves_nothing(after_kill: AfterKill, gate_lab: GateLab) -> None:
    assert gate_lab.holders() == []
    assert set(gate_lab.port_groups().values()) == {"br0"}
    # The nodes were on before, so they stay on. Nothing of either run is left on them.
    assert gate_lab.nodes_on() == {"pi3b-1", "pi3b-2"}
    assert after_kill.addresses == []
