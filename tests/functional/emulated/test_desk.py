"""A desk from the first login to verdicts: `pinet init` writes the lab file, and gates use this file.

The board has ssh, one port and the user pi with sudo, and neither power control, console nor coordinator. The driver of
its port is the driver under test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.config.labfile import load
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.deploy.trial import LOG
from pytest_pinet.lab.labgrid.identity import Identity
from tests.support.emulated_desk import EmulatedDesk, emulated_desk, is_as_found
from tests.support.emulated_gate import NEEDS
from tests.support.labgrid_head import lab_with_peer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
BOARD = "plain"
HIDDEN = lab_with_peer(
    "hidden",
    {"virt": "title: QEMU virt, clock_mhz: 62, cores: 1, buses: [pcie3x1], onboard: e1000e"},
    ("e1000e", "driver: e1000e, bus: pcie3x1"),
    1000,
    {
        BOARD: "board: virt, machine: virt, clock: virtual, management: same, user: pi, boot_timeout: 240 s, "
        "interfaces: {onboard: {port: PORT}}"
    },
)
# The change of the slower build is four times the tolerance, so few boots decide.
TEST = """
import pytest

@pytest.mark.pinet(board="qemu-virt", nic="onboard", tolerance="10%")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")
"""
BUILDS = {
    # The driver copies each packet once more.
    "slow.yaml": "name: bounce buffers\ncmdline: swiotlb=force\n",
    "panics.yaml": "name: panics\ncmdline: rdinit=/nope root=mtd0\n",
    "blind.yaml": "name: blind\ncmdline: module_blacklist=e1000e\n",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedDesk]:
    with emulated_desk(tmp_path_factory, HIDDEN, BOARD, "peer") as desk:
        for name, text in {"test_change.py": TEST, **BUILDS}.items():
            desk.project.write(name, text)
        yield desk


@pytest.fixture(scope="module")
def file(desk: EmulatedDesk) -> Path:
    """The lab file that ``pinet init`` wrote, with two more lines.

    ssh does not show that the clock is virtual. The guard of a trial waits for the boot timeout.
    """
    file = desk.init(BOARD, "pi", "1G")
    head = f"    {BOARD}:\n      board: qemu-virt\n"
    text = file.read_text()
    assert text.count(head) == 1
    file.write_text(text.replace(head, f"{head}      clock: virtual\n      boot_timeout: 180 s\n"))
    return file


def test_check_and_doctor_accept_the_file_and_list_what_the_desk_lacks(desk: EmulatedDesk, file: Path) -> None:
    text = " ".join(desk.doctor(file))
    assert "no power control: a kernel that hangs needs you to unplug the board; gates of builds ask before" in text
    assert "no serial console: the last words of a kernel that dies are lost" in text
    assert "no managed switch: cables and byte counts are not checked" in text
    assert "none: a lock file on each board leases it to one user at a time" in text


def test_the_first_suite_runs(desk: EmulatedDesk, file: Path) -> None:
    # A processor that is emulated in software reaches no line rate.
    words = ("--pyargs", "pytest_pinet.suites.test_everyday", "--pinet-profile=fast", "--pinet-min", "20 Mbit/s")
    output = desk.project.pytest(*words, "--pinet-board=qemu-virt", lab_file=file, timeout_s=600)
    assert output.ret == 0
    assert set(desk.project.verdicts.values()) <= {"pass", "marginal"}
    assert is_as_found(desk.lab, BOARD)


def test_a_build_that_makes_the_driver_slower_fails(desk: EmulatedDesk, file: Path) -> None:
    code, text = desk.gate("slow.yaml", file, "--yes")
    assert code == 1, text
    (entry,) = desk.project.results["change"]["entries"]
    assert entry["verdict"] == "fail"
    assert is_as_found(desk.lab, BOARD)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("panics", id="panics-comes-back-by-itself"),
        pytest.param("blind", id="without-a-network-comes-back-by-the-guard"),
    ],
)
def test_a_build_that_does_not_come_up(desk: EmulatedDesk, file: Path, name: str) -> None:
    code, text = desk.gate(f"{name}.yaml", file, "--yes")
    assert code == 1, text
    assert f"{name} does not come up on {BOARD}, which booted its known-good build" in text
    assert f"unplug {BOARD} and plug it in again" not in text
    assert is_as_found(desk.lab, BOARD)


def test_a_kernel_that_hangs_is_reset_by_the_watchdog(desk: EmulatedDesk, file: Path, tmp_path: Path) -> None:
    session = LabAccess(load(file), Identity.of_this_process(), 60.0, lambda _: None)
    (tmp_path / "build.yaml").write_text("name: hangs\ncmdline: quiet\n")
    build = load_build(str(tmp_path / "build.yaml"))
    try:
        (node,) = session.pool.get([session.lab.nodes[BOARD]], 60.0)
        node.deployment.check(build)
        assert "A watchdog and panic=10 bring its known-good build back" in node.deployment.risk(build)
        assert "quiet" in node.deployment.start(build).cmdline.split()
        wait_until("the guard", lambda: node.shell.run(f"cat {LOG}").stdout.strip() == "watchdog yes", 60)
        # No process runs any more beside this loop, not even the guard.
        hang = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; chrt -f 99 sh -c 'while :; do :; done'"
        node.shell.run(as_root(f"{{ {hang}; }} </dev/null >/dev/null 2>&1 &"))
        node.await_boot()
        assert "quiet" not in node.shell.run("cat /proc/cmdline").stdout.split()
    finally:
        warnings = session.close()
    assert warnings == []
    assert is_as_found(desk.lab, BOARD)
    assert os.environ.get("LG_COORDINATOR") is None
