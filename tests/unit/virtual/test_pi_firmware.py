"""The choices of the stand-in firmware from the files of the boot partition."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

import pytest

from pytest_pinet.builds.config_txt import model_of, pi_models
from pytest_pinet.virtual.pi_firmware import NoKernel, choose

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
