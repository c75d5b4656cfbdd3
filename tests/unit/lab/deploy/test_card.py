"""The boot files of a build, beside the known-good ones."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.config_txt import BootFileNames, pi_models
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy.card import (
    Card,
    loaded_files,
    mount_below,
    parse_boot_report,
    read_boot_report,
    with_autoboot,
)
from pytest_pinet.lab.deploy.known_good import KnownGood, cmdline_text, tryboot_text
from pytest_pinet.lab.deploy.live import swap_script
from pytest_pinet.lab.deploy.recovery import undo_script
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, KernelId
from tests.support.local_shell import LocalShell

KERNEL = KernelId("arm64", "6.12.25", "Linux version 6.12.25 (x) (y) #1")
BUILD = Build("new", (BuildFile(BuildFileRole.KERNEL, "kernel8.img", "/x/Image", "0" * 64, 1),), KERNEL)
CARD = Card("/boot/firmware", {"config.txt": "dtparam=audio=on\n"}, kind="vfat")
KNOWN = KnownGood(
    BootFileNames("kernel8.img", "cmdline.txt", ("initramfs8",), None),
    KERNEL,
    "root=/dev/mmcblk0p2 rootwait\nsecond line\n",
    (),
    None,
)


def tryboot(config: str, build: Build = BUILD, board: str = "pi4b", initramfs: tuple[str, ...] = ()) -> list[str]:
    card = replace(CARD, texts={"config.txt": config, "more.txt": "[pi4]\nkernel=x\ngpu_mem=16\n"})
    return tryboot_text(card, pi_models()[board], KNOWN, build, initramfs).splitlines()[1:]


def test_tryboot_txt_omits_the_lines_that_name_known_good_files() -> None:
    config = (
        "# a comment\ndtparam=audio=on\n[pi5]\nkernel=kernel_2712.img\nauto_initramfs=1\n"
        "initramfs initramfs8 followkernel\nos_prefix=old/\ncmdline=other.txt\narm_64bit=0\n[all]\n"
        "kernel_address=0x80000\ndtoverlay=vc4-kms-v3d\n"
    )
    build = replace(BUILD, config=("dtparam=eee=off",))
    assert tryboot(config, build) == [
        "dtparam=audio=on",
        "[pi5]",
        "[all]",
        "kernel_address=0x80000",
        "dtoverlay=vc4-kms-v3d",
        "",
        "[all]",
        f"os_prefix=pytest-pinet/{build.key}/",
        "kernel=vmlinuz",
        "cmdline=cmdline.txt",
        "arm_64bit=1",
        "dtparam=eee=off",
    ]


def test_sections_of_a_trial_boot_are_dropped_because_they_would_apply_to_the_trial_only() -> None:
    config = "[tryboot]\ngpu_mem=16\n[pi4]\ngpu_mem=32\n[all]\ngpu_mem=64\n"
    assert tryboot(config)[:2] == ["[all]", "gpu_mem=64"]


def test_an_included_file_is_written_in_place_except_on_a_pi_5_which_may_ignore_it() -> None:
    assert tryboot("include more.txt\n")[:2] == ["[pi4]", "gpu_mem=16"]
    assert tryboot("include more.txt\n", board="pi5")[0] == "include more.txt"


@pytest.mark.parametrize(
    ("board", "arch", "last"),
    [("pi4b", "arm64", "arm_64bit=1"), ("pi3b", "arm", "arm_64bit=0"), ("pi5", "arm64", "initramfs a,b followkernel")],
)
def test_a_shared_kernel_keeps_its_name_and_the_mode_of_the_processor(board: str, arch: str, last: str) -> None:
    names = replace(KNOWN.names, kernel="old/kernel7.img")
    known = replace(KNOWN, names=names, kernel=replace(KERNEL, arch=arch))
    text = tryboot_text(CARD, pi_models()[board], known, Build("settings", cmdline=("quiet",)), ("a", "b"))
    lines = text.splitlines()
    assert "kernel=kernel7.img" in lines
    assert "initramfs a,b followkernel" in lines
    assert lines[-1] == last


def test_the_command_line_is_one_line_that_ends_in_the_mark_of_the_build() -> None:
    firmware = BuildFile(BuildFileRole.FIRMWARE, "rtl_nic/a.fw", "/x/a.fw", "1" * 64, 1)
    build = replace(
        BUILD, files=(*BUILD.files, firmware), cmdline=("quiet", "rootwait"), options=(("e1000e", "debug", "1"),)
    )
    assert cmdline_text(KNOWN, build) == (
        "root=/dev/mmcblk0p2 rootwait panic=10 quiet e1000e.debug=1 "
        f"firmware_class.path=/var/lib/pytest-pinet/{build.key}/firmware pinet.build={build.key}\n"
    )


def test_the_log_of_the_firmware_names_the_files_that_it_loaded() -> None:
    # Lines of vclog on a Pi 4 as quoted in raspberrypi/firmware issues.
    # A device tree is logged like a kernel (raspberrypi/linux issue 3602).
    log = (
        "003500.000: Loading 'bcm2711-rpi-4-b.dtb' to 0x100 size 0xb4ac\n"
        "003533.117: brfs: File read: /mfs/sd/config.txt\n"
        "004063.264: Loading 'kernel8.img' to 0x80000 size 0x1a5da00\n"
        "004470.310: Loaded 'initramfs8' to 0x2e74f000 size 0xb90aa7\n"
    )
    assert loaded_files(log) == ("kernel8.img", "initramfs8")


def test_a_report_of_a_board_without_these_files_is_empty() -> None:
    report = parse_boot_report("=====8<=====version\nLinux version 6 (x)\n=====8<=====mailbox\n")
    assert (report.model, report.partition, report.mailbox, report.notifier) == (None, None, False, False)


@pytest.mark.parametrize(("code", "knows"), [("0x80000004", True), ("0x00000000", False)])
def test_the_reply_of_vcmailbox_says_whether_the_firmware_knows_the_tag(code: str, knows: bool) -> None:
    reply = f"0x0000001c 0x80000000 0x00030064 0x00000004 {code} 0x00000000 0x00000000"
    assert parse_boot_report(f"=====8<=====mailbox\n{reply}\n").mailbox == knows


@pytest.mark.parametrize(("head", "bits"), [("7f454c4601", 32), ("7f454c4602", 64), ("2321", None), ("", None)])
def test_the_class_of_a_program_says_its_bits(head: str, bits: int | None) -> None:
    assert parse_boot_report(f"=====8<=====programs\n{head}\n").bits == bits


def test_programs_of_the_firmware_cannot_delay_the_report(tmp_path: Path) -> None:
    for name, script in (("id", "echo 0"), ("timeout", "echo '[config.txt]'; echo \"$*: Loaded '$1'\"")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    shell = LocalShell("pi", {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    done = read_boot_report(shell)
    assert done.appended == "[config.txt]\n10 vcgencmd bootloader_config: Loaded '10'"
    assert done.loaded == ("10",)


@pytest.mark.parametrize(("loaded", "instead"), [("1", "kexec"), ("0", "")])
def test_a_kernel_that_kexec_has_loaded_is_reported(tmp_path: Path, loaded: str, instead: str) -> None:
    cat = f'[ "$1" != /sys/kernel/kexec_loaded ] || exec echo {loaded}; exec /bin/cat "$@"'
    for name, script in (("id", "echo 0"), ("cat", cat)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert read_boot_report(LocalShell("pi", {"PATH": f"{tmp_path}:{os.environ['PATH']}"})).instead == instead


class SoftRebootShell(LocalShell):
    """A shell of a board whose /run and mounts are below ``root``."""

    def __init__(self, root: Path) -> None:
        super().__init__("pi", {"PATH": f"{root}:{os.environ['PATH']}"})
        self._root = root

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        moved = command.replace("[ -d /run/", f"[ -d {self._root}/run/").replace("-e /run/", f"-e {self._root}/run/")
        return super().run(moved.replace("/proc/self/mounts", f"{self._root}/mounts"), timeout_s)


@pytest.mark.parametrize(
    ("files", "folder", "instead"),
    [
        (("systemd/system/x", "nextroot/usr/lib/os-release"), "/run/nextroot", "nextroot"),
        (("systemd/system/x", "nextroot/etc/os-release"), "/run/nextroot", "nextroot"),
        (("systemd/system/x", "nextroot/etc/os-release"), "/run", ""),
        (("systemd/system/x", "nextroot/etc/fstab"), "/run/nextroot", ""),
        (("nextroot/etc/os-release",), "/run/nextroot", ""),
    ],
    ids=["a mounted system", "another mounted system", "not mounted", "no system", "no systemd"],
)
def test_a_system_that_a_soft_reboot_would_start_is_reported(
    tmp_path: Path, files: tuple[str, ...], folder: str, instead: str
) -> None:
    for name in files:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).touch()
    (tmp_path / "mounts").write_text(f"/dev/mmcblk0p2 / ext4 rw 0 0\n/dev/sda1 {folder} ext4 rw 0 0\n")
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "id").chmod(0o755)
    assert read_boot_report(SoftRebootShell(tmp_path)).instead == instead


def test_names_on_fat_are_not_case_sensitive() -> None:
    card = replace(CARD, texts={"CMDLINE.TXT": "root=x\n"}, files={"CMDLINE.TXT": 7, "kernel8.img": 9})
    assert card.text("cmdline.txt") == "root=x\n"
    assert card.exists("KERNEL8.IMG")
    assert replace(card, kind="ext4").text("cmdline.txt") is None


def test_the_nearest_mount_contains_a_path() -> None:
    mounts = "/dev/a / ext4 rw 0 0\n/dev/b /usr erofs ro 0 0\n/dev/c /usr/lib/modules squashfs ro 0 0\n"
    assert mount_below(mounts, "/usr/lib/modules")[:2] == ("/dev/c", "squashfs")
    assert mount_below(mounts, "/usr/lib/modulesx") == ("/dev/b", "erofs", ("ro",))
    assert mount_below(mounts, "/var/lib")[:2] == ("/dev/a", "ext4")
    assert mount_below("", "/var/lib") == ("", "", ())


def test_scripts_have_valid_shell_syntax(tmp_path: Path) -> None:
    for script in (
        undo_script("/boot/firmware", BUILD),
        swap_script("r8169", "modprobe r8169", "/run/x y/status", ":"),
    ):
        for shell in ("sh", "bash"):
            done = subprocess.run([shell, "-n", "-c", script], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")


class MountedShell(LocalShell):
    """Runs each command where a partition 1 is mounted."""

    def __init__(self, place: Path) -> None:
        super().__init__("pi-1", {**os.environ})
        self._mounts = f"mount -t tmpfs /dev/mmcblk7p1 {place} && echo boot_partition=2 >{place}/autoboot.txt"

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return super().run(f"unshare -m sh -c {shlex.quote(f'{self._mounts} && {command}')}", timeout_s)


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root")
def test_autoboot_txt_is_read_where_partition_1_is_mounted(tmp_path: Path) -> None:
    card = replace(CARD, device="/dev/mmcblk7p2")
    assert with_autoboot(MountedShell(tmp_path), card, None).autoboot == "boot_partition=2\n"
    assert list(tmp_path.iterdir()) == []
