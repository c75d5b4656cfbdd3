"""Cards as distributions ship them: the known-good files, the whole tryboot.txt, or the sentence of the refusal.

The expected values are in the documents of the cards (tests/data/cards/README.md). They were written from the
documentation of the firmware and of the distributions, not from the output of this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.builds.config_txt import first_line, pi_models
from pytest_pinet.builds.kernel_files import read_image
from pytest_pinet.lab.deploy.card import read_boot_report
from pytest_pinet.lab.deploy.known_good import COPY, cmdline_text
from pytest_pinet.tuning.setting import BootLines
from tests.support.boot_cards import CardOnDisk, Setup, board_names, build_of, card_names, document, image
from tests.support.local_shell import LocalShell
from tests.support.trial_files import Builds, expected_tryboot, is_pi5, refusal, tryboot

pytestmark = [pytest.mark.real_cards, pytest.mark.usefixtures("_cards_cache")]

ALL = [(card, board) for card in card_names() for board in board_names(card)]
BOOTING = [(card, board) for card, board in ALL if "refusal" not in Setup(card, board).expected]
REFUSED = [pair for pair in ALL if pair not in BOOTING]
# Models whose processor has no 64-bit mode.
NARROW = ("pib", "cm1", "pi0", "pi0w", "pi2b")


Shared = Callable[[str, str], CardOnDisk]


def test_each_model_of_the_catalogue_boots_a_card_of_a_distribution() -> None:
    assert {board.partition("/")[0] for _, board in BOOTING} == set(pi_models())


@pytest.mark.parametrize("card", card_names())
def test_a_card_lists_each_model_whose_device_tree_it_has(card: str) -> None:
    names = {
        name.rpartition("/")[2] for part in ("files", "device_trees", "links") for name in document(card).get(part, ())
    }
    there = {name for name, model in pi_models().items() if not names.isdisjoint(model.device_trees)}
    assert {board.partition("/")[0] for board in board_names(card)} == there


@pytest.mark.parametrize("name", list(document("kernels")))
def test_a_real_kernel_is_identified_by_banner_and_build_id(name: str) -> None:
    found, told = read_image(image(name)), document("kernels")[name]
    if name == "zImage-lz4":
        assert (found.arch, found.version, found.build_ids) == ("arm", "", frozenset())
        return
    assert found.version == told["version"]
    assert told["notes"][32:72] in found.build_ids
    assert found.arch == ("arm64" if name.startswith("Image") else "arm")


@pytest.mark.parametrize(("card", "board"), BOOTING)
def test_a_build_of_settings_boots_copies_of_the_files_that_run(
    card: str, board: str, shared_card: Shared, made_build: Builds
) -> None:
    disk = shared_card(card, board)
    booted = disk.booted()
    booted.check(made_build())
    found, known = booted.found
    wanted = disk.setup.expected
    assert known.names.kernel == wanted["kernel"]
    assert known.names.initramfs == ((wanted["initramfs"],) if "initramfs" in wanted else ())
    assert known.names.device_tree == wanted["tree"]
    assert known.names.prefix == wanted.get("prefix", "")
    assert known.kernel.version == document("kernels")[disk.setup.runs]["version"]
    last = [str(wanted.get(name, "")).rpartition("/")[2] for name in ("kernel", "initramfs")]
    text = booted.tryboot(made_build(), found, known)
    assert text == expected_tryboot(disk.setup, made_build(), last[0], last[1] or None, wanted.get("mode"))


@pytest.mark.parametrize(("card", "board"), BOOTING)
def test_a_build_with_a_kernel_has_a_neutral_name_and_its_own_mode(
    card: str, board: str, shared_card: Shared, made_build: Builds
) -> None:
    disk = shared_card(card, board)
    narrow = board in NARROW
    initramfs = "initramfs" in disk.setup.expected
    new = made_build("arm" if narrow else "arm64", initramfs)
    mode = None if is_pi5(disk.setup) else int(not narrow)
    expected = expected_tryboot(disk.setup, new, "vmlinuz", "initrd.img" if initramfs else None, mode)
    assert tryboot(disk, new) == expected


@pytest.mark.parametrize(
    ("card", "board", "kernel"),
    [
        ("raspberry-pi-os-trixie-64", "pi4b", "kernel8.img"),
        ("raspberry-pi-os-trixie-64", "pi5", "kernel_2712.img"),
        ("raspberry-pi-os-trixie-64", "pi3b", "kernel8.img"),
        ("raspberry-pi-os-trixie-32", "pi2b", "kernel7.img"),
        # A 64-bit kernel runs 32-bit programs. config.txt and the running kernel decide.
        ("raspberry-pi-os-trixie-32", "pi3b", "kernel7.img"),
        ("raspberry-pi-os-trixie-32", "pi4b", "kernel8.img"),
        # config.txt has kernel=vmlinuz.
        ("ubuntu-24.04", "pi4b", "kernel8.img"),
        ("ubuntu-24.04", "pi5", "kernel_2712.img"),
    ],
)
def test_of_several_kernels_the_one_that_fits_the_board_is_chosen(
    card: str, board: str, kernel: str, shared_card: Shared, tmp_path: Path
) -> None:
    for name, known in (
        ("kernel8.img", "Image-rpi-v8"),
        ("kernel_2712.img", "Image-rpi-2712"),
        ("kernel7.img", "zImage-rpi-v7"),
    ):
        (tmp_path / name).write_bytes(image(known))
    build = build_of(tmp_path, "made")
    assert shared_card(card, board).booted().fitting(build) == build.variants[kernel]


@pytest.mark.parametrize(("card", "board"), BOOTING)
def test_a_boot_tuning_boots_copies_of_the_files_that_run(card: str, board: str, shared_card: Shared) -> None:
    disk = shared_card(card, board)
    booted = disk.booted()
    booted.check(COPY)
    found, known = booted.found
    lines = BootLines(("arm_freq=2000", "dtoverlay=", "dtparam=eee=off"), ("pci=pcie_bus_perf",))
    plain, tuned = booted.tryboot(COPY, found, known), booted.tryboot(COPY, found, known, lines)
    assert tuned == f"{plain}[all]\narm_freq=2000\ndtoverlay=\ndtparam=eee=off\n"
    assert cmdline_text(known, COPY, lines).split() == [
        *first_line(known.cmdline).split(), "panic=10", "pci=pcie_bus_perf", f"pinet.build={COPY.key}"
    ]  # fmt: skip


@pytest.mark.parametrize(("card", "board"), REFUSED)
def test_a_card_that_cannot_try_a_build_is_refused_with_a_sentence(
    card: str, board: str, shared_card: Shared, made_build: Builds
) -> None:
    disk = shared_card(card, board)
    assert refusal(disk, made_build()) == disk.setup.expected["refusal"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the lock of deployments is in /run")
@pytest.mark.parametrize(
    ("card", "board", "copied"),
    [
        ("raspberry-pi-os-trixie-64", "pi4b", ["bcm2711-rpi-4-b.dtb", "cmdline.txt", "initramfs8", "kernel8.img"]),
        ("ubuntu-24.04", "pi5", ["bcm2712-rpi-5-b.dtb", "cmdline.txt", "initrd.img", "vmlinuz"]),
        ("alpine-3.22", "pi4b", ["bcm2711-rpi-4-b.dtb", "cmdline.txt", "initramfs-rpi", "vmlinuz-rpi"]),
        ("home-assistant-os-pi5", "pi5", ["bcm2712-rpi-5-b.dtb", "cmdline.txt", "kernel_2712.img"]),
        ("buildroot-pi4", "pi4b", ["bcm2711-rpi-4-b.dtb", "cmdline.txt", "Image"]),
        ("debian-13", "pi3b/downstream", ["bcm2837-rpi-3-b.dtb", "initrd.img-6.1.192-rpi-v8"]),
        ("netboot", "pi4b", ["bcm2711-rpi-4-b.dtb", "cmdline.txt", "initramfs8", "kernel8.img"]),
    ],
)
def test_a_trial_finds_its_files_in_its_folder(card: str, board: str, copied: list[str], tmp_path: Path) -> None:
    setup = Setup(card, board)
    disk, build = setup.boot(tmp_path / "card"), build_of(tmp_path / "build", "settings")
    before = {path: path.read_bytes() for path in disk.folder.glob("*.txt")}
    booted = disk.booted()
    booted.check(build)
    booted.deploy(build)
    booted.start(build)
    ours = disk.folder / "pytest-pinet" / build.key
    assert set(copied) <= {path.name for path in ours.iterdir()}
    for name in (setup.expected["kernel"], setup.expected.get("initramfs"), setup.expected["tree"]):
        if name is not None:
            assert (ours / name.rpartition("/")[2]).read_bytes() == (disk.folder / name).read_bytes()
    words = (ours / "cmdline.txt").read_text().split()
    assert words[-3:] == ["panic=10", "loglevel=5", f"pinet.build={build.key}"]
    assert words[:-3] == next(text for name, text in setup.texts.items() if name.endswith("cmdline.txt")).split()
    assert (disk.folder / "tryboot.txt").read_text() == booted.tryboot(build, *booted.found)
    assert {path: path.read_bytes() for path in before} == before, "a file of the card was changed"
    (command,) = disk.reboots
    assert ("systemctl" in command) == (setup.arming == "systemd")


@pytest.mark.skipif(os.geteuid() != 0, reason="the script needs root, and sudo may ask for a password")
def test_the_script_of_the_boot_report_runs_in_a_shell_of_today() -> None:
    report = read_boot_report(LocalShell("runner", {**os.environ}))
    assert report.version == Path("/proc/version").read_text().strip()
    assert report.bits == 64
