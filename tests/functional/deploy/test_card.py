"""Builds on a board over a real ssh: installed beside the known-good build, booted once, identified, removed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_pinet.builds.contents import archive
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import (
    BuildError,
    BuildMismatch,
    ChangedBuildError,
    ConfigError,
    LabError,
    PinetError,
    UnsupportedError,
)
from pytest_pinet.evidence.build import read_running
from pytest_pinet.lab.deploy.deployment import Deployment
from pytest_pinet.lab.deploy.recovery import put_back, undo_script
from pytest_pinet.model.build import Build
from tests.support import build_files as made
from tests.support.card_board import KNOWN_RELEASE, KNOWN_VERSION, CardBoard, card_board
from tests.support.device_tree_files import PI_4, blob, booted, changed
from tests.support.hostile import HOSTILE

pytestmark = pytest.mark.usefixtures("_cache")


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def _proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count boots: the trial boot of a copy of the known-good files was proved before."""
    monkeypatch.setattr(Deployment, "_prove_trial_boot", lambda *_: None)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[CardBoard]:
    with card_board(tmp_path / "card") as found:
        yield found


def build_of(folder: Path, text: str = "", release: str = made.RELEASE) -> Build:
    """Return a build of a kernel with its modules. ``text`` is added to its build.yaml."""
    vermagic = made.VERMAGIC.replace(made.RELEASE, release)
    made.write(folder, {"Image": made.image(release, vermagic=vermagic)})
    made.write(folder, made.tree(release, e1000e=made.module("e1000e", vermagic)))
    (folder / "build.yaml").write_text(f"name: {release}\nkernel: Image\nmodules: .\n{text}")
    return load_build(str(folder))


def test_before_the_first_build_a_copy_of_the_known_good_files_is_booted_once(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    for _ in range(2):
        deployment = Deployment(board)
        deployment.start(build_of(tmp_path / "new"))
        deployment.take_back()
        board.power_cycle()
    trials = [name != "config.txt" for name in board.booted_by]
    # power-on, copy, known-good, build, power cycle; then only build and power cycle.
    assert trials == [False, True, False, True, False, True, False]
    assert board.booted_by[1] != board.booted_by[3] == board.booted_by[5]
    assert board.files() == before


def test_a_request_that_cannot_be_read_back_is_cleared_and_blames_nothing_on_the_build(
    board: CardBoard, tmp_path: Path
) -> None:
    before = board.files()
    mailbox = board.folder / "bin" / "vcmailbox"
    whole = mailbox.read_text()
    build = build_of(tmp_path / "new")
    deployment = Deployment(board)
    deployment.check(build)
    mailbox.write_text(
        whole.replace("value=0x00000000; [ ! -e $CARD/tryboot ] || value=0x00000001", "value=0x00000000")
    )
    with pytest.raises(LabError, match=r"failed to ask its firmware for a trial boot") as caught:
        deployment.start(build)
    assert not isinstance(caught.value, BuildError)
    assert not (board.folder / "tryboot").exists(), "the request is still set"
    # A power cycle boots the known-good build, and the copy is not started again.
    board.power_cycle()
    deployment.after_boot()
    assert deployment.running is None
    assert board.booted_by == ["config.txt", "config.txt"]
    mailbox.write_text(whole)
    assert deployment.start(build).marker == build.key
    deployment.take_back()
    board.power_cycle()
    assert board.files() == before


def test_the_undo_clears_the_request_before_it_removes_tryboot_txt(board: CardBoard, tmp_path: Path) -> None:
    script = undo_script("/boot/firmware", build_of(tmp_path / "new"))
    assert script.index("vcmailbox 0x00038064 4 0 0") < script.index("rm -f tryboot.txt;")


@pytest.mark.slow
def test_a_board_whose_firmware_ignores_tryboot_never_gets_a_build(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    board.knows_tryboot = False
    deployment = Deployment(board)
    with pytest.raises(
        UnsupportedError, match=r"pi4b-1 cannot boot a build for a trial: a copy of its known-good files"
    ):
        deployment.start(build_of(tmp_path / "new"))
    deployment.take_back()
    assert board.files() == before


@pytest.mark.usefixtures("_proved")
def test_a_build_is_booted_beside_the_known_good_one(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    build = build_of(tmp_path / "new", "cmdline: quiet\nconfig: [dtparam=eee=off]\noptions: {e1000e: {debug: 16}}\n")
    deployment = Deployment(board)
    deployment.check(build)
    assert board.files() == before
    running = deployment.start(build)
    assert running.version == made.VERSION
    assert running.marker == build.key
    added = ["panic=10", "quiet", "e1000e.debug=16", f"pinet.build={build.key}"]
    assert running.cmdline.split()[-4:] == added
    assert board.booted_by == ["config.txt", f"pytest-pinet/{build.key}/"]
    now = board.files()
    assert {name: now[name] for name in before} == before, "the known-good build was touched"
    tryboot = (board.firmware / "tryboot.txt").read_text().splitlines()
    assert "auto_initramfs=1" not in tryboot
    assert tryboot[-6:] == [
        f"os_prefix=pytest-pinet/{build.key}/",
        "kernel=vmlinuz",
        "cmdline=cmdline.txt",
        "initramfs initrd.img followkernel",
        "arm_64bit=1",
        "dtparam=eee=off",
    ]
    ours = board.firmware / "pytest-pinet" / build.key
    assert (ours / "bcm2711-rpi-4-b.dtb").read_bytes() == b"known-good tree"
    modules = board.folder / "modules" / made.RELEASE
    assert (modules / "kernel/drivers/net/e1000e.ko").is_file()
    assert (modules / "modules.dep").is_file(), "depmod was not run"
    assert deployment.take_back()
    board.power_cycle()
    assert board.files() == before


@pytest.fixture
def known_tree(board: CardBoard) -> bytes:
    """Return a real device tree that the known-good build has booted with, edited by the firmware."""
    known = blob(PI_4)
    (board.firmware / "bcm2711-rpi-4-b.dtb").write_bytes(known)
    board.edited_trees[known] = blob(booted(PI_4))
    board.power_cycle()
    return known


@pytest.mark.usefixtures("_proved")
def test_the_running_device_tree_is_compared_and_what_is_not_proved_is_listed(
    board: CardBoard, tmp_path: Path, known_tree: bytes
) -> None:
    new = changed(PI_4, scb__ethernet__phy_mode="rgmii")
    board.edited_trees[blob(new)] = blob(booted(new))
    made.write(tmp_path / "new", {"dtbs/broadcom/bcm2711-rpi-4-b.dtb": blob(new), "config.txt": b"gpu_mem=64\n"})
    deployment = Deployment(board)
    running = deployment.start(load_build(str(tmp_path / "new")))
    assert running.not_proved == (
        "config.txt 'gpu_mem=64': the firmware does not say which lines it used",
        "device tree bcm2711-rpi-4-b.dtb: 2 nodes that the firmware or an overlay changes, such as "
        "/soc/serial@7e215040",
    )
    deployment.take_back()


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_a_device_tree_that_the_build_itself_changes_is_not_compared(
    board: CardBoard, tmp_path: Path, known_tree: bytes
) -> None:
    made.write(tmp_path / "new", {"dtbs/broadcom/bcm2711-rpi-4-b.dtb": blob(changed(PI_4, scb__ethernet__max_speed=1))})
    made.write(tmp_path / "new", {"config.txt": b"dtparam=eee=off\n"})
    deployment = Deployment(board)
    assert deployment.start(load_build(str(tmp_path / "new"))).not_proved == (
        "config.txt 'dtparam=eee=off': the firmware does not say which lines it used",
        "device tree bcm2711-rpi-4-b.dtb: the build changes it by 'dtparam=eee=off'",
    )
    deployment.take_back()


@pytest.mark.usefixtures("_proved")
def test_a_firmware_that_uses_another_device_tree_is_an_error(
    board: CardBoard, tmp_path: Path, known_tree: bytes
) -> None:
    new = blob(changed(PI_4, scb__ethernet__phy_mode="rgmii"))
    board.edited_trees[new] = board.edited_trees[known_tree]
    made.write(tmp_path / "new", {"dtbs/broadcom/bcm2711-rpi-4-b.dtb": new})
    deployment = Deployment(board)
    with pytest.raises(BuildMismatch) as caught:
        deployment.start(load_build(str(tmp_path / "new")))
    assert str(caught.value) == (
        "pi4b-1 does not run build new: device tree bcm2711-rpi-4-b.dtb: phy-mode of /scb/ethernet@7d580000 is "
        '"rgmii-rxid", expected "rgmii"'
    )
    deployment.take_back()


@pytest.mark.usefixtures("_proved")
def test_driver_firmware_is_also_in_the_initramfs(board: CardBoard, tmp_path: Path) -> None:
    module = made.module("r8169", firmware=("rtl_nic/a.fw",))
    made.write(tmp_path / "new", {"Image": made.image(), **made.tree(r8169=module)})
    made.write(tmp_path / "new", {"firmware/rtl_nic/a.fw": b"new firmware", "firmware/other.fw": b"not for it"})
    build = load_build(str(tmp_path / "new"))
    deployment = Deployment(board)
    running = deployment.start(build)
    ours = board.firmware / "pytest-pinet" / build.key
    lines = (board.firmware / "tryboot.txt").read_text().splitlines()
    assert "initramfs pinet-firmware.cpio,initrd.img followkernel" in lines
    place = f"var/lib/pytest-pinet/{build.key}/firmware"
    assert f"firmware_class.path=/{place}" in running.cmdline.split()
    assert (ours / "pinet-firmware.cpio").read_bytes() == archive({f"{place}/rtl_nic/a.fw": b"new firmware"})
    there = board.folder / "var" / place.removeprefix("var/lib/")
    assert {path.name for path in there.rglob("*.fw")} == {"a.fw", "other.fw"}
    deployment.take_back()
    board.power_cycle()


@pytest.mark.usefixtures("_proved")
def test_the_initramfs_gets_the_modules_of_the_root_file_system(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    kind = board.shell.run("sed -n 's|^[^ ]* / \\([^ ]*\\) .*|\\1|p' /proc/self/mounts | tail -n 1").stdout.strip()
    modules = {
        "rootfs": made.module("rootfs", depends="helper", softdep="pre: crc", aliases=(f"fs-{kind}",)),
        "helper": made.module("helper"),
        "crc": made.module("crc"),
        "e1000e": made.module("e1000e"),
    }
    made.write(tmp_path / "new", {"Image": made.image(), **made.tree(made.RELEASE, **modules)})
    build = load_build(str(tmp_path / "new"))
    deployment = Deployment(board)
    deployment.start(build)
    initramfs = board.firmware / "pytest-pinet" / build.key / "initrd.img"
    assert initramfs.read_text().splitlines()[0].split() == ["crc", "helper", "rootfs"]
    assert list((board.folder / "boot").glob("config-*")) == [], "the configuration for mkinitramfs was left"
    deployment.take_back()
    # Without an initramfs these modules must be built in, as in the known-good kernel.
    (board.firmware / "initramfs8").unlink()
    release = made.write(board.folder / "modules", {f"{KNOWN_RELEASE}/modules.builtin": b"kernel/fs/rootfs.ko\n"})
    board.power_cycle()
    assert refused(board, build) == (
        "pi4b-1 boots without an initramfs, but build new has rootfs as modules, which are needed to mount the root "
        "file system: build them into the kernel, or add an initramfs to build new"
    )
    (release / KNOWN_RELEASE / "modules.builtin").unlink()
    (board.firmware / "initramfs8").write_bytes(b"known-good initramfs")
    assert board.files() == before


@pytest.mark.usefixtures("_proved")
def test_another_release_than_that_of_the_image_is_an_error(board: CardBoard, tmp_path: Path) -> None:
    deployment = Deployment(board)
    build = build_of(tmp_path / "new")
    uname = board.folder / "bin" / "uname"
    uname.write_text(uname.read_text().replace("release=$(cut -d' ' -f3 /proc/version)", f"release={KNOWN_RELEASE}"))
    with pytest.raises(BuildMismatch, match=f"uname -r of the board is {KNOWN_RELEASE}, but the image is kernel"):
        deployment.start(build)
    deployment.take_back()


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_two_builds_alternate_and_each_start_boots(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    a, b = build_of(tmp_path / "a"), build_of(tmp_path / "b", release="6.12.26-pinet")
    deployment = Deployment(board)
    for build in (a, b):
        deployment.check(build)
    found = [deployment.start(build).version for build in (a, b, b, a)]
    assert [version.split()[2] for version in found] == [a.release, b.release, b.release, a.release]
    assert deployment.start(None).version == KNOWN_VERSION
    # A kernel under test may be unable to ask for a trial boot, so the known-good kernel boots between two of them.
    trials = [f"pytest-pinet/{build.key}/" for build in (a, b, b, a)]
    assert board.booted_by == ["config.txt", *(name for trial in trials for name in (trial, "config.txt"))]
    assert not deployment.take_back()
    assert board.files() == before


@pytest.mark.slow
def test_a_build_that_changed_after_the_check_is_not_uploaded(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    build = build_of(tmp_path / "new")
    deployment = Deployment(board)
    deployment.check(build)
    made.write(tmp_path / "new", made.tree(made.RELEASE, e1000e=made.module("e1000e", srcversion="OTHER")))
    with pytest.raises(ChangedBuildError, match=f"{made.RELEASE} changed during this run"):
        deployment.start(build)
    deployment.take_back()
    board.power_cycle()
    assert board.files() == before


# Each makes this file if a shell on the board reads it as more than a word.
CANARY = "/run/canary"
TEXTS = [text.replace(">canary", f">{CANARY}") for text in HOSTILE]
# Values of options, and words of a command line, have no blanks. The others are refused when the build is read.
WORDS = [text for text in TEXTS if re.fullmatch(r"[!-~]{1,200}", text)]


def canaries(board: CardBoard) -> str:
    return board.shell.run(f"ls {CANARY} /canary ~/canary 2>/dev/null").stdout


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_no_text_of_a_build_is_executed_on_the_board(board: CardBoard, tmp_path: Path) -> None:
    assert len(WORDS) > 20
    # Short, because the firmware passes at most 1024 characters.
    words = [f"W{number}={text}" for number, text in enumerate(WORDS)]
    options = {f"p{number}": text for number, text in enumerate(WORDS)}
    parameters = tuple(f"{name}:charp" for name in options)
    made.write(tmp_path / "new", {"Image": made.image()})
    made.write(tmp_path / "new", made.tree(made.RELEASE, e1000e=made.module("e1000e", parameters=parameters)))
    settings: dict[str, object] = {
        "name": "-".join(HOSTILE[:7]),
        "kernel": "Image",
        "modules": ".",
        "cmdline": " ".join(words),
        "config": [f"#{text}" for text in TEXTS if text.isprintable() and len(text) < 90],
        "options": {"e1000e": options},
    }
    (tmp_path / "new" / "build.yaml").write_text(json.dumps(settings))
    build = load_build(str(tmp_path / "new"))
    deployment = Deployment(board)
    deployment.check(build)
    running = deployment.start(build)
    assert [word for word in running.cmdline.split() if word.startswith("W")] == words
    assert {f"e1000e.{name}={text}" for name, text in options.items()} <= {*running.cmdline.split()}
    assert canaries(board) == ""
    deployment.take_back()
    board.power_cycle()
    assert canaries(board) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_no_sysctl_or_name_of_a_build_is_executed_on_the_board(board: CardBoard, tmp_path: Path) -> None:
    deployment = Deployment(board)
    reached = 0
    for text in TEXTS:
        for settings in ({"name": "x", "sysctls": {"net.ipv4.tcp_sack": text}}, {"name": text.replace("/", "_")}):
            own = {"sysctls": {"net.ipv4.tcp_sack": 1}, **settings}
            (tmp_path / "build.yaml").write_text(json.dumps(own))
            try:
                build = load_build(str(tmp_path / "build.yaml"))
            except ConfigError:
                continue
            reached += 1
            # The kernel refuses each of these values.
            with suppress(PinetError):
                deployment.start(build)
            assert canaries(board) == "", text
    assert reached > 40
    deployment.take_back()


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_boot_files_that_vanish_after_the_check_are_an_error_of_the_lab(board: CardBoard, tmp_path: Path) -> None:
    build = build_of(tmp_path / "new")
    deployment = Deployment(board)
    deployment.check(build)
    config = board.firmware / "config.txt"
    config.rename(config.with_suffix(".gone"))
    with pytest.raises(LabError, match=r"pi4b-1 has no config\.txt in .*; when build .* was checked, pinet"):
        deployment.start(build)
    assert board.booted_by == ["config.txt"]
    config.with_suffix(".gone").rename(config)
    deployment.take_back()


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_a_build_that_does_not_come_up_costs_one_power_cycle(board: CardBoard, tmp_path: Path) -> None:
    build = build_of(tmp_path / "new")
    board.broken.add(made.RELEASE)
    deployment = Deployment(board)
    deployment.check(build)
    with pytest.raises(BuildError, match="does not come up on pi4b-1, but the known-good build does") as caught:
        deployment.start(build)
    assert caught.value.kind == "hang"
    assert board.booted_by == ["config.txt", f"pytest-pinet/{build.key}/", "config.txt"]
    assert deployment.start(None).version == KNOWN_VERSION
    deployment.take_back()


@pytest.mark.slow
def test_a_firmware_that_ignores_tryboot_is_an_error(board: CardBoard, tmp_path: Path) -> None:
    build = build_of(tmp_path / "new")
    deployment = Deployment(board)
    deployment.check(build)
    deployment.start(build)
    board.knows_tryboot = False
    with pytest.raises(BuildError, match="booted its known-good build without an error message") as caught:
        deployment.start(build)
    assert caught.value.kind == "fell back"


@pytest.mark.slow
@pytest.mark.parametrize("proved", [False, True], ids=["in the proof", "after the proof"])
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("kernel8.img", KNOWN_RELEASE, "6.12.21-good"), ("cmdline.txt", "root=/dev/mmcblk0p2", "root=/dev/mmcblk0p5")],
    ids=["another kernel", "another root file system"],
)
def test_a_trial_that_boots_the_other_slot_ends_in_the_known_good_build(
    board: CardBoard, tmp_path: Path, name: str, old: str, new: str, proved: bool
) -> None:
    before = board.files()
    build = build_of(tmp_path / "new")
    deployment = Deployment(board)
    if proved:
        deployment.start(build)
        deployment.start(None)
    slot = tmp_path / "slot"
    shutil.copytree(board.firmware, slot)
    (slot / name).write_bytes((slot / name).read_bytes().replace(old.encode(), new.encode()))
    board.other_slot = slot
    for _ in range(2):
        with pytest.raises(
            UnsupportedError, match=r"its firmware booted another system of the card \(6\.12\.2.-good\)"
        ):
            deployment.start(build)
        assert board.booted_by[-2:] == ["other slot", "config.txt"]
    assert board.booted_by.count("other slot") == 1
    assert board.power_cycles == 1
    assert read_running(board.shell).version == KNOWN_VERSION
    assert not deployment.take_back()
    assert board.files() == before


@pytest.mark.slow
def test_a_board_that_stays_in_the_other_slot_is_an_error_of_the_lab(board: CardBoard, tmp_path: Path) -> None:
    deployment = Deployment(board)
    deployment.check(build_of(tmp_path / "new"))
    slot = tmp_path / "slot"
    shutil.copytree(board.firmware, slot)
    (slot / "cmdline.txt").write_text("root=/dev/mmcblk0p5\n")
    board.other_slot, board.firmware = slot, slot
    with pytest.raises(LabError, match="booted another system of its card in a trial, and again without one"):
        deployment.prove()


def refused(board: CardBoard, build: Build) -> str:
    before = board.files()
    with pytest.raises(UnsupportedError) as caught:
        Deployment(board).check(build)
    assert board.files() == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_build_that_the_board_cannot_run_is_refused_before_any_change(board: CardBoard, tmp_path: Path) -> None:
    build = build_of(tmp_path / "new")
    (board.folder / "bin" / "df").write_text("#!/bin/sh\necho x; echo /dev/mmcblk0p1 9 9 5 1% /boot/firmware\n")
    (board.folder / "bin" / "df").chmod(0o755)
    assert refused(board, build) == (
        "build 6.12.25-pinet takes 2 MB, but /boot/firmware of pi4b-1 has only 0 MB left: "
        "delete files that are not needed there"
    )
    (board.folder / "bin" / "df").write_text("#!/bin/sh\necho /dev/mmcblk0p1 9 9 3000 1% /boot/firmware\n")
    other = build_of(tmp_path / "other", release="6.12.26-pinet")
    both = Deployment(board)
    both.check(build)
    with pytest.raises(
        UnsupportedError, match="takes 2 MB, beside 2 MB of another build, but /boot/firmware of pi4b-1"
    ):
        both.check(other)
    (board.folder / "bin" / "df").unlink()
    (board.folder / "modules" / made.RELEASE).mkdir()
    assert refused(board, build) == (
        "pi4b-1 has different modules of kernel 6.12.25-pinet, which belong to its known-good build: "
        "build this kernel with another release (CONFIG_LOCALVERSION)"
    )
    (board.firmware / "kernel8.img").unlink()
    assert refused(board, build) == ("/boot/firmware of pi4b-1 has no kernel: config.txt needs kernel8.img")
    (board.firmware / "autoboot.txt").write_text("[all]\ntryboot_a_b=1\n")
    assert "pi4b-1 boots by an A/B scheme (tryboot_a_b=1 in autoboot.txt)" in refused(board, build)
    (board.firmware / "config.txt").unlink()
    assert refused(board, build).startswith("pi4b-1 has no config.txt in /boot/firmware, /boot, /boot/efi, ")


def same_release(folder: Path) -> tuple[Build, Build]:
    """Return two builds with the same release and different modules, like builds of two commits."""
    build_of(folder / "b")
    made.write(folder / "b", made.tree(made.RELEASE, e1000e=made.module("e1000e", srcversion="OTHER")))
    return build_of(folder / "a"), load_build(str(folder / "b"))


def test_two_builds_of_one_release_alternate_in_its_folder(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    a, b = same_release(tmp_path)
    deployment = Deployment(board)
    deployment.check(a)
    deployment.check(b)
    module = "kernel/drivers/net/e1000e.ko"
    for build, folder in ((a, "a"), (b, "b"), (b, "b"), (a, "a")):
        assert deployment.start(build).marker == build.key
        there = board.folder / "modules" / made.RELEASE
        assert (there / module).read_bytes() == (tmp_path / folder / "lib/modules" / made.RELEASE / module).read_bytes()
        assert (there / "modules.dep").is_file(), "depmod was not run"
    assert deployment.start(None).version == KNOWN_VERSION
    assert not deployment.take_back()
    assert board.files() == before


@pytest.mark.slow
def test_parked_modules_are_removed_after_a_crash(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    deployment = Deployment(board)
    for build in same_release(tmp_path):
        deployment.check(build)
        deployment.start(build)
    (parked,) = (board.folder / "modules").glob(".pytest-pinet-*")
    # Whichever other part of the build is missing.
    for folder in (board.firmware / "pytest-pinet", board.folder / "modules" / made.RELEASE):
        shutil.rmtree(folder)
    assert put_back(board.shell).files
    assert not parked.exists()
    (board.firmware / "tryboot.txt").unlink()
    assert board.files() == before


@pytest.mark.slow
def test_the_known_good_image_uses_the_installed_modules(board: CardBoard, tmp_path: Path) -> None:
    build = build_of(tmp_path / "good")
    made.write(board.folder / "modules", {f"{made.RELEASE}/kernel/drivers/net/e1000e.ko": made.module("e1000e")})
    before = board.files()
    deployment = Deployment(board)
    deployment.check(build)
    deployment.start(build)
    deployment.take_back()
    board.power_cycle()
    assert board.files() == before


def test_the_next_login_removes_the_files_of_a_crashed_run(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    deployment = Deployment(board)
    build = build_of(tmp_path / "new")
    deployment.check(build)
    deployment.start(build)
    left = put_back(board.shell)
    assert (left.build, left.files, left.failed) == (build.key, True, ())
    assert left.sentences("pi4b-1") == [
        "removed the build under test that an interrupted run left on pi4b-1, and booted the known-good build"
    ]
    assert board.files() == before
    board.power_cycle()
    assert put_back(board.shell).sentences("pi4b-1") == []
