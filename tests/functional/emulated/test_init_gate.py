"""A desk from the first login to verdicts: `pinet init` writes the lab file, and gates use this file.

The board has ssh, one port and the user pi with sudo. The driver of this port is the driver under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulated_desk import EmulatedDesk, is_as_found
from tests.support.emulated_gate import BOOT_S, NEEDS, card_or_skip
from tests.support.gate_project import lab_up, wait_until
from tests.support.labgrid_head import lab_with_peer

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
    "good.yaml": "cmdline: quiet\n",
    # The driver copies each packet once more.
    "slow.yaml": "name: bounce buffers\ncmdline: swiotlb=force\n",
    "blind.yaml": "name: blind\ncmdline: module_blacklist=e1000e\n",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedDesk]:
    with card_or_skip(), lab_up(tmp_path_factory.mktemp("hidden") / "lab.yaml", HIDDEN) as lab:
        lab.switch_power(True, BOARD, "peer")
        for node in (BOARD, "peer"):
            wait_until(f"the boot of {node}", lambda node=node: lab.answers(node), BOOT_S)  # type: ignore[misc]
        desk = EmulatedDesk(lab, tmp_path_factory.mktemp("desk"))
        for name, text in {"test_change.py": TEST, **BUILDS}.items():
            desk.project.write(name, text)
        yield desk


@pytest.fixture(scope="module")
def file(desk: EmulatedDesk) -> Path:
    """The lab file that ``pinet init`` wrote, with one more line: ssh does not show that this clock is virtual."""
    file = desk.init(BOARD, "pi", "1G")
    head = f"    {BOARD}:\n      board: qemu-virt\n"
    text = file.read_text()
    assert text.count(head) == 1
    file.write_text(text.replace(head, f"{head}      clock: virtual\n"))
    return file


def gate(desk: EmulatedDesk, file: Path, build: str, *words: str) -> tuple[int, str]:
    """Return the exit code of a gate, and its output as one line."""
    done = desk.pinet("gate", build, f"--lab={file}", "-p", "no:hypothesispytest", *words, timeout_s=900)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_check_and_doctor_accept_the_file(desk: EmulatedDesk, file: Path) -> None:
    messages = desk.doctor(file)
    assert any("no power control: a kernel that hangs needs you to unplug the board" in text for text in messages)


def test_a_good_build_passes(desk: EmulatedDesk, file: Path) -> None:
    code, text = gate(desk, file, "good.yaml", "--yes")
    assert code == 0, text
    assert is_as_found(desk.lab, BOARD)


def test_a_build_that_makes_the_driver_slower_fails(desk: EmulatedDesk, file: Path) -> None:
    code, text = gate(desk, file, "slow.yaml", "--yes")
    assert code == 1, text
    (entry,) = desk.project.results["change"]["entries"]
    assert entry["outcome"] == "regression"
    assert is_as_found(desk.lab, BOARD)


def test_a_build_without_a_network_fails_and_the_guard_brings_the_board_back(desk: EmulatedDesk, file: Path) -> None:
    code, text = gate(desk, file, "blind.yaml", "--yes")
    assert code == 1, text
    assert f"blind does not come up on {BOARD}, which booted its known-good build" in text
    assert f"unplug {BOARD} and plug it in again" not in text
    assert is_as_found(desk.lab, BOARD)
