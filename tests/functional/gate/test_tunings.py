"""Tunings on the virtual lab: applied, read back, and undone however a test ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.gate_project import PINET, GateLab, NewProject, Project
from tests.support.waiting import wait_until

NODES = ("pi4b-1", "pi4b-2")
MARKED = '@pytest.mark.pinet(board="pi4b", nic="onboard"'
LONG = f"""
import pathlib
import time

import pytest


{MARKED}, tuning={{"mtu": 4000, "tso": "off"}})
def test_long(link):
    pathlib.Path("ready").write_text("")
    time.sleep(60)


{MARKED})
def test_next(link):
    assert link.path.mtu == 1500
    assert "tcp-segmentation-offload: on" in link.dut.shell.run("ethtool -k eth0").stdout
    # The journal has the changes of this link only: its address and its ARP settings.
    kept = link.dut.shell.run("grep -h '^# ' /run/pytest-pinet/tunings/*").stdout.splitlines()
    assert [line.split()[1] for line in kept] == ["address", "ARP"], kept
"""
BRICK = f"""
import pytest

BRICK = {{"arm_freq": 1750, "kernel": "root=mtd0"}}


{MARKED}, tuning=[{{}}, BRICK])
def test_first(link):
    assert not link.combination.tuning


{MARKED}, tuning=[BRICK, {{"arm_freq": 1700}}])
def test_second(link):
    assert [(one.name, one.outcome.value, one.found) for one in link.tunings] == [("arm_freq", "applied", "1700")]
"""


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project({"test_long.py": LONG, "test_brick.py": BRICK})


@pytest.fixture
def booted(gate_lab: GateLab) -> Iterator[None]:
    """Switch on both nodes before the run, so that they keep their power and all settings afterwards."""
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    yield
    gate_lab.switch_power(False, *NODES)


def await_known_good(lab: GateLab, node: str) -> None:
    """Wait until a node that was released runs its known-good files, and check that nothing else is there."""

    check = [PINET, "lab", "exec", "--lab", str(lab.file), node, "--", "! grep -q pinet.build /proc/cmdline"]

    def known_good() -> bool:
        # The node may be rebooting.
        return subprocess.run(check, capture_output=True, timeout=60, check=False).returncode == 0

    wait_until(f"the known-good build of {node}", known_good)
    assert "1750" not in lab.execute(node, "cat /boot/firmware/*.txt")
    assert lab.execute(node, "ls", "/boot/firmware").split() == ["cmdline.txt", "config.txt", "kernel8.img"]


def mtus(lab: GateLab) -> list[str]:
    return [lab.execute(node, "cat", "/sys/class/net/eth0/mtu").strip() for node in NODES]


@contextmanager
def amid_test(project: Project) -> Iterator[subprocess.Popen[str]]:
    """Yield pytest while its test with a tuning runs."""
    ready = project.path / "ready"
    ready.unlink(missing_ok=True)
    argv = project.argv("test_long.py::test_long")
    process = subprocess.Popen(argv, cwd=project.path, env=project.environment(), stdout=subprocess.PIPE, text=True)
    try:
        wait_until("the test to be tuned", ready.exists, timeout_s=60)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.usefixtures("booted")
def test_ctrl_c_takes_settings_back(project: Project, gate_lab: GateLab) -> None:
    with amid_test(project) as process:
        assert mtus(gate_lab) == ["4000", "4000"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert mtus(gate_lab) == ["1500", "1500"]


@pytest.mark.slow
@pytest.mark.usefixtures("booted")
def test_what_a_killed_process_left_is_taken_back_by_the_next_that_leases_the_node(
    project: Project, gate_lab: GateLab
) -> None:
    with amid_test(project) as process:
        process.kill()
        process.wait()
    assert mtus(gate_lab) == ["4000", "4000"]
    result = project.pytest("test_long.py::test_next")
    result.assert_outcomes(passed=1)
    text = " ".join(result.stdout.str().split())
    assert "undid mtu=4000 of pi4b-1:onboard, which an interrupted run left on pi4b-1" in text
    assert "undid tso=off of pi4b-1:onboard, which an interrupted run left on pi4b-1" in text
    assert mtus(gate_lab) == ["1500", "1500"]


@pytest.mark.smoke
def test_a_board_that_does_not_boot_with_the_tuning_is_healed_by_one_power_cycle(
    project: Project, gate_lab: GateLab
) -> None:
    gate_lab.switch_power(True, *NODES)
    gate_lab.await_boot(*NODES)
    before = gate_lab.execute("pi4b-1", "ls -li --full-time /boot/firmware/c*.txt")
    try:
        result = project.pytest("test_brick.py")
        result.assert_outcomes(passed=2, errors=2)
        text = " ".join(result.stdout.str().split())
        why = (
            "the known-good build with arm_freq=1750+kernel=root=mtd0 does not come up on pi4b-1, but the known-good "
            "build does: kernel panic on pi4b-1 while it booted"
        )
        assert why in text
        assert "leave out arm_freq=1750+kernel=root=mtd0, or choose other values" in text
        console = (project.path / ".pinet" / "latest" / "console" / "pi4b-1.log").read_text()
        # The second test with this tuning does not make the board hang again.
        assert console.count("not syncing: VFS: Unable to mount root fs") == 2, "one panic prints this twice"
        assert (console.count("power off"), console.count("power on")) == (1, 1)
        await_known_good(gate_lab, "pi4b-1")
        assert gate_lab.execute("pi4b-1", "ls -li --full-time /boot/firmware/c*.txt") == before
    finally:
        gate_lab.switch_power(False, *NODES)
