"""What limited a figure is named, each cause where it is provoked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gate_bench import GateLab, NewProject, Project, lab_text, wait_until

pytestmark = pytest.mark.slow

SCENARIOS = """
import pytest

gigabit = pytest.mark.pinet(board="pi4b", nic="onboard", profile="fast", min="1%")
fast_ethernet = pytest.mark.pinet(board="pi3b", nic="onboard", profile="fast", min="1%")
usb2 = pytest.mark.pinet(board="pi3b", nic="ax88179", profile="fast", min="1%")
fastest = pytest.mark.pinet(board="pi5", nic="rtl8125", profile="fast")


@gigabit
def test_plain(link, gate):
    gate.tcp(link, duration=2)


@gigabit
def test_small_writes(link, gate):
    # Each of them costs a system call. Such figures are noisy, and several connections taken: short ones.
    gate.tcp(link, duration=1, length=64)


@fastest
def test_window(link, gate):
    # Where both ends wake up quickly, such a window carries a gigabit.
    # The lab file has a limit of its own for this NIC; the one of a call counts before it.
    gate.tcp(link, duration=1, window="4K", min="1%")


@gigabit
def test_told_peer(link, gate):
    gate.tcp(link, direction="rx", duration=2, bitrate="200M")


@fast_ethernet
def test_fast_ethernet(link, gate):
    gate.tcp(link, duration=3)


@fast_ethernet
def test_long(link, gate):
    gate.tcp(link, duration=6)


@usb2
def test_both_ways(link, gate):
    gate.tcp(link, direction="bidir", duration=1)
"""
# Other measurements on this machine come first, by turns.
PATIENCE_S = 300
NODES = ("pi3b-1", "pi3b-2", "pi4b-1", "pi4b-2", "pi5-1", "cm4-1")


@pytest.fixture(scope="module")
def project(new_project: NewProject, gate_lab: GateLab) -> Iterator[Project]:
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    yield new_project({"test_scenarios.py": SCENARIOS})
    gate_lab.switch_power(False, *NODES)


def limited_by(project: Project, test: str) -> dict[str, Any]:
    """Run one scenario; what limited it."""
    project.pytest(f"test_scenarios.py::{test}", "-v", timeout_s=PATIENCE_S)
    (result,) = project.results["results"]
    found: dict[str, Any] = result["limited_by"]
    return found


@dataclass(frozen=True)
class Run:
    """One run of all scenarios in which the lab is as it is."""

    output: pytest.RunResult
    limits: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def run(project: Project) -> Run:
    tests = [f"test_scenarios.py::{test}" for test in ("test_window", "test_told_peer", "test_both_ways")]
    output = project.pytest(*tests, timeout_s=PATIENCE_S)
    # How much such a window carries, and how evenly, is the machine's: it may stay undecided.
    found = project.results["results"]
    assert len(found) == 3
    return Run(output, {result["test"].partition("::")[2].partition("[")[0]: result["limited_by"] for result in found})


@contextmanager
def degraded(lab: GateLab, *words: str) -> Iterator[None]:
    lab.pinet("degrade", *words)
    try:
        yield
    finally:
        lab.pinet("restore")


@contextmanager
def busy_cpu(cpu: int, seconds: float = 120) -> Iterator[None]:
    """One CPU of this machine without a moment's rest; it ends by itself after ``seconds``."""
    loop = ["timeout", f"{seconds:g}", "taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]
    with subprocess.Popen(loop) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_full_line(project: Project) -> None:
    output = project.pytest("test_scenarios.py::test_fast_ethernet", "-v", timeout_s=PATIENCE_S)
    output.stdout.fnmatch_lines(["*limited by line rate: the line is full: 9[34].? Mbit/s of 94.1 Mbit/s*"])
    (result,) = project.results["results"]
    dut = result["evidence"][0]
    assert (dut["attempt"], dut["end"], dut["restarted"]) == (1, "pi3b-1:onboard", [])
    # The counters of the device had the traffic in them, and hardly anything else.
    received = sum(sample["bytes"] for sample in result["directions"]["tx"]["samples"])
    assert dut["interface"]["tx_bytes"] == pytest.approx(received * 1514 / 1448, rel=0.05)
    assert dut["interface"]["carrier_changes"] == 0
    assert 0 < max(load["busy"] for load in dut["processors"]) <= 1
    assert sum(dut["softnet"]["processed"]) > 1000
    assert dut["window_s"] == pytest.approx(dut["traffic_s"], abs=1.0)
    names = {Path(name).name for name in result["files"]}
    sources = ("stat", "softirqs", "softnet", "interrupts", "interface", "switch")
    assert {"versions.txt", *(f"0-{name}.txt" for name in sources)} <= names


def test_without_verbosity_the_table_stays_short(run: Run) -> None:
    # Where pytest believes that it runs in CI it prints whole reasons after it.
    table = run.output.stdout.str().partition("pinet throughput")[2].partition("short test summary")[0]
    assert "pi4b:onboard/" in table
    assert "limited by" not in table


def test_one_busy_cpu(project: Project) -> None:
    with busy_cpu(0):
        found = limited_by(project, "test_small_writes")
    assert found["cause"] == "CPU"
    # Both nodes run here, and nobody can tell whose work it was.
    assert "of the machine that carries pi4b-1:onboard and" in found["text"]
    assert found["numbers"]["busy"] >= 0.95


def test_a_small_window(run: Run) -> None:
    # No delay can be added here (sch_netem is missing): the round trips are those of a bridge, some 30 us.
    found = run.limits["test_window"]
    assert found["cause"] == "window"
    assert found["text"].startswith("a window of 4 KiB was asked for, and 4 KiB in each round trip of 0.")
    assert found["numbers"]["window_bytes"] == 4096
    assert found["numbers"]["receiver_limited"] + found["numbers"]["sender_limited"] > 0.2


def test_losses(project: Project, gate_lab: GateLab) -> None:
    with degraded(gate_lab, "pi3b-1:onboard", "--loss", "2%"):
        found = limited_by(project, "test_fast_ethernet")
    assert found["cause"] == "loss"
    assert found["numbers"]["retransmit_rate"] == pytest.approx(0.02, rel=0.5)


def test_a_peer_that_was_told_a_rate(run: Run) -> None:
    found = run.limits["test_told_peer"]
    assert found["cause"] == "sender capped"
    assert found["text"].startswith("the sender pi4b-2:onboard was told to send 200.0 Mbit/s at most")


def test_a_rate_that_somebody_holds(project: Project, gate_lab: GateLab) -> None:
    with degraded(gate_lab, "pi3b-2:onboard", "--rate", "0.5"):
        output = project.pytest("test_scenarios.py::test_fast_ethernet", "--pinet-min=94%", timeout_s=PATIENCE_S)
    output.assert_outcomes(failed=1)
    (result,) = project.results["results"]
    assert result["limited_by"]["cause"] == "shaper"
    assert re.match(r"held at a constant 4[67]\.\d Mbit/s of 94\.1 Mbit/s \(within 0\.", result["limited_by"]["text"])
    # The text of the failure has it, too.
    output.stdout.fnmatch_lines(["*  limited by shaper: held at a constant 4[67].? Mbit/s of*"])


@pytest.mark.parametrize("what", ["throttled", pytest.param("under-voltage", marks=pytest.mark.soak)])
def test_a_board_whose_firmware_throttles_in_mid_traffic(project: Project, gate_lab: GateLab, what: str) -> None:
    argv = project.argv("test_scenarios.py::test_long", "-v")
    # A board that is throttled is slower; a full line stays one, whatever else there is.
    with (
        degraded(gate_lab, "pi3b-1:onboard", "--rate", "0.6"),
        subprocess.Popen(argv, cwd=project.path, env=project.environment(), stdout=subprocess.PIPE) as process,
    ):
        try:
            wait_until("traffic to start", lambda: len(gate_lab.processes("iperf3")) >= 2, PATIENCE_S)
            gate_lab.pinet("degrade", "pi3b-1", "--throttle", what)
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    # Until its next boot the firmware tells that it was so.
    gate_lab.switch_power(False, "pi3b-1")
    gate_lab.switch_power(True, "pi3b-1")
    gate_lab.await_boot("pi3b-1")
    (result,) = project.results["results"]
    assert result["limited_by"]["cause"] == "thermal or under-voltage", output.decode()
    assert result["limited_by"]["text"] == f"pi3b-1:onboard had {what} during the traffic"
    # What was measured is told, with what it is worth.
    figure = result["directions"]["tx"]
    assert (result["verdict"], figure["verdict"]) == ("invalid", "invalid")
    assert figure["goodput_bps"] == pytest.approx(0.6 * 94.1e6, rel=0.05)
    assert "says nothing: pi3b-1 is limited by its firmware" in result["message"]
    assert "give it a stronger power supply, a shorter cable, or cooling" in result["notes"]


def test_a_shared_bus(run: Run) -> None:
    found = run.limits["test_both_ways"]
    assert found["cause"] == "USB bus"
    assert found["text"].startswith("the USB 2 bus of pi3b-1:usb, which signals 480 Mbit/s and shared by both")


def test_a_port_at_100(tmp_path: Path) -> None:
    file = tmp_path / "virtual.yaml"
    port = "onboard: {port: sw1/p4}"
    text = lab_text()
    assert port in text
    file.write_text(text.replace(port, "onboard: {port: sw1/p4, speed: 100 Mbit/s}"))
    lab = GateLab(file)
    try:
        project = Project(tmp_path, lab)
        project.write("test_scenarios.py", SCENARIOS)
        found = limited_by(project, "test_plain")
    finally:
        lab.down()
    assert found["cause"] == "link speed or duplex"
    begin = r"the link of pi4b-1:onboard runs at 100 Mbit/s, though its NIC can 1000: 9[0-4]\.\d Mbit/s"
    assert re.match(begin, found["text"])
