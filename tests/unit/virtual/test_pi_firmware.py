"""The choices of the stand-in firmware from the files of the boot partition."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.builds.config_txt import model_of, pi_models
from pytest_pinet.builds.kernel_files import read_image
from pytest_pinet.virtual.pi_firmware import NoKernel, choose, read_card, write_card

VIRT = model_of(None, "virt")
IMAGE = bytes(0x38) + b"ARMd" + b"known-good"
OTHER = bytes(0x38) + b"ARMd" + b"other"
CARD = {
    "config.txt": b"arm_64bit=1\nauto_initramfs=1\n",
    "cmdline.txt": b"console=ttyAMA0 root=/dev/vda2\nnever seen\n",
    "kernel8.img": IMAGE,
    "initramfs8": b"ramdisk",
}


def boot(more: Mapping[str, bytes | None] = {}, tryboot: bool = False, board: str = "virt") -> object:
    files = {**CARD, **more}
    return choose(files.get, model_of(None, board), tryboot)


def names(more: Mapping[str, bytes | None] = {}, tryboot: bool = False, board: str = "virt") -> str:
    return str(boot(more, tryboot, board))


def test_the_defaults_are_kernel8_its_initramfs_and_the_first_line_of_cmdline_txt() -> None:
    found = choose(CARD.get, VIRT, tryboot=False)
    assert str(found) == "config.txt: kernel8.img, cmdline.txt, initramfs8"
    assert (found.kernel, found.initramfs, found.cmdline) == (IMAGE, b"ramdisk", "console=ttyAMA0 root=/dev/vda2")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"config.txt": b"kernel=k\n", "k": IMAGE}, "config.txt: k, cmdline.txt"),
        ({"config.txt": b"cmdline=c\n", "c": b""}, "config.txt: kernel8.img, c"),
        ({"config.txt": b""}, "config.txt: kernel8.img, cmdline.txt"),
        ({"config.txt": None}, "config.txt: kernel8.img, cmdline.txt"),
        (
            {"config.txt": b"initramfs a,b followkernel\n", "a": b"1", "b": b"2"},
            "config.txt: kernel8.img, cmdline.txt, a, b",
        ),
        ({"config.txt": b"[pi4]\nkernel=k\n[all]\n", "k": IMAGE}, "config.txt: kernel8.img, cmdline.txt"),
        ({"config.txt": b"[tryboot]\nkernel=k\n", "k": IMAGE}, "config.txt: kernel8.img, cmdline.txt"),
        ({"config.txt": b"# kernel=k\nwhat is this\n=\n"}, "config.txt: kernel8.img, cmdline.txt"),
        (
            {"config.txt": b"os_prefix=n/\nauto_initramfs=1\n", "n/kernel8.img": OTHER, "n/initramfs8": b"r"},
            "config.txt: n/kernel8.img, n/initramfs8",
        ),
    ],
)  # fmt: skip
def test_settings_choose_the_files(more: Mapping[str, bytes | None], expected: str) -> None:
    assert names(more) == expected


TREES = ("bcm2710.dtb", "bcm2837.dtb")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"bcm2837.dtb": b"tree"}, "bcm2837.dtb"),
        ({"bcm2837.dtb": b"tree", "bcm2710.dtb": b"tree"}, "bcm2710.dtb"),
        ({"config.txt": b"arm_64bit=1\ndevice_tree=own.dtb\n", "own.dtb": b"tree"}, "own.dtb"),
        (
            {"config.txt": b"arm_64bit=1\nos_prefix=n/\n", "n/kernel8.img": OTHER, "n/bcm2837.dtb": b"tree"},
            "n/bcm2837.dtb",
        ),
    ],
)
def test_the_first_existing_device_tree_is_used(more: Mapping[str, bytes], expected: str) -> None:
    found = choose({**CARD, **more}.get, pi_models()["pi3b"], False, TREES)
    assert (found.names[-1], found.device_tree) == (expected, b"tree")


def test_a_board_without_its_device_tree_does_not_boot() -> None:
    with pytest.raises(NoKernel, match=r"device tree: bcm2710\.dtb or bcm2837\.dtb is missing on the boot partition"):
        choose(CARD.get, pi_models()["pi3b"], False, TREES)


def test_a_prefix_without_a_kernel_is_ignored() -> None:
    assert names({"config.txt": b"os_prefix=gone/\n"}) == "config.txt: kernel8.img, cmdline.txt"


def test_tryboot_txt_is_used_only_for_a_tryboot() -> None:
    more = {"tryboot.txt": b"os_prefix=new/\n", "new/kernel8.img": OTHER, "new/cmdline.txt": b"new"}
    assert names(more) == "config.txt: kernel8.img, cmdline.txt, initramfs8"
    assert names(more, tryboot=True) == "tryboot.txt: new/kernel8.img, new/cmdline.txt"


def test_without_tryboot_txt_a_tryboot_uses_a_section_of_config_txt() -> None:
    more = {"config.txt": b"[tryboot]\nkernel=k\n", "k": IMAGE}
    assert names(more, tryboot=True) == "config.txt: k, cmdline.txt"


def test_a_gzip_kernel_is_unpacked() -> None:
    found = choose({**CARD, "kernel8.img": gzip.compress(IMAGE)}.get, VIRT, tryboot=False)
    assert found.kernel == IMAGE


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (None, "config.txt names the kernel kernel8.img or kernel_2712.img or .*, which is not on the boot partition"),
        (b"MZ" + bytes(100), "kernel8.img is not an arm64 kernel"),
        (b"", "kernel8.img is not an arm64 kernel"),
        (b"\x1f\x8bbroken", "kernel8.img contains damaged gzip data"),
    ],
)
def test_a_file_that_is_not_an_arm64_kernel_is_refused(kernel: bytes | None, message: str) -> None:
    with pytest.raises(NoKernel, match=message):
        boot({"kernel8.img": kernel})


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
