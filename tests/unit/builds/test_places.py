"""Builds in the forms that builders, packagers and CI leave: folders, packages and archives, by one reader."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_pinet.builds import archives
from pytest_pinet.builds.contents import archive
from pytest_pinet.builds.load import load_build
from pytest_pinet.model.build import Build, BuildFileRole
from tests.support import build_files as made
from tests.support.build_files import refused

V8, K16 = "6.12.25-v8+", "6.12.25-v8-16k+"
DTB = "bcm2711-rpi-4-b.dtb"
WHOLE = [DTB, "kernel8.img", made.RELEASE]


def names(build: Build) -> list[str]:
    return [file.name for file in build.files]


def magic(release: str) -> str:
    return made.VERMAGIC.replace(made.RELEASE, release)


def kernel(release: str) -> bytes:
    return made.image(release, vermagic=magic(release), build_id=release.encode().ljust(20)[:20])


def tree(release: str) -> dict[str, bytes]:
    return made.tree(release, e1000e=made.module("e1000e", magic(release)))


def zipped(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packing:
        for name, data in files.items():
            packing.writestr(name, data)
    return stream.getvalue()


def pull_request(image: str = "kernel8.img", release: str = V8) -> dict[str, bytes]:
    """Return the artefact of a pull request of raspberrypi/linux (.github/workflows/kernel-build.yml)."""
    return {
        f"boot/{image}": gzip.compress(kernel(release), mtime=0),
        **dict.fromkeys((f"boot/{DTB}", "boot/bcm2712-rpi-5-b.dtb"), made.device_tree()),
        **dict.fromkeys(("boot/overlays/eee.dtbo", "boot/overlays/overlay_map.dtb"), made.device_tree()),
        "boot/overlays/README": b"Introduction",
        **tree(release),
    }


# -- artefacts of pull requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("image", ["kernel8.img", "kernel8_rt.img", "kernel_2712.img"])
@pytest.mark.parametrize("form", ["folder", "tar", "zip"])
def test_the_artefact_of_a_pull_request(tmp_path: Path, image: str, form: str) -> None:
    files = pull_request(image)
    place = tmp_path / "bcm2711_build"
    if form == "folder":
        made.write(place, files)
        (place / f"lib/modules/{V8}/build").symlink_to("/home/runner/work/linux/build")
    elif form == "tar":
        place = tmp_path / "bcm2711_build.tar"
        place.write_bytes(made.tar(files))
    else:
        place = tmp_path / "bcm2711_build.zip"
        place.write_bytes(zipped({"bcm2711_build.tar": made.tar(files)}))
    build = load_build(str(place))
    trees = [DTB, "bcm2712-rpi-5-b.dtb"]
    assert names(build) == [*trees, "kernel8.img", V8, "overlays/eee.dtbo", "overlays/overlay_map.dtb"]
    assert (build.release, build.variants, build.left_out) == (V8, {}, ())


def test_a_folder_with_the_artefacts_of_several_jobs(tmp_path: Path) -> None:
    (tmp_path / "bcm2711_build.tar").write_bytes(made.tar(pull_request()))
    assert load_build(str(tmp_path)).release == V8
    (tmp_path / "bcm2712_build.tar").write_bytes(made.tar(pull_request("kernel_2712.img", K16)))
    assert list(load_build(str(tmp_path)).variants) == ["kernel8.img", "kernel_2712.img"]


def test_the_artefact_of_a_kernel_for_arm(tmp_path: Path) -> None:
    cards = Path(__file__).parents[2] / "data" / "cards"
    files = {"boot/kernel7.img": (cards / "zImage-rpi-v7").read_bytes(), f"boot/{DTB}": made.device_tree()}
    (tmp_path / "bcm2709_build.tar").write_bytes(made.tar(files))
    build = load_build(str(tmp_path / "bcm2709_build.tar"))
    assert build.kernel is not None
    assert build.kernel.arch == "arm"


def test_an_artefact_with_kernels_for_several_boards(tmp_path: Path) -> None:
    made.write(tmp_path, {**pull_request(), "boot/kernel_2712.img": kernel(K16), **tree(K16)})
    build = load_build(str(tmp_path))
    assert {name: one.release for name, one in build.variants.items()} == {"kernel8.img": V8, "kernel_2712.img": K16}
    assert build.release == V8, "the build itself is the first of its kernels"
    assert [one.of(BuildFileRole.MODULES)[0].name for one in build.variants.values()] == [V8, K16]
    assert len({build.key, *(one.key for one in build.variants.values())}) == 3


def test_packages_with_kernels_for_several_boards(tmp_path: Path) -> None:
    for flavour in ("rpi-v8", "rpi-2712"):
        release = f"6.12.25+rpt-{flavour}"
        files = {f"boot/vmlinuz-{release}": kernel(release), **tree(release)}
        (tmp_path / f"linux-image-{release}_1_arm64.deb").write_bytes(made.package(files))
    build = load_build(str(tmp_path))
    assert {name: one.release for name, one in build.variants.items()} == {
        "kernel8.img": "6.12.25+rpt-rpi-v8",
        "kernel_2712.img": "6.12.25+rpt-rpi-2712",
    }


def test_the_packages_of_two_builds_are_named(tmp_path: Path) -> None:
    """``make bindeb-pkg`` leaves the packages of each build in the same folder."""
    for release in ("6.12.25-a", "6.12.26-b"):
        files = {f"boot/vmlinuz-{release}": kernel(release), **tree(release)}
        (tmp_path / f"linux-image-{release}_1_arm64.deb").write_bytes(made.package(files))
    assert refused(tmp_path).endswith(
        "but has two: boot/vmlinuz-6.12.25-a (6.12.25-a) and boot/vmlinuz-6.12.26-b (6.12.26-b); name the files or "
        "packages of one"
    )


def test_a_kernel_without_its_modules_is_left_out_beside_one_with_modules(tmp_path: Path) -> None:
    made.write(tmp_path, {**pull_request(), "boot/kernel_2712.img": kernel(K16)})
    build = load_build(str(tmp_path))
    assert (build.release, build.variants, build.left_out) == (V8, {}, ("kernel_2712.img",))


def test_modules_of_another_kernel_beside_the_right_ones_are_left_out(tmp_path: Path) -> None:
    made.write(tmp_path, {**pull_request(), **tree("6.12.25+")})
    build = load_build(str(tmp_path))
    assert build.of(BuildFileRole.MODULES)[0].name == V8
    assert [Path(one).name for one in build.left_out] == ["6.12.25+"]


# -- packages -------------------------------------------------------------------------------------------------------


def test_a_kernel_that_is_split_into_packages(tmp_path: Path) -> None:
    release = "6.8.0-1013-raspi"
    own = tree(release)
    extra = {f"lib/modules/{release}/kernel/drivers/net/r8169.ko": made.module("r8169", magic(release))}
    firmware = f"lib/firmware/{release}/device-tree"
    trees = {f"{firmware}/broadcom/{DTB}": made.device_tree(), f"{firmware}/overlays/x.dtbo": made.device_tree()}
    for name, files in (
        ("image", {f"boot/vmlinuz-{release}": gzip.compress(kernel(release))}),
        ("modules", {**own, **trees, f"boot/config-{release}": b"CONFIG_NET=y"}),
        ("modules-extra", extra),
        ("headers", {"usr/src/x": b"x"}),
    ):
        (tmp_path / f"linux-{name}-{release}_{release}.15_arm64.deb").write_bytes(made.package(files))
    build = load_build(str(tmp_path))
    assert names(build) == [DTB, "kernel8.img", release, "overlays/x.dtbo"]
    assert sorted(build.modules) == ["e1000e", "r8169"]
    assert build.left_out == (f"linux-headers-{release}_{release}.15_arm64.deb",)
    of_list = load_build(",".join(str(path) for path in sorted(tmp_path.iterdir()) if "headers" not in path.name))
    assert of_list.key == build.key
    assert "the build has all modules of kernel 6.8.0-1013-raspi, but no kernel" in refused(
        tmp_path / f"linux-modules-{release}_{release}.15_arm64.deb"
    )


def test_packages_of_two_builds_of_one_release_are_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        files = {f"boot/vmlinuz-{made.RELEASE}": made.image(size=5000 + number), **made.tree()}
        (tmp_path / f"linux-image-x_{number}_arm64.deb").write_bytes(made.package(files))
    assert f"its boot/vmlinuz-{made.RELEASE} differs from that of {tmp_path}/linux-image-x_1_arm64.deb" in refused(
        tmp_path
    )


BINDEB = ("linux-headers-x_1_arm64.deb", "linux-image-x-dbg_1_arm64.deb", "linux-libc-dev_1_arm64.deb")


def test_the_folder_of_bindeb_pkg(tmp_path: Path) -> None:
    beside = dict.fromkeys((*BINDEB, "linux-upstream_1_arm64.buildinfo", "linux-upstream_1_arm64.changes"), b"x")
    package = made.package({f"boot/vmlinuz-{made.RELEASE}": made.image(), **made.tree()})
    made.write(tmp_path, {"linux-image-x_1_arm64.deb": package, **beside})
    build = load_build(str(tmp_path))
    assert names(build) == ["kernel8.img", made.RELEASE]
    assert set(build.left_out) == set(beside)


def targz_pkg() -> dict[str, bytes]:
    return {
        f"boot/vmlinuz-{made.RELEASE}": made.image(),
        f"boot/config-{made.RELEASE}": b"CONFIG_NET=y",
        f"boot/System.map-{made.RELEASE}": b"",
        f"boot/dtbs/{made.RELEASE}/broadcom/{DTB}": made.device_tree(),
        f"boot/dtbs/{made.RELEASE}/rockchip/rk3399-x.dtb": made.device_tree(),
        **made.tree(),
    }


def arch_pkg() -> dict[str, bytes]:
    modules = {f"usr/{name}": data for name, data in made.tree().items()}
    return {"boot/kernel8.img": made.image(), f"boot/{DTB}": made.device_tree(), ".PKGINFO": b"x", **modules}


def fedora() -> dict[str, bytes]:
    base = f"lib/modules/{made.RELEASE}"
    trees = {f"{base}/dtb/broadcom/{DTB}": made.device_tree(), f"{base}/dtb/qcom/sc7180-x.dtb": made.device_tree()}
    texts = {f"{base}/config": b"CONFIG_NET=y", f"{base}/System.map": b"x", f"{base}/.vmlinuz.hmac": b"x"}
    return {f"{base}/vmlinuz": made.zboot(gzip.compress(made.image())), **trees, **texts, **made.tree()}


@pytest.mark.parametrize("files", [targz_pkg, arch_pkg, fedora])
@pytest.mark.parametrize("form", ["folder", "x.tar.gz", "x.pkg.tar.xz"])
def test_a_package_and_its_unpacked_folder_are_the_same(
    tmp_path: Path, files: Callable[[], dict[str, bytes]], form: str
) -> None:
    place = tmp_path / form
    if form == "folder":
        made.write(place, files())
    else:
        pack = gzip.compress if form.endswith("gz") else lzma.compress
        place.write_bytes(pack(made.tar(files())))
    assert names(load_build(str(place))) == WHOLE


def rpm(files: Mapping[str, bytes]) -> bytes:
    """Return an RPM package: lead, signature, header without entries, and a packed cpio archive."""
    lead = b"\xed\xab\xee\xdb\x03\x00" + struct.pack(">HH66sHH16x", 0, 19, b"kernel-core", 1, 5)
    header = b"\x8e\xad\xe8\x01" + bytes(12)
    return lead + header * 2 + gzip.compress(archive({f"./{name}": data for name, data in files.items()}))


def test_an_rpm_is_read_by_bsdtar_or_the_message_says_how_to_unpack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel-core-6.12.25-1.aarch64.rpm").write_bytes(rpm(fedora()))
    if shutil.which("bsdtar") is not None:
        assert names(load_build(str(tmp_path))) == WHOLE
    monkeypatch.setenv("PATH", str(tmp_path))
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]), ignore_errors=True)
    assert refused(tmp_path).endswith("or unpack it with 'rpm2cpio FILE | cpio -idm' and name the folder")


def test_the_device_trees_of_another_package(tmp_path: Path) -> None:
    image = made.package({f"boot/vmlinuz-{made.RELEASE}": made.image(), **made.tree()})
    trees = made.package({f"boot/dtb-{made.RELEASE}/broadcom/{DTB}": made.device_tree()})
    made.write(tmp_path, {"linux-image-current-bcm2711_26_arm64.deb": image, "linux-dtb-current-bcm2711.deb": trees})
    assert names(load_build(str(tmp_path))) == WHOLE
    assert names(load_build(",".join(str(path) for path in tmp_path.iterdir()))) == WHOLE


# -- folders of build systems ---------------------------------------------------------------------------------------


def test_the_deploy_folder_of_yocto(tmp_path: Path) -> None:
    new, old = (
        "6.12.25+git0+abc-r0-raspberrypi4-64-20260901101500",
        "6.12.24+git0+abc-r0-raspberrypi4-64-20260801101500",
    )
    packed_modules = gzip.compress(made.tar(made.tree()))
    made.write(
        tmp_path,
        {
            f"Image--{new}.bin": made.image(),
            f"Image--{old}.bin": kernel("6.12.24-pinet"),
            f"modules--{new}.tgz": packed_modules,
            f"modules--{old}.tgz": gzip.compress(made.tar(tree("6.12.24-pinet"))),
            f"bcm2711-rpi-4-b--{new}.dtb": made.device_tree(),
            f"bcm2711-rpi-4-b--{old}.dtb": made.device_tree() + b"old",
            "core-image-minimal-raspberrypi4-64.rootfs.tar.bz2": b"x",
            "core-image-minimal-raspberrypi4-64.rootfs.wic.bz2": b"x",
            "core-image-minimal-raspberrypi4-64.testdata.json": b"{}",
            "bootfiles/config.txt": b"arm_64bit=1\n",
        },
    )
    for link, target in (
        ("Image", f"Image--{new}.bin"),
        ("Image-raspberrypi4-64.bin", f"Image--{new}.bin"),
        ("modules-raspberrypi4-64.tgz", f"modules--{new}.tgz"),
        (DTB, f"bcm2711-rpi-4-b--{new}.dtb"),
        ("bcm2711-rpi-4-b-raspberrypi4-64.dtb", f"bcm2711-rpi-4-b--{new}.dtb"),
    ):
        (tmp_path / link).symlink_to(target)
    build = load_build(str(tmp_path))
    assert (names(build), build.release, build.config) == (WHOLE, made.RELEASE, ())
    assert "bootfiles/config.txt" in build.left_out


@pytest.mark.parametrize("place", ["images", "."])
def test_the_images_of_buildroot_with_the_modules_of_its_target(tmp_path: Path, place: str) -> None:
    images = {"Image": made.image(), DTB: made.device_tree(), "rootfs.tar": b"x", "sdcard.img": b"x", "boot.vfat": b"x"}
    images |= {"rpi-firmware/config.txt": b"kernel=Image\n", "rpi-firmware/start4.elf": b"x"}
    made.write(tmp_path / "output/images", images)
    made.write(tmp_path / "output/target", made.tree())
    build = load_build(str(tmp_path / "output" / place))
    assert (names(build), build.config) == (WHOLE, ())
    assert "sdcard.img" in build.left_out


@pytest.mark.parametrize("base", ["", "lib/modules/6.6.73"])
def test_the_flat_modules_of_openwrt(tmp_path: Path, base: str) -> None:
    release = "6.6.73"
    modules = {f"root/lib/modules/{release}/{name}.ko": made.module(name, magic(release)) for name in ("r8169", "mii")}
    made.write(tmp_path, {"vmlinuz-rpi": kernel(release), **modules})
    build = load_build(f"{tmp_path}/vmlinuz-rpi,{tmp_path}/root/{base}")
    assert names(build) == ["kernel8.img", release]
    assert sorted(build.modules) == ["mii", "r8169"]


def test_a_package_of_one_driver_for_openwrt(tmp_path: Path) -> None:
    data = gzip.compress(made.tar({"lib/modules/6.6.73/r8169.ko": made.module("r8169", magic("6.6.73"))}))
    (tmp_path / "kmod-r8169.ipk").write_bytes(gzip.compress(made.tar({"debian-binary": b"2.0\n", "data.tar.gz": data})))
    build = load_build(str(tmp_path / "kmod-r8169.ipk"))
    assert (names(build), build.needs_boot) == (["r8169.ko"], False)


@pytest.mark.parametrize("inner", ["", "6.12.25-pinet", "6.12.25-pinet/aarch64", "6.12.25-pinet/aarch64/module"])
def test_the_folder_where_dkms_leaves_its_modules(tmp_path: Path, inner: str) -> None:
    base = f"{made.RELEASE}/aarch64"
    made.write(tmp_path / "9.016.01", {f"{base}/module/r8125.ko.xz": lzma.compress(made.module("r8125"))})
    made.write(tmp_path / "9.016.01", {f"{base}/log/make.log": b"x", f"original_module/{base}/r8125.ko": b"x"})
    build = load_build(str(tmp_path / "9.016.01" / inner))
    assert (names(build), build.needs_boot) == (["r8125.ko.xz"], False)


def test_modules_that_were_installed_in_addition_are_single_modules(tmp_path: Path) -> None:
    installed = {f"lib/modules/{made.RELEASE}/updates/r8125.ko": made.module("r8125")}
    made.write(tmp_path, installed)
    assert not load_build(str(tmp_path)).needs_boot
    made.write(tmp_path, {"Image": made.image(), **made.tree()})
    build = load_build(str(tmp_path))
    assert sorted(build.modules) == ["e1000e", "r8125"]


def test_the_folder_of_a_driver_after_make(tmp_path: Path) -> None:
    sources = dict.fromkeys(("Makefile", "r8125_n.c", "r8125.o", "r8125.mod", "r8125.mod.c", "Module.symvers"), b"x")
    made.write(tmp_path, {"r8125.ko": made.module("r8125"), **sources, ".r8125.ko.cmd": b"x"})
    build = load_build(str(tmp_path))
    assert (names(build), build.left_out) == (["r8125.ko"], ())


def test_the_images_and_the_target_of_buildroot_by_name(tmp_path: Path) -> None:
    """images/ brings the modules of target/ with it, so both names lead to the same modules."""
    made.write(tmp_path / "output/images", {"Image": made.image(), DTB: made.device_tree()})
    made.write(tmp_path / "output/target", made.tree())
    assert names(load_build(f"{tmp_path}/output/images,{tmp_path}/output/target")) == WHOLE


def test_the_folders_that_gh_run_download_makes(tmp_path: Path) -> None:
    for job, files in (("bcm2711", pull_request()), ("bcm2712", pull_request("kernel_2712.img", K16))):
        made.write(tmp_path, {f"{job}_build/{job}_build.tar": made.tar(files)})
    assert list(load_build(str(tmp_path)).variants) == ["kernel8.img", "kernel_2712.img"]


def test_the_module_of_dkms_for_two_kernels(tmp_path: Path) -> None:
    for release in (made.RELEASE, "6.12.26-x"):
        packed_module = lzma.compress(made.module("r8125", magic(release)))
        made.write(tmp_path, {f"r8125/9.016.01/{release}/aarch64/module/r8125.ko.xz": packed_module})
    for place in (tmp_path, tmp_path / "r8125/9.016.01"):
        said = refused(place)
        assert f"the module r8125 is there for two kernels, {made.RELEASE} and 6.12.26-x: " in said
        assert said.endswith("name the folder or the file of one kernel")
    folder = tmp_path / f"r8125/9.016.01/{made.RELEASE}"
    assert names(load_build(str(folder))) == ["r8125.ko.xz"]
    made.write(folder / "aarch64/module", {"r8125.ko": made.module("r8125")})
    assert refused(folder).endswith("r8125.ko.xz; name one of them")


# -- what is no build -----------------------------------------------------------------------------------------------

CARD = bytes(446) + b"\0\0\0\0\x0c".ljust(64, b"\0") + b"\x55\xaa" + bytes(1000)
PATCH = b"From 0e44d9fed54654d05b4c841b78fb077dac90c249 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] net\n"
NO_BUILDS: dict[str, tuple[dict[str, bytes], str, str]] = {
    "source tree": (
        dict.fromkeys(("MAINTAINERS", "Kbuild", "Kconfig", "Makefile", "net/core/dev.c"), b"x"),
        "",
        "is a source tree of the kernel: build it first (make Image modules dtbs)",
    ),
    "driver": (dict.fromkeys(("Makefile", "r8125.c"), b"x"), "", "is the source of a driver: build it with make -C "),
    "driver in src": (dict.fromkeys(("README.md", "src/Makefile", "src/x.c"), b"x"), "", "is the source of a driver: "),
    "dkms": (
        dict.fromkeys(("dkms.conf", "Makefile", "x.c"), b"x"),
        "",
        "is the source of a driver: build it with dkms",
    ),
    "patch": ({"0001-net.patch": PATCH}, "0001-net.patch", " is a patch: apply it and build the kernel"),
    "patch without a name": ({"x": b"diff --git a/x b/x\n"}, "x", " is a patch: apply it"),
    "folder of patches": ({"0001-net.patch": PATCH}, "", "is no build: 0001-net.patch is a patch: apply it"),
    "vmlinux": ({"vmlinux": made.module("vmlinux")}, "", "is no build: found vmlinux; an Image is needed"),
    "vmlinux, alone": ({"vmlinux": made.module("vmlinux")}, "vmlinux", " is vmlinux; an Image is needed"),
    "card": ({"x.img": CARD}, "x.img", " is an image of a whole card: take the kernel and modules out of it"),
    "card, packed": ({"x.img.xz": lzma.compress(CARD)}, "x.img.xz", " is an image of a whole card: "),
    "folder of cards": ({"x-factory.img.gz": gzip.compress(CARD)}, "", "x-factory.img.gz is an image of a whole card"),
    "targets of OpenWrt": (
        {
            "x-squashfs-factory.img.gz": b"x",
            "config.buildinfo": b"",
            "packages/kmod-x.ipk": b"x",
            "profiles.json": b"{}",
        },
        "",
        "is no build: x-squashfs-factory.img.gz is an image of a whole card: take the kernel and modules out of it",
    ),
    "empty folder": ({"x/.keep": b""}, "x", "/x has no part of a build; accepted: a kernel (kernel8.img"),
    "nothing known": ({"notes": b"x"}, "", ": unsupported file 'notes'; accepted: a kernel (kernel8.img"),
    "zip of a card": (
        {"x.zip": zipped({"2026-06-01-raspios.img": CARD})},
        "x.zip",
        "contains no kernel and no modules",
    ),
    "modules and vmlinux": (
        {"vmlinux": made.module("vmlinux"), **made.tree()},
        "",
        "has modules and no kernel: found vmlinux; an Image is needed",
    ),
    "modules in an archive and vmlinux": (
        {"vmlinux-6.12": made.module("vmlinux"), "modules.tgz": gzip.compress(made.tar(made.tree()))},
        "",
        "has modules and no kernel: found vmlinux-6.12; an Image is needed",
    ),
    "modules and uImage": (
        {"boot/uImage": b"\x27\x05\x19\x56", **made.tree()},
        "",
        "has modules and no kernel: found uImage; an Image is needed",
    ),
    "uImage": ({"uImage": b"\x27\x05\x19\x56"}, "", "is no build: uImage is an image for U-Boot (uImage); an Image"),
    "zip of a driver": (
        {"x.zip": zipped(dict.fromkeys(("x-master/Makefile", "x-master/x.c"), b"x"))},
        "x.zip",
        "build it with make -C /lib/modules/RELEASE/build M=FOLDER/x-master modules",
    ),
    "archive of a driver": (
        {
            "r8125-9.016.01.tar.bz2": bz2.compress(
                made.tar(dict.fromkeys(("r8125/src/Makefile", "r8125/src/x.c"), b"x"))
            )
        },
        "r8125-9.016.01.tar.bz2",
        "it is the source of a driver: build it with make -C",
    ),
    "archive of a kernel": (
        {"linux-6.12.tar.xz": lzma.compress(made.tar({"linux-6.12/MAINTAINERS": b"x", "linux-6.12/Kbuild": b"x"}))},
        "linux-6.12.tar.xz",
        "it is a source tree of the kernel: build it first",
    ),
    "source file": ({"r8169.c": b"int x;"}, "r8169.c", " is a source file: build the kernel or the module"),
    "headers": (
        {"linux-headers-6.12.deb": made.package({"usr/src/x": b"x"})},
        "linux-headers-6.12.deb",
        "it is a package without a kernel or modules; name the linux-image or linux-modules package",
    ),
}


@pytest.mark.parametrize(("files", "name", "says"), NO_BUILDS.values(), ids=NO_BUILDS)
def test_what_is_no_build_is_named(tmp_path: Path, files: dict[str, bytes], name: str, says: str) -> None:
    made.write(tmp_path, files)
    assert says in refused(tmp_path / name if name else tmp_path)


def test_a_large_image_of_a_card_is_named_before_its_size(tmp_path: Path) -> None:
    with (tmp_path / "x.img").open("wb") as file:
        file.write(CARD)
        file.truncate(3 << 30)
    assert "is an image of a whole card" in refused(tmp_path / "x.img")


def test_what_is_named_beside_a_kernel_is_never_left_out(tmp_path: Path) -> None:
    """The build would be judged without the patch."""
    package = made.package({f"boot/vmlinuz-{made.RELEASE}": made.image(), **made.tree()})
    made.write(tmp_path, {"Image": made.image(), "0001-net.patch": PATCH, "x.deb": package})
    made.write(tmp_path, {"build.yaml": b"kernel: 0001-net.patch\ndeb: x.deb\n"})
    for place in (f"{tmp_path}/Image,{tmp_path}/0001-net.patch", tmp_path / "build.yaml"):
        assert " is a patch: apply it and build the kernel" in refused(place)


REFS = (
    *("pulls/7472", "pull/7472/head", "v6.12.25", "v6.12.25-rpi", "v6.12-rc3", "HEAD~1", "HEAD^", "@", "main"),
    *("308d78f1385d", "origin/rpi-6.12.y", "rpi-6.12.y", "next-20260901", "stable_20250428", "a..b", "v6.12..HEAD"),
    *("raspberrypi/linux#7472", "torvalds/linux@308d78f", "git@github.com:raspberrypi/linux.git"),
)


@pytest.mark.parametrize("text", REFS)
def test_a_git_ref_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"there is no file or folder {text}: it is a git ref" in refused(text)


@pytest.mark.parametrize("text", ["../../out/Image", "a/../b", "upstream/r8169.ko", "../pulls/7472/out"])
def test_a_missing_file_is_no_git_ref(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert "git" not in refused(text)


def test_a_branch_of_this_repository_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q", "-b", "faster-rx"], [*who, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], check=True, capture_output=True)
    assert "it is a git ref" in refused("faster-rx")
    assert "did you mean" in refused(tmp_path / ".gi")


def test_a_whole_boot_partition_is_no_build(tmp_path: Path) -> None:
    made.write(tmp_path, {"kernel8.img": made.image(), "start4.elf": b"x", "config.txt": b"dtparam=audio=on\n"})
    assert "is a whole boot partition, since start4.elf stands beside config.txt" in refused(tmp_path)


# -- hostile archives -----------------------------------------------------------------------------------------------


def test_zip_archives_of_hostile_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "x.zip"
    place.write_bytes(zipped({"../../x.ko": b"x"}))
    assert "a path that leads out of the archive" in refused(place)
    place.write_bytes(b"PK\x03\x04" + b"x" * 100)
    assert "its zip archive cannot be read" in refused(place)
    link = zipfile.ZipInfo("lib/modules/x.ko")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(place, "w") as packing:
        packing.writestr(link, "/etc/shadow")
    assert "contains no kernel and no modules" in refused(place)
    place.write_bytes(zipped({"/Image": made.image()}))
    assert load_build(str(place)).release == made.RELEASE
    monkeypatch.setattr(archives, "MAX_BYTES", 2**20)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as packing:
        packing.writestr("Image", bytes(2**21))
    assert "its files are too large" in refused(place)


def test_archives_in_archives_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = made.tar(made.tree())
    for _ in range(6):
        inner = made.tar({"x.tar": inner})
    (tmp_path / "x.tar").write_bytes(inner)
    assert "contains no kernel and no modules" in refused(tmp_path / "x.tar")
    monkeypatch.setattr(archives, "MAX_FILES", 3)
    (tmp_path / "y.tar").write_bytes(made.tar({f"{number}": b"" for number in range(4)}))
    assert "it has more than 3 files" in refused(tmp_path / "y.tar")
    monkeypatch.setattr(archives, "MAX_BYTES", 2**20)
    (tmp_path / "z.zip").write_bytes(zipped({"z.tar": gzip.compress(made.tar({"lib/x": bytes(2**21)}))}))
    assert "its files are too large" in refused(tmp_path / "z.zip")


def test_the_files_of_archives_in_an_archive_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = {f"{number}.zip": zipped({f"{number}/{name}": bytes(100) for name in "abc"}) for number in range(4)}
    place = tmp_path / "x.zip"
    place.write_bytes(zipped(inner))
    monkeypatch.setattr(archives, "MAX_FILES", 15)
    assert "it has more than 15 files" in refused(place)
    monkeypatch.setattr(archives, "MAX_FILES", 16)
    octets = sum(map(len, inner.values())) + 12 * 100
    monkeypatch.setattr(archives, "MAX_ARCHIVE", octets - 1)
    assert "its files are too large (at most " in refused(place)
    monkeypatch.setattr(archives, "MAX_ARCHIVE", octets)
    assert "contains no kernel and no modules" in refused(place)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_damaged_data_in_a_zip_archive_is_one_sentence(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as packing:
        packing.writestr("Image", made.image() * 50)
    data = bytearray((tmp_path / "x.zip").read_bytes())
    # Behind the header of the file (30 octets, and the name) and the properties of LZMA (9).
    data[44:60] = b"\xff" * 16
    (tmp_path / "x.zip").write_bytes(data)
    assert "its zip archive cannot be read" in refused(tmp_path / "x.zip")


def test_a_file_that_is_twice_in_an_archive(tmp_path: Path) -> None:
    place = tmp_path / "x.tar"
    with tarfile.open(place, "w") as packing:
        for data in (b"a", b"b"):
            member = tarfile.TarInfo("boot/x")
            member.size = len(data)
            packing.addfile(member, io.BytesIO(data))
    assert refused(place).endswith("x.tar cannot be unpacked: it has boot/x twice, with different content")


def test_a_hard_link_in_a_tar_archive_is_a_file(tmp_path: Path) -> None:
    made.write(tmp_path, {f"x/{name}": data for name, data in {"boot/Image": made.image(), **made.tree()}.items()})
    (tmp_path / "x/lib/modules" / made.RELEASE / "kernel/drivers/net/macb.ko").write_bytes(made.module("macb"))
    (tmp_path / "x/0").hardlink_to(tmp_path / "x/lib/modules" / made.RELEASE / "kernel/drivers/net/macb.ko")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as packing:
        packing.add(tmp_path / "x/0", "0")
        packing.add(tmp_path / "x", ".", filter=lambda member: None if member.name == "./0" else member)
    assert load_build(str(tmp_path / "x.tar.gz")).modules.keys() == {"e1000e", "macb"}
