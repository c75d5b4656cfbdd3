"""Driver firmware of a build goes into an initramfs of its own, if a driver may load it before the root is mounted."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.initramfs import archive, early_firmware
from pytest_pinet.builds.load import load_build
from pytest_pinet.model.build import Build
from tests.support import build_files as made

FILES = {"var/lib/x/firmware/rtl_nic/a.fw": b"firmware", "var/lib/x/firmware/b.bin": b"12345"}


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive in the format newc (early-userspace/buffer-format.rst of the kernel)."""
    found: dict[str, bytes] = {}
    at = 0
    while True:
        fields = [int(data[at + 6 + 8 * number : at + 14 + 8 * number], 16) for number in range(13)]
        assert data[at : at + 6] == b"070701"
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        at += 110 + fields[11]
        at += -at % 4
        if name == "TRAILER!!!":
            return found
        if fields[1] & 0o170000 == 0o100000:
            found[name] = data[at : at + fields[6]]
        else:
            assert fields[1] == 0o040755
        at += fields[6] + -fields[6] % 4


def test_the_archive_has_the_files_and_their_folders() -> None:
    data = archive(FILES)
    assert unpack(data) == FILES
    assert len(data) % 512 == 0
    assert data.index(b"var/lib/x/firmware\0") < data.index(b"rtl_nic/a.fw")


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
def test_cpio_unpacks_the_archive(tmp_path: Path) -> None:
    subprocess.run(["cpio", "-id", "--quiet"], input=archive(FILES), cwd=tmp_path, check=True)
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == FILES


def build(folder: Path, module: bytes, built_in: bytes = b"") -> Build:
    made.write(folder, {"Image": made.image(), **made.tree(r8169=module)})
    made.write(folder, {f"lib/modules/{made.RELEASE}/modules.builtin.modinfo": built_in})
    names = ("rtl_nic/rtl8125b-2.fw", "rtl_nic/rtl8168g-3.fw.xz", "brcm/brcmfmac-x.bin", "amdgpu/big.bin")
    made.write(folder, {f"firmware/{name}": name.encode() for name in names})
    return load_build(str(folder))


def test_only_files_that_drivers_of_the_build_may_load_are_needed_early(tmp_path: Path) -> None:
    module = made.module("r8169", firmware=("rtl_nic/rtl8125b-2.fw", "rtl_nic/rtl8168g-3.fw"))
    found = build(tmp_path, module, b"brcmfmac.license=x\0brcmfmac.firmware=brcm/brcmfmac*.bin\0")
    assert [file.name for file in early_firmware(found)] == [
        "brcm/brcmfmac-x.bin", "rtl_nic/rtl8125b-2.fw", "rtl_nic/rtl8168g-3.fw.xz",
    ]  # fmt: skip
    without = build(tmp_path, made.module("r8169"))
    assert early_firmware(without) == ()


def test_with_the_drivers_of_the_board_all_files_may_be_needed_early(tmp_path: Path) -> None:
    found = build(tmp_path, made.module("r8169"))
    only = replace(found, files=tuple(file for file in found.files if file.role == "firmware"), kernel=None, modules={})
    assert len(early_firmware(only)) == 4
