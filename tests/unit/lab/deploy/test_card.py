"""The boot files of a build, beside the known-good ones."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.lab.deploy.boot import undo_script
from pytest_pinet.lab.deploy.card import Card, cmdline_text, tryboot_text
from pytest_pinet.lab.deploy.live import swap_script
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, KernelId

KERNEL = KernelId("arm64", "6.12.25", "Linux version 6.12.25 (x) (y) #1")
BUILD = Build("new", (BuildFile(BuildFileRole.KERNEL, "kernel8.img", "/x/Image", "0" * 64, 1),), KERNEL)
CARD = Card("/boot/firmware", "dtparam=audio=on\n", "root=/dev/mmcblk0p2 rootwait\nsecond line\n")


@pytest.mark.parametrize(
    ("config", "files", "kernels"),
    [
        ("", ("kernel8.img", "kernel_2712.img"), ("kernel_2712.img", "kernel8.img")),
        ("kernel=mine.img\n", ("kernel8.img", "mine.img"), ("mine.img", "kernel8.img")),
        (" kernel = gone.img\n", ("kernel.img",), ("kernel.img",)),
        ("", ("start4.elf",), ()),
    ],
)
def test_the_kernels_that_a_board_may_start(config: str, files: tuple[str, ...], kernels: tuple[str, ...]) -> None:
    assert replace(CARD, config=config, files=dict.fromkeys(files, 1)).kernels == kernels


@pytest.mark.parametrize(
    ("config", "initramfs"),
    [
        ("auto_initramfs=1\n", "initramfs8"),
        ("auto_initramfs=0\n", None),
        ("#auto_initramfs=1\n", None),
        ("initramfs initrd.img followkernel\n", "initrd.img"),
        ("ramfsfile=initrd.img,more.img\n", "initrd.img"),
        ("initramfs gone.img followkernel\n", None),
    ],
)
def test_the_initramfs_of_the_known_good_build(config: str, initramfs: str | None) -> None:
    card = replace(CARD, config=config, files={"initramfs8": 1, "initrd.img": 1})
    assert card.initramfs == initramfs


def test_tryboot_txt_omits_the_lines_that_name_known_good_files() -> None:
    config = (
        "dtparam=audio=on\n[pi5]\nkernel=kernel_2712.img\nauto_initramfs=1\ninitramfs initramfs8 followkernel\n"
        "os_prefix=old/\ncmdline=other.txt\n[all]\nkernel_address=0x80000\ndtoverlay=vc4-kms-v3d\n"
    )
    build = replace(BUILD, config=("dtparam=eee=off",))
    lines = tryboot_text(replace(CARD, config=config), build, initramfs=False).splitlines()
    assert lines[1:] == [
        "dtparam=audio=on",
        "[pi5]",
        "[all]",
        "kernel_address=0x80000",
        "dtoverlay=vc4-kms-v3d",
        "",
        "[all]",
        f"os_prefix=pytest-pinet/{build.key}/",
        "kernel=kernel8.img",
        "cmdline=cmdline.txt",
        "arm_64bit=1",
        "dtparam=eee=off",
    ]


def test_the_command_line_is_one_line_that_ends_in_the_mark_of_the_build() -> None:
    firmware = BuildFile(BuildFileRole.FIRMWARE, "rtl_nic/a.fw", "/x/a.fw", "1" * 64, 1)
    build = replace(
        BUILD, files=(*BUILD.files, firmware), cmdline=("quiet", "rootwait"), options=(("e1000e", "debug", "1"),)
    )
    assert cmdline_text(CARD, build) == (
        "root=/dev/mmcblk0p2 rootwait quiet e1000e.debug=1 "
        f"firmware_class.path=/var/lib/pytest-pinet/{build.key}/firmware pinet.build={build.key}\n"
    )


def test_scripts_have_valid_shell_syntax(tmp_path: Path) -> None:
    for script in (
        undo_script("/boot/firmware", BUILD),
        swap_script("r8169", "modprobe r8169", "/run/x y/status", ":"),
    ):
        for shell in ("sh", "bash"):
            done = subprocess.run([shell, "-n", "-c", script], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
