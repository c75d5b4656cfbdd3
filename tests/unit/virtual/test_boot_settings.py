"""The settings that the stand-in firmware reads from the files on a virtual board's card."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.builds.kernel_files import read_image
from pytest_pinet.virtual.boot_settings import read_card, write_card
from pytest_pinet.virtual.pi_firmware import NoKernel


@pytest.fixture
def card(tmp_path: Path) -> Path:
    write_card(tmp_path / "card", "pi4b")
    return tmp_path / "card"


def append(card: Path, text: str) -> None:
    with (card / "config.txt").open("a") as file:
        file.write(text)


def test_a_fresh_card_boots_at_the_stock_clock_with_small_payloads(card: Path) -> None:
    boot = read_card(card, "pi4b", 1500)
    assert (boot.clock_mhz, boot.payload) == (1500, 128)
    assert "root=" in boot.cmdline
    assert boot.answers()["arm_freq"] == "1500"


def test_the_last_arm_freq_sets_the_clock(card: Path) -> None:
    append(card, "arm_freq=1800\nover_voltage=6\narm_freq=2000 # more\n")
    boot = read_card(card, "pi4b", 1500)
    assert boot.clock_mhz == 2000
    assert boot.answers()["over_voltage"] == "6"


@pytest.mark.parametrize(
    ("section", "board", "clock"),
    [("pi4", "pi4b", 2000), ("pi4", "cm4", 2000), ("pi5", "pi4b", 1500), ("all", "pi4b", 2000), ("none", "pi4b", 1500)],
)
def test_a_section_applies_only_to_its_boards(card: Path, section: str, board: str, clock: int) -> None:
    append(card, f"[{section}]\narm_freq=2000\n")
    assert read_card(card, board, 1500).clock_mhz == clock


@pytest.mark.parametrize("line", ["arm_freq=fast", "#arm_freq=2000", "arm_freq", "arm_freq=0"])
def test_the_firmware_ignores_invalid_settings(card: Path, line: str) -> None:
    append(card, f"{line}\n")
    assert read_card(card, "pi4b", 1500).clock_mhz == 1500


@pytest.mark.parametrize(
    ("words", "payload"),
    [("pci=pcie_bus_perf", 512), ("pci=nomsi,pcie_bus_perf", 512), ("pci=nomsi", 128), ("xpci=pcie_bus_perf", 128)],
)
def test_the_kernel_parameters_select_the_payload(card: Path, words: str, payload: int) -> None:
    (card / "cmdline.txt").write_text(f"root=/dev/mmcblk0p2 {words}\n")
    boot = read_card(card, "cm4", 1500)
    assert (boot.payload, boot.cmdline) == (payload, f"root=/dev/mmcblk0p2 {words}")


def test_the_kernel_gets_only_the_first_line(card: Path) -> None:
    (card / "cmdline.txt").write_text("root=/dev/mmcblk0p2\npci=pcie_bus_perf\n")
    assert read_card(card, "cm4", 1500).payload == 128


def test_an_existing_card_is_not_overwritten(card: Path) -> None:
    append(card, "arm_freq=2000\n")
    write_card(card, "pi4b")
    assert read_card(card, "pi4b", 1500).clock_mhz == 2000


def test_a_board_without_a_card_stays_dark(tmp_path: Path) -> None:
    with pytest.raises(NoKernel, match=r"config\.txt names the kernel"):
        read_card(tmp_path / "none", "pi4b", 1500)


def test_a_trial_boot_reads_tryboot_txt_and_its_command_line(card: Path) -> None:
    kernel = (card / "kernel8.img").read_bytes()
    (card / "new").mkdir()
    (card / "new" / "kernel8.img").write_bytes(kernel)
    (card / "new" / "cmdline.txt").write_text("root=/dev/mmcblk0p2 pci=pcie_bus_perf\n")
    (card / "tryboot.txt").write_text("arm_64bit=1\nos_prefix=new/\narm_freq=2000\n")
    trial, normal = read_card(card, "pi4b", 1500, tryboot=True), read_card(card, "pi4b", 1500)
    assert (trial.clock_mhz, trial.payload, trial.trial) == (2000, 512, True)
    assert (normal.clock_mhz, normal.payload, normal.trial) == (1500, 128, False)
    (card / "tryboot.txt").unlink()
    assert not read_card(card, "pi4b", 1500, tryboot=True).trial


@pytest.mark.parametrize(("words", "panics"), [("", False), ("root=mtd0", True), ("root=/dev/mmcblk0p2 quiet", False)])
def test_a_kernel_without_its_root_file_system_panics(card: Path, words: str, panics: bool) -> None:
    (card / "cmdline.txt").write_text(f"root=/dev/mmcblk0p2 rootwait {words}\n")
    assert read_card(card, "pi4b", 1500).panics is panics


@pytest.mark.parametrize("board", ["pi4b", "pi5", "pi3b", "cm4", "my-board"])
def test_the_kernel_on_the_card_is_the_one_that_runs(tmp_path: Path, board: str) -> None:
    write_card(tmp_path, board)
    (kernel,) = tmp_path.glob("kernel*.img")
    assert read_image(kernel.read_bytes()).version.split() == Path("/proc/version").read_text().split()
    read_card(tmp_path, board, 1500)
