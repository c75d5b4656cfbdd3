"""What a dry run and the warnings of a run say of the files of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.ab.options import ABOptions
from pytest_pinet.builds.load import load_build
from tests.support import build_files as made

BESIDE = dict.fromkeys(("sdcard.img.bmap", "boot.vfat", "rootfs.ext2", "rootfs.tar", "boot.scr"), b"x")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def test_the_contents_and_what_is_left_out(tmp_path: Path) -> None:
    trees = dict.fromkeys(("bcm2711-rpi-4-b.dtb", "bcm2711-rpi-400.dtb"), made.device_tree())
    made.write(tmp_path / "images", {"Image": made.image(), **made.tree(), **trees, **BESIDE})
    options = ABOptions(load_build(str(tmp_path / "images")), None)
    left_out = "build images: left out, because it is no part of a build: boot.scr, boot.vfat, rootfs.ext2 and 2 more"
    assert options.contents() == [f"B: images: kernel {made.RELEASE} (Image), 1 module, 2 device trees", left_out]
    assert options.notes() == [left_out]


def test_the_contents_of_both_builds(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(
        "config: dtparam=eee=off\ncmdline: quiet loglevel=3\nrps: '1'\nfeatures: {tso: on}\n"
    )
    (tmp_path / "r8169.ko").write_bytes(made.module("r8169"))
    options = ABOptions(load_build(str(tmp_path / "r8169.ko")), load_build(str(tmp_path / "old.yaml")))
    assert options.contents() == [
        "A: old: 1 line for config.txt, 2 words for cmdline.txt, rps: 1, tso: on",
        "B: r8169.ko: 1 module",
    ]
    assert options.notes() == []


def test_the_contents_with_kernels_for_several_boards(tmp_path: Path) -> None:
    for name, release in (("kernel8.img", "6.12.25-v8+"), ("kernel_2712.img", "6.12.25-v8-16k+")):
        made.write(tmp_path, {name: made.image(release, build_id=name.encode().ljust(20)[:20])})
    (sentence,) = ABOptions(load_build(str(tmp_path)), None).contents()
    assert sentence.endswith(": kernel 6.12.25-v8+ (kernel8.img), kernel 6.12.25-v8-16k+ (kernel_2712.img)")
