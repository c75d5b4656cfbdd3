"""The options of builds under test, of ordinary and exact gates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.ab.options import STOCK, ABOptions, for_exact_boards
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import LabError
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, KernelId, ModuleId
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


V8, K16, STOCK_RELEASE = "6.12.49-v8+", "6.12.49-v8-16k+", "6.1.0-57-arm64"


def kernel(release: str, file: str = "kernel8.img") -> Build:
    files = (BuildFile(BuildFileRole.KERNEL, "kernel8.img", f"boot/{file}", release, 1),)
    return Build(f"artefact {release}", files, KernelId("arm64", release, f"Linux version {release}"))


def module(release: str) -> Build:
    return Build("r8152.ko", modules={"r8152": ModuleId("r8152", "r8152.ko", f"{release} SMP", "arm64")})


OF_BOTH = {
    "kernel8.img": replace(kernel(V8), name="both"),
    "kernel_2712.img": replace(kernel(K16, "kernel_2712.img"), name="both"),
}
BOTH = replace(OF_BOTH["kernel8.img"], variants=OF_BOTH)


def options(new: Build, good: Build | None = None, is_named: bool | None = None) -> ABOptions:
    named = good is not None if is_named is None else is_named
    return for_exact_boards(ABOptions(new, good, own=STOCK), named, lambda: STOCK_RELEASE)


def test_a_kernel_of_another_release_than_the_stock_kernel_is_judged_by_a_named_build_only() -> None:
    found = options(kernel(V8))
    assert found.note == (
        f"artefact {V8} is measured and not judged: its kernel is {V8}, the stock kernel is {STOCK_RELEASE}, and no "
        "known-good build is named. Name the build without the change: --against BASE"
    )
    assert not found.is_judged
    # Both sides have its values.
    assert found.good == found.new == kernel(V8)
    assert found.contents() == [f"B: artefact {V8}: kernel {V8} (kernel8.img)", found.note]
    for judged in (options(kernel(STOCK_RELEASE)), options(module(V8)), options(kernel(V8), kernel(V8))):
        assert (judged.note, judged.is_judged, judged.remarks) == ("", True, ())


@pytest.mark.parametrize("good", [None, kernel("6.6.21-v8+"), module(STOCK_RELEASE)], ids=["stock", "kernel", "module"])
def test_two_releases_are_judged_with_a_note(good: Build | None) -> None:
    known = "6.6.21-v8+" if good is not None and good.kernel is not None else STOCK_RELEASE
    found = options(kernel(V8), good, is_named=True)
    assert found.note == f"the whole kernel differs, {known} in A and {V8} in B"
    assert (found.good, found.is_judged) == (good, True)


def test_without_a_stock_kernel_a_kernel_is_measured() -> None:
    def missing() -> str:
        raise LabError("this machine has no apt-get")

    found = for_exact_boards(ABOptions(kernel(V8), None, own=STOCK), False, missing)
    assert "the stock kernel is not there, and no known-good build is named" in found.note
    named = ABOptions(kernel(V8), None, own=STOCK)
    assert for_exact_boards(named, True, missing) == named


@pytest.mark.parametrize(
    ("new", "good", "releases"),
    [
        (BOTH, BOTH, (V8, V8)),
        (BOTH, kernel(K16, "kernel_2712.img"), (K16, K16)),
        # The name of the file is that of make: the release has the flavour.
        (kernel("6.12.48-v8-16k+", "Image"), BOTH, ("6.12.48-v8-16k+", K16)),
        (BOTH, kernel("6.6.21-v7", "kernel7.img"), (V8, "6.6.21-v7")),
        (module(K16), BOTH, (None, K16)),
        (module(V8), BOTH, (None, V8)),
    ],
)
def test_of_several_kernels_both_builds_boot_the_same(
    new: Build, good: Build, releases: tuple[str | None, str]
) -> None:
    found = options(new, good)
    assert found.good is not None
    assert (found.new.release, found.good.release) == releases
    assert not found.new.variants
    assert not found.good.variants
    name = "kernel_2712.img" if K16 in releases else "kernel8.img"
    told = f"build both has kernel8.img and kernel_2712.img. {name} is gated; to gate another one, name only its files"
    assert [one for one in found.notes() if "build both" in one] == [told]


def test_a_lone_build_with_several_kernels_boots_the_first() -> None:
    found = options(BOTH)
    assert found.new == found.good == OF_BOTH["kernel8.img"]
    assert found.note.startswith(f"both is measured and not judged: its kernel is {V8}, ")
