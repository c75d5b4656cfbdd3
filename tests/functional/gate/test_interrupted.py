"""Interrupted runs and parallel runs: no result is lost, and no process or setting is left."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_pinet.history.history import open_history
from tests.support.gate_project import PINET, GateLab, NewProject, Project, wait_until

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


MATRIX = f"""
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_rate(link, gate, direction):
    gate.tcp(link, direction=direction, {QUICK})

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic="onboard", min="60 Mbit/s")
def test_full_rate(link, gate, direction):
    gate.tcp(link, direction=direction, duration=1, warmup=0.5)
"""


@pytest.fixture(scope="module")
def parallel(new_project: NewProject, gate_lab: GateLab) -> Iterator[tuple[Project, pytest.RunResult]]:
    """Yield a parallel run with a NIC too slow for the tests without a set bitrate."""
    project = new_project({"test_matrix.py": MATRIX})
    gate_lab.degrade("pi3b-1:onboard", "--rate", "0.3")
    yield project, project.pytest("-n", "2", timeout_s=300)
    gate_lab.restore()


def test_two_workers_give_each_test_its_verdict(parallel: tuple[Project, pytest.RunResult]) -> None:
    project, output = parallel
    output.assert_outcomes(passed=2, failed=2)
    assert project.verdicts == {
        "test_rate[pi3b:onboard/pair-tx]": "pass",
        "test_rate[pi3b:onboard/pair-rx]": "pass",
        "test_full_rate[pi3b:onboard/pair-tx]": "fail",
        "test_full_rate[pi3b:onboard/pair-rx]": "fail",
    }
    output.stdout.fnmatch_lines(["4 measured: 2 pass, 2 fail"])


def test_two_workers_write_one_complete_file(parallel: tuple[Project, pytest.RunResult]) -> None:
    project, _ = parallel
    assert project.results["complete"] is True
    assert project.results["exitstatus"] == 1
    assert len(list((project.path / ".pinet" / "runs").iterdir())) == 1
    latest = project.path / ".pinet" / "latest"
    results = project.results["results"]
    files = [file for result in results for file in result["files"]]
    # For each connection the command, output and errors of both ends; for both ends the observers' data and more.
    connections = [len(figures["connections"]) for result in results for figures in result["directions"].values()]
    assert len(connections) == 4
    assert len(set(files)) == len(files)
    ends = [file for file in files if Path(file).stem.rpartition("-")[2] in ("client", "server")]
    assert len(ends) == 6 * sum(connections)
    assert len([file for file in files if file.endswith("observer.txt")]) == 4 * 2
    assert all((latest / file).exists() for file in files)


def test_two_workers_leave_nothing(parallel: tuple[Project, pytest.RunResult], gate_lab: GateLab) -> None:
    assert "could not" not in parallel[1].stdout.str()
    assert_clean(gate_lab)


def test_one_worker_or_two_makes_no_difference(parallel: tuple[Project, pytest.RunResult]) -> None:
    project, output = parallel
    expected = project.verdicts
    serial = project.pytest()
    assert serial.ret == output.ret
    assert project.verdicts == expected


def test_a_dead_coordinator_is_one_clear_error(project: Project, tmp_path: Path) -> None:
    text = project.lab.text_without_launcher()
    text = text.replace('!template "$LG_COORDINATOR"', "127.0.0.1:1")
    # All other values that the launcher provides.
    text = re.sub(r'!template "\$LG_\w+"', "unknown", text)
    (tmp_path / "dead.yaml").write_text(text)
    output = project.pytest(lab_file=tmp_path / "dead.yaml")
    output.assert_outcomes(errors=2)
    output.stdout.fnmatch_lines(
        [
            "* ERROR at setup of test_first*",
            "no labgrid coordinator answers at 127.0.0.1:1: *",
            "  -> the lab's admin: check that labgrid-coordinator runs there *",
            "0 measured; 2 not measured: 2 error",
        ]
    )
    assert "Traceback" not in output.stdout.str()


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


def test_what_a_killed_run_measured_can_come_into_the_history(after_kill: AfterKill, tmp_path: Path) -> None:
    url = str(tmp_path / "history.db")
    words = [PINET, "history", "import", "--history", url, str(after_kill.folder / "results.jsonl")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "1 run read, 1 of them new\n", done.stderr
    with open_history(url) as history:
        (run,) = history.runs()
    assert (run.lab, run.figures, run.complete, run.verdicts) == ("virtual", "emulated", False, {"pass": 1})


def test_after_kill_9_in_mid_traffic_the_next_run_works(project: Project, after_kill: AfterKill) -> None:
    assert after_kill.output.ret == 0
    assert project.verdicts == {FIRST: "pass"}


def test_after_kill_9_the_next_run_leaves_nothing(after_kill: AfterKill, gate_lab: GateLab) -> None:
    assert gate_lab.holders() == []
    assert set(gate_lab.port_groups().values()) == {"br0"}
    # The nodes were on before, so they stay on. Nothing of either run is left on them.
    assert gate_lab.nodes_on() == {"pi3b-1", "pi3b-2"}
    assert after_kill.addresses == []
