"""The gate names what limited goodput. Each cause is provoked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate_project import SCALE, GateLab, NewProject, Project, lab_text, lab_up
from tests.support.orphan import orphan
from tests.support.waiting import wait_until

SCENARIOS = """
from pathlib import Path

import pytest

gigabit = pytest.mark.pinet(board="pi4b", nic="onboard", profile="fast", min="1%")
fast_ethernet = pytest.mark.pinet(board="pi3b", nic="onboard", profile="fast", min="1%")
usb2 = pytest.mark.pinet(board="pi3b", nic="ax88179", profile="fast", min="1%")


@gigabit
def test_plain(link, gate):
    gate.tcp(link, duration=1, min="500 Mbit/s")


@gigabit
def test_small_writes(link, gate):
    # Each write costs a system call. The values are noisy, so the gate needs several connections: short ones.
    gate.tcp(link, duration=1, length=64)


@gigabit
def test_told_peer(link, gate):
    gate.tcp(link, direction="rx", duration=1, bitrate="200M")


@fast_ethernet
def test_fast_ethernet(link, gate):
    gate.tcp(link, duration=3)


@fast_ethernet
def test_long(link, gate):
    # Longer than a command takes on a busy machine.
    gate.tcp(link, duration=15)


@pytest.mark.pinet(board="pi3b", nic="onboard", min="90%")
def test_at_least_90_percent(link, gate):
    Path("begun").touch()
    gate.tcp(link, duration=1)


@usb2
def test_both_ways(link, gate):
    gate.tcp(link, direction="bidir", duration=1)
"""
PATIENCE_S = 300


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project({"test_scenarios.py": SCENARIOS})


def limited_by(project: Project, test: str) -> dict[str, Any]:
    """Run one scenario and return what limited it."""
    project.pytest(f"test_scenarios.py::{test}", "-v", timeout_s=PATIENCE_S)
    (result,) = project.results["results"]
    found: dict[str, Any] = result["limited_by"]
    return found


@contextmanager
def degraded(lab: GateLab, *words: str) -> Iterator[None]:
    lab.degrade(*words)
    try:
        yield
    finally:
        lab.restore()


@pytest.mark.slow
def test_a_full_line(project: Project) -> None:
    output = project.pytest("test_scenarios.py::test_fast_ethernet", "-v", timeout_s=PATIENCE_S)
    output.stdout.fnmatch_lines(["*limited by line rate: the link is full: 9?.? Mbit/s of 94.1 Mbit/s*"])
    (result,) = project.results["results"]
    dut = result["evidence"][0]
    assert (dut["connection"], dut["end"], dut["restarted"]) == (1, "pi3b-1:onboard", [])
    # The device's counters include the traffic, and hardly anything else.
    received = SCALE * sum(
        sample["bytes"] for one in result["directions"]["tx"]["connections"] for sample in one["samples"]
    )
    assert received < dut["interface"]["tx_bytes"] < 1.3 * received
    assert dut["interface"]["carrier_changes"] == 0
    assert 0 < max(load["busy"] for load in dut["processors"]) <= 1
    assert sum(dut["softnet"]["processed"]) > 100
    names = {Path(name).name for name in result["files"]}
    sources = ("stat", "softirqs", "softnet", "interrupts", "interface", "switch")
    assert {"versions.txt", *(f"0-{name}.txt" for name in sources)} <= names


@pytest.mark.slow
def test_a_program_that_ends_hides_no_slow_link(project: Project, gate_lab: GateLab) -> None:
    """The connections beside the program are left out, and those after it decide."""
    begun = project.path / "begun"

    def work() -> None:
        wait_until("the test", begun.exists)
        # A program that the test itself started would be ours.
        orphan({}, "timeout", "7.5", "taskset", "-c", "0", "sh", "-c", "while :; do :; done")

    with degraded(gate_lab, "pi3b-1:onboard", "--rate", "0.5"), ThreadPoolExecutor(1) as pool:
        program = pool.submit(work)
        project.pytest("test_scenarios.py::test_at_least_90_percent", "-v", timeout_s=PATIENCE_S)
        program.result()
    (result,) = project.results["results"]
    assert result["verdict"] == "fail", result["message"]
    left_out = [one["excluded"] for one in result["directions"]["tx"]["connections"] if one["excluded"]]
    assert any(one.startswith("other programs took") for one in left_out)


@pytest.mark.slow
def test_a_board_whose_firmware_throttles_in_mid_traffic(project: Project, gate_lab: GateLab) -> None:
    argv = project.argv("test_scenarios.py::test_long", "-v")
    # A throttled board is slower. A full line remains the cause even if something else is wrong.
    with (
        degraded(gate_lab, "pi3b-1:onboard", "--rate", "0.6"),
        subprocess.Popen(argv, cwd=project.path, env=project.environment(), stdout=subprocess.PIPE) as process,
    ):
        try:
            wait_until("traffic to start", lambda: len(gate_lab.processes("iperf3")) >= 2, PATIENCE_S)
            gate_lab.degrade("pi3b-1", "--throttle", "throttled")
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    (result,) = project.results["results"]
    assert result["limited_by"]["cause"] == "thermal or under-voltage", output.decode()
    assert result["limited_by"]["text"] == "pi3b-1:onboard had throttled during the traffic"
    # The measured value is reported with a note on its validity.
    figure = result["directions"]["tx"]
    assert (result["verdict"], figure["verdict"]) == ("invalid", "invalid")
    assert figure["goodput_bps"] < 0.61 * 94.15e6
    assert "is invalid: pi3b-1 is limited by its firmware" in result["message"]
    assert "give it a stronger power supply, a shorter cable, or cooling" in result["notes"]


@pytest.mark.smoke
def test_a_port_at_100_is_the_cause_and_no_regression(tmp_path: Path) -> None:
    port = "onboard: {port: sw1/p4}"
    text = lab_text()
    assert port in text
    with lab_up(tmp_path / "virtual.yaml", text.replace(port, "onboard: {port: sw1/p4, speed: 100 Mbit/s}")) as lab:
        project = Project(tmp_path, lab)
        project.write("test_scenarios.py", SCENARIOS)
        found = limited_by(project, "test_plain")
    # No build can meet this limit on such a link, so the value does not blame one.
    assert list(project.verdicts.values()) == ["invalid"]
    assert found["cause"] == "link speed or duplex"
    begin = r"the link of pi4b-1:onboard runs at 100 Mbit/s, though its NIC supports 1000: \d+\.\d Mbit/s"
    assert re.match(begin, found["text"])
