"""What a run costs beside its traffic."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import startup
from benchmarks.makespan import measured
from tests.support.doctor_command import doctor
from tests.support.gate_project import LINE_RATE_SUITE, PINET, GateLab, NewProject

QUICK = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_quick(link, gate):
    gate.tcp(link, duration=1, warmup=0.5, bitrate="20 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_long(link, gate):
    gate.tcp(link, duration=30, bitrate="20 Mbit/s", min="10 Mbit/s")
"""


@pytest.mark.soak("The gate of the default lab passes, and takes less than 35 s besides its traffic.", runs=10)
def test_the_whole_gate_costs_little_beside_its_traffic(new_project: NewProject) -> None:
    project = new_project({})
    output = project.pytest(
        str(LINE_RATE_SUITE), "-p", "no:cacheprovider", f"--pinet-run-dir={project.path}", timeout_s=240
    )
    assert output.ret == 0
    results = project.results["results"]
    assert {result["verdict"] for result in results} <= {"pass", "marginal"}
    assert len({result["combination"]["id"] for result in results}) >= 6
    assert output.duration - sum(result["traffic_seconds"] for result in results) < 35


@pytest.mark.soak("With two workers the gate takes at most 1.15 times as long as its traffic alone.", runs=5)
def test_two_workers_take_little_longer_than_the_traffic_alone(gate_lab: GateLab) -> None:
    # All nodes are in one domain, so traffic is sequential whatever the schedule. Measured: 1.11 on two idle cores, and
    # 1.37 with one worker.
    makespan_s, bound_s = measured(str(gate_lab.file), 2)
    assert makespan_s <= 1.15 * bound_s


@pytest.mark.soak("`pinet doctor` checks a healthy virtual lab in less than 10 s, and finds no fault.", runs=10)
def test_the_doctor_is_quick(gate_lab: GateLab) -> None:
    found = doctor(gate_lab)
    assert (found.wrong, found.busy, found.code) == ({}, False, 0)
    assert found.seconds < 10


@pytest.mark.soak("If the coordinator does not answer, one clear error is printed in less than 10 s.", runs=5)
def test_a_dead_coordinator_is_found_quickly(new_project: NewProject, gate_lab: GateLab, tmp_path: Path) -> None:
    text = gate_lab.file.read_text().replace("  launcher: virtual\n", "")
    text = text.replace('!template "$LG_COORDINATOR"', "127.0.0.1:1")
    # All other values that the launcher provides.
    (tmp_path / "dead.yaml").write_text(re.sub(r'!template "\$LG_\w+"', "unknown", text))
    output = new_project({"test_quick.py": QUICK}).pytest(lab_file=tmp_path / "dead.yaml")
    output.assert_outcomes(errors=2)
    output.stdout.fnmatch_lines(["no labgrid coordinator answers at 127.0.0.1:1: *"])
    assert output.duration < 10


@pytest.mark.soak("After a gate is killed during its traffic, the next gate passes in less than 15 s.", runs=5)
def test_the_gate_after_a_killed_one_is_quick(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_quick.py": QUICK})
    with subprocess.Popen(
        project.argv("-v"), cwd=project.path, env=project.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("PASSED" in line for line in process.stdout)
        gate_lab.await_traffic()
        process.kill()
    output = project.pytest("-k", "quick")
    assert output.ret == 0
    assert output.duration < 15


@pytest.mark.soak(
    "A pytest run without pinet tests takes at most 50 ms more with pytest-pinet, apart from labgrid's own plugin (the "
    "least processor time of 20 runs each).",
    runs=5,
)
def test_an_unused_plugin_costs_little() -> None:
    found = startup.measured(20, [startup.PLAIN, startup.ALONE])
    plain_s, alone_s = (min(processor for _, processor in found[way]) for way in found)
    assert alone_s <= plain_s + 0.05


@pytest.mark.soak("`pinet demo` takes less than 2 minutes, and decides right each time.", runs=5)
def test_the_demo_is_quick(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PINET, "demo", "--yes", *words], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip

    try:
        done = run()
    finally:
        run("--remove")
    took = re.search(r"^This took (\d+) s\.", done.stdout, re.M)
    assert took is not None, done.stdout + done.stderr
    assert (done.returncode, int(took[1]) < 120) == (0, True), done.stdout
