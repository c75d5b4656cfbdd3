"""From the value of --pinet-build to a checked build. Every error is one sentence with file and line."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.build import Build, BuildFileRole
from tests.support import build_files as made
from tests.support.build_files import refused


def of_yaml(tmp_path: Path, text: str) -> Build:
    (tmp_path / "build.yaml").write_text(text)
    return load_build(str(tmp_path / "build.yaml"))


def refused_yaml(tmp_path: Path, text: str) -> str:
    (tmp_path / "build.yaml").write_text(text)
    message = refused(tmp_path / "build.yaml")
    assert message.startswith(f"{tmp_path}/build.yaml:")
    return message.removeprefix(f"{tmp_path}/build.yaml:").replace(f"{tmp_path}/", "")


# -- options of modules ---------------------------------------------------------------------------------------------


def test_an_option_that_the_module_does_not_have_is_an_error_of_the_build(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), **made.tree()})
    built_in = b"mii.license=GPL\0usb_net.parmtype=msg_level:int\0usb_net.parm=quiet:no messages\0"
    made.write(tmp_path, {f"lib/modules/{made.RELEASE}/modules.builtin.modinfo": built_in})
    text = "kernel: Image\nmodules: .\noptions: {%s: {%s: 1}}\n"
    for module, parameter in (("e1000e", "debug"), ("usb_net", "msg_level"), ("mii", "dyndbg")):
        assert of_yaml(tmp_path, text % (module, parameter)).options == ((module, parameter, "1"),)
    built_in_here = ("usb_net", "NoSuchParameter")
    assert of_yaml(tmp_path, text % built_in_here).options == ((*built_in_here, "1"),), "the image proves nothing"
    made.write(tmp_path, {"Image": made.image() + b"\xffusb-net.msg_level\0drop_monitor.x\0usb_net.c\0"})
    for module, wrong, accepted in (
        ("e1000e", "NoSuchParameter", "InterruptThrottleRate, debug"),
        ("usb_net", "msg_levl", "msg_level, quiet"),
        (*built_in_here, "msg_level, quiet"),
        # No list names this code.
        ("drop_monitor", "NoSuchParameter", "x"),
    ):
        (tmp_path / "build.yaml").write_text(text % (module, wrong))
        message = refused(tmp_path / "build.yaml")
        assert message.endswith(f"options: {module} has no parameter {wrong!r}; accepted: {accepted}")


# Texts of Debian's kernel 6.1 (modules.builtin.modinfo). None names printk.devkmsg (__setup), random.trust_cpu,
# zswap.enabled (module_param_cb) or a parameter of pcie_aspm and rcutree (MODULE_PARAM_PREFIX).
BUILT_IN = (
    b"printk.parmtype=ignore_loglevel:bool\0printk.parmtype=time:bool\0printk.parmtype=console_suspend:bool\0"
    b"random.parmtype=ratelimit_disable:int\0zswap.parmtype=max_pool_percent:uint\0zswap.parmtype=zpool:charp\0"
    b"workqueue.parmtype=power_efficient:bool\0workqueue.parmtype=debug_force_rr_cpu:bool\0"
    b"memory_hotplug.parmtype=online_policy:online_policy\0pciehp.parmtype=pciehp_poll_mode:bool\0"
    b"srcutree.parmtype=exp_holdoff:ulong\0"
)

# Texts of the same kernel's image. A name may follow other bytes.
IMAGE = (
    b"printk.time\0printk.ignore_loglevel\0eReprintk.devkmsg=\0random.trust_cpu\0random.ratelimit_disable\0"
    b"zswap.max_pool_percent\0zswap.enabled\0workqueue.power_efficient\0workqueue.watchdog_thresh\0"
    b"memory_hotplug.online_policy\0memory_hotplug.memmap_on_memory\0pcie_aspm.policy\0rcutree.kthread_prio\0"
)


@pytest.mark.parametrize(
    ("module", "parameter"),
    [
        ("printk", "devkmsg"),
        ("random", "trust_cpu"),
        ("zswap", "enabled"),
        ("workqueue", "watchdog_thresh"),
        ("memory_hotplug", "memmap_on_memory"),
        ("pcie_aspm", "policy"),
        ("rcutree", "kthread_prio"),
        ("usbcore", "quirks"),
        ("nf_conntrack", "hashsize"),
        ("netback", "symbol"),
    ],
)
@pytest.mark.parametrize("image", [made.image(), made.image() + IMAGE], ids=["no texts", "texts"])
def test_a_parameter_that_the_kernel_accepts_is_never_refused(
    tmp_path: Path, image: bytes, module: str, parameter: str
) -> None:
    # usbcore has a description of "quirks" and no type, nf_conntrack neither of "hashsize".
    modules = {
        "usbcore": made.module("usbcore", parameters=(), parm=("quirks:A list of device quirks",)),
        "nf_conntrack": made.module("nf_conntrack", parameters=()) + b"\xff\0hashsize\0",
        "netback": lzma.compress(made.module("netback") + b"\0__param_str_symbol\0"),
    }
    made.write(tmp_path, {"Image": image, **made.tree(made.RELEASE, **modules)})
    made.write(tmp_path, {f"lib/modules/{made.RELEASE}/modules.builtin.modinfo": BUILT_IN})
    begin = "kernel: Image\nmodules: .\n"
    assert of_yaml(tmp_path, f"{begin}cmdline: {module}.{parameter}=1\n").cmdline == (f"{module}.{parameter}=1",)
    assert of_yaml(tmp_path, f"{begin}options: {{{module}: {{{parameter}: 1}}}}\n").options
    if module in modules:
        wrong = f"{parameter[1:]}x"
        assert f"{module} has no parameter '{wrong}'" in refused_yaml(tmp_path, f"{begin}cmdline: {module}.{wrong}=1\n")


@pytest.mark.parametrize(
    ("module", "accepted"),
    [("zswap", "enabled, max_pool_percent, zpool"), ("printk", "console_suspend, ignore_loglevel, time")],
)
def test_a_parameter_that_the_image_of_the_kernel_does_not_have_is_an_error(
    tmp_path: Path, module: str, accepted: str
) -> None:
    made.write(tmp_path, {"Image": gzip.compress(made.image() + IMAGE), **made.tree()})
    made.write(tmp_path, {f"lib/modules/{made.RELEASE}/modules.builtin.modinfo": BUILT_IN})
    for words in (f"options: {{{module}: {{NoSuchParameter: 1}}}}", f"cmdline: {module}.NoSuchParameter=1"):
        assert refused_yaml(tmp_path, f"kernel: Image\nmodules: .\n{words}\n").endswith(
            f"{words.partition(':')[0]}: {module} has no parameter 'NoSuchParameter'; accepted: {accepted}"
        )


def test_an_option_of_a_module_that_a_complete_build_does_not_have_is_an_error(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), **made.tree()})
    text = "kernel: Image\nmodules: .\noptions: {e1000: {debug: 1}}\n"
    # Without this list, the module may be built into the kernel.
    assert of_yaml(tmp_path, text).options == (("e1000", "debug", "1"),)
    made.write(tmp_path, {f"lib/modules/{made.RELEASE}/modules.builtin.modinfo": b"mii.license=GPL\0"})
    assert refused_yaml(tmp_path, text).endswith(
        "options: the build has no module 'e1000', and its kernel has none built in; did you mean 'e1000e'?"
    )


def test_a_word_of_the_command_line_that_names_no_parameter_of_its_module_is_an_error(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), **made.tree()})
    text = "kernel: Image\nmodules: .\ncmdline: net.ifnames=0 8250.nr_uarts=1 %s=1 quiet\n"
    assert of_yaml(tmp_path, text % "e1000e.debug").cmdline[2] == "e1000e.debug=1"
    assert refused_yaml(tmp_path, text % "e1000e.no-such").endswith(
        "cmdline: e1000e has no parameter 'no_such'; accepted: InterruptThrottleRate, debug"
    )


# -- accepted values -------------------------------------------------------------------------------------------------


def test_a_build_yaml_with_all_keys(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "pi.dtb": made.device_tree(), "o/eee.dtbo": made.device_tree()})
    (tmp_path / "modules.tar.xz").write_bytes(lzma.compress(made.tar(made.tree())))
    (tmp_path / "fw.bin").write_bytes(b"firmware")
    build = of_yaml(
        tmp_path,
        "name: slower-rx\nkernel: Image\nmodules: modules.tar.xz\ndevice_trees: [pi.dtb]\noverlays: [o]\n"
        "firmware: {rtl_nic/rtl8125b-2.fw: fw.bin}\nconfig: [dtparam=eee=off]\ncmdline: pci=pcie_bus_perf quiet\n"
        "options: {e1000e: {InterruptThrottleRate: 100, debug: true}}\nsysctls: {net.ipv4.tcp_sack: 0}\n"
        "rps: 0-1\nirq: 1\n",
    )
    assert (build.name, build.release, build.needs_boot) == ("slower-rx", made.RELEASE, True)
    assert [(str(file.role), file.name) for file in build.files] == [
        ("device_tree", "pi.dtb"),
        ("firmware", "rtl_nic/rtl8125b-2.fw"),
        ("kernel", "kernel8.img"),
        ("modules", made.RELEASE),
        ("overlay", "overlays/eee.dtbo"),
    ]
    assert build.kernel is not None
    assert build.kernel.version == made.VERSION
    assert build.kernel.vermagic == made.VERMAGIC
    assert build.kernel.build_ids == {made.BUILD_ID.hex()}
    assert build.modules["e1000e"].build_id == made.BUILD_ID.hex()
    assert (build.config, build.cmdline) == (("dtparam=eee=off",), ("pci=pcie_bus_perf", "quiet"))
    assert build.options == (("e1000e", "InterruptThrottleRate", "100"), ("e1000e", "debug", "1"))
    assert build.sysctls == (("net.ipv4.tcp_sack", "0"),)
    assert (build.rps, build.irq) == ("0-1", "1")


FEATURES = "a mapping such as 'tso: on' or 'tx-udp-segmentation: off'"


def test_features_alone_are_a_build_and_part_of_its_key(tmp_path: Path) -> None:
    texts = ("{sg: on, tso: on}", "{tso: on, sg: on}", "{sg: on, tso: off}", "{rx-gro-list: 'on'}")
    builds = [of_yaml(tmp_path, f"features: {text}\n") for text in texts]
    assert [build.features for build in builds] == [
        (("sg", "on"), ("tso", "on")),
        (("tso", "on"), ("sg", "on")),
        (("sg", "on"), ("tso", "off")),
        (("rx-gro-list", "on"),),
    ]
    assert len({build.key for build in builds}) == 4
    assert not any(build.needs_boot for build in builds)


def test_steering_alone_is_a_build_and_part_of_its_key(tmp_path: Path) -> None:
    texts = ("rps: 1\n", "rps: off\n", "rps: 0\n", "irq: 1\n", "irq: '0'\n", "rps: 1\nirq: 1\n")
    builds = [of_yaml(tmp_path, text) for text in texts]
    assert [build.rps for build in builds] == ["1", "off", "0", "", "", "1"]
    assert [build.irq for build in builds] == ["", "", "", "1", "0", "1"]
    assert len({build.key for build in builds}) == 6
    assert not any(build.needs_boot for build in builds)


def test_a_package_is_unpacked_once(tmp_path: Path, cache: Path) -> None:
    files = {f"boot/vmlinuz-{made.RELEASE}": made.image(), **made.tree()}
    files |= {f"usr/lib/linux-image-{made.RELEASE}/broadcom/bcm2711-rpi-4-b.dtb": made.device_tree()}
    files |= {f"usr/lib/linux-image-{made.RELEASE}/rockchip/other.dtb": made.device_tree()}
    package = tmp_path / "linux-image-6.12.25-pinet_6.12.25-1~deb12u1_arm64.deb"
    package.write_bytes(made.package(files))
    build = load_build(str(package))
    assert build.name == "linux-image-6.12.25-pinet"
    assert [file.name for file in build.files] == ["bcm2711-rpi-4-b.dtb", "kernel8.img", made.RELEASE]
    before = sorted(path for path in cache.rglob("*"))
    assert load_build(str(package)).key == build.key
    assert sorted(path for path in cache.rglob("*")) == before


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_packages_made_by_dpkg_are_read(tmp_path: Path) -> None:
    root = made.write(tmp_path / "root", {f"boot/vmlinuz-{made.RELEASE}": made.image(), **made.tree()})
    control = "Package: linux-image-x\nVersion: 1\nArchitecture: arm64\nMaintainer: m <m@localhost>\nDescription: x\n"
    made.write(root, {"DEBIAN/control": control.encode()})
    for packing in ("xz", "gzip", "none"):
        package = tmp_path / f"{packing}.deb"
        subprocess.run(["dpkg-deb", f"-Z{packing}", "--build", root, package], check=True, capture_output=True)
        assert load_build(str(package)).release == made.RELEASE


def test_file_names_in_a_folder_decide_what_the_files_are(tmp_path: Path) -> None:
    made.write(tmp_path, {"kernel8.img": gzip.compress(made.image()), "bcm2712-rpi-5-b.dtb": made.device_tree()})
    made.write(tmp_path, {**made.tree(), "config.txt": b"# mine\ndtparam=eee=off\n", "cmdline.txt": b"quiet\n"})
    made.write(tmp_path, {"overlays/x.dtbo": made.device_tree(), "firmware/brcm/a.bin": b"x", "System.map": b""})
    build = load_build(str(tmp_path))
    assert build.name == tmp_path.name
    assert {str(file.role) for file in build.files} == {"kernel", "device_tree", "modules", "overlay", "firmware"}
    assert (build.config, build.cmdline) == (("dtparam=eee=off",), ("quiet",))


PI_TREES = ["bcm2711-rpi-4-b.dtb", "overlays/eee.dtbo", "overlays/overlay_map.dtb"]


@pytest.mark.parametrize(
    "folders",
    [
        ("dtbs/broadcom", "dtbs/rockchip", "dtbs/overlays"),
        (f"dtbs/{made.RELEASE}/broadcom", f"dtbs/{made.RELEASE}/rockchip", f"dtbs/{made.RELEASE}/overlays"),
        # A 32-bit kernel of before 6.5.
        (f"dtbs/{made.RELEASE}", f"dtbs/{made.RELEASE}", f"dtbs/{made.RELEASE}/overlays"),
        ("broadcom", "broadcom", "overlays"),
    ],
)
def test_device_trees_are_taken_as_dtbs_install_makes_them(tmp_path: Path, folders: tuple[str, str, str]) -> None:
    ours, others, overlays = folders
    made.write(tmp_path, {"Image": made.image(), **made.tree()})
    names = (f"{ours}/bcm2711-rpi-4-b.dtb", f"{others}/rk3399-x.dtb", f"{overlays}/eee.dtbo")
    made.write(tmp_path, dict.fromkeys((*names, f"{overlays}/overlay_map.dtb"), made.device_tree()))
    made.write(tmp_path, {f"{overlays}/README": b"overlays"})
    of_folder = load_build(str(tmp_path))
    assert [file.name for file in of_folder.files if file.name.rpartition(".")[2].startswith("dtb")] == PI_TREES
    top = tmp_path / ours.partition("/")[0]
    yaml = f"kernel: Image\ndevice_trees: [{top.name}{', overlays' if top.name == 'broadcom' else ''}]\n"
    (tmp_path / "build.yaml").write_text(yaml)
    of_yaml = load_build(str(tmp_path / "build.yaml"))
    assert [file.name for file in of_yaml.files if file.name != "kernel8.img"] == PI_TREES


def test_device_trees_beside_an_image(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "dtbs/broadcom/bcm2712-rpi-5-b.dtb": made.device_tree()})
    build = load_build(f"{tmp_path}/Image,{tmp_path}/dtbs")
    assert [file.name for file in build.of(BuildFileRole.DEVICE_TREE)] == ["bcm2712-rpi-5-b.dtb"]


def test_a_folder_of_modules_beside_an_image_may_have_what_no_board_reads(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "out/lan78xx.ko": made.module("lan78xx")})
    (tmp_path / "out/.#lan78xx.c").symlink_to("me@here.123")
    (tmp_path / "out/src").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "out/log")
    build = load_build(f"{tmp_path}/Image,{tmp_path}/out")
    assert [file.name for file in build.of(BuildFileRole.MODULE)] == ["lan78xx.ko"]


def test_device_trees_of_two_kernels_in_one_folder_are_a_mistake(tmp_path: Path) -> None:
    names = (f"dtbs/{release}/broadcom/bcm2711-rpi-4-b.dtb" for release in ("6.12.1", "6.12.2"))
    trees = {name: made.device_tree() + bytes(number) for number, name in enumerate(names)}
    made.write(tmp_path, {"Image": made.image(), **trees})
    with pytest.raises(ConfigError, match=r"two files of this build get the same name on the board: bcm2711-rpi-4-b"):
        load_build(str(tmp_path))


def test_an_image_with_an_archive_and_a_module(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "lan78xx.ko": made.module("lan78xx")})
    (tmp_path / "modules.tar.gz").write_bytes(gzip.compress(made.tar(made.tree())))
    build = load_build(f"{tmp_path}/Image,{tmp_path}/modules.tar.gz,{tmp_path}/lan78xx.ko")
    assert build.name == "Image+modules.tar.gz+lan78xx.ko"
    assert {file.role for file in build.files} == {BuildFileRole.KERNEL, BuildFileRole.MODULES, BuildFileRole.MODULE}
    assert sorted(build.modules) == ["e1000e", "lan78xx"]


@pytest.mark.parametrize("packing", ["", ".xz", ".gz", ".zst"])
def test_a_single_module_needs_no_boot(tmp_path: Path, packing: str) -> None:
    data = made.module("r8169", depends="realtek,mdio-bus")
    if packing == ".zst":
        if shutil.which("zstd") is None:
            pytest.skip("the command zstd is not installed")
        data = subprocess.run(["zstd", "-c"], input=data, check=True, capture_output=True).stdout
    if packing in (".xz", ".gz"):
        data = lzma.compress(data) if packing == ".xz" else gzip.compress(data)
    (tmp_path / f"r8169.ko{packing}").write_bytes(data)
    build = load_build(str(tmp_path / f"r8169.ko{packing}"))
    assert not build.needs_boot
    assert build.modules["r8169"].vermagic == made.VERMAGIC
    assert build.modules["r8169"].depends == ("realtek", "mdio_bus")


def test_an_efi_image_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "vmlinuz").write_bytes(made.zboot(gzip.compress(made.image())))
    assert load_build(str(tmp_path / "vmlinuz")).release == made.RELEASE


def test_the_key_depends_only_on_the_content(tmp_path: Path) -> None:
    made.write(tmp_path, {"a/Image": made.image(), "b/Image": made.image(), "c/Image": made.image(size=5001)})
    first, same, other = (load_build(str(tmp_path / name)) for name in "abc")
    assert first.key == same.key != other.key
    assert first.name != same.name
    assert len(first.key) == 12
    assert of_yaml(tmp_path, "cmdline: quiet\n").key != of_yaml(tmp_path, "cmdline: verbose\n").key


# -- rejected values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "loader"),
    [
        (b"\0" * 5000 + b"U-Boot 2024.01 (Jan 08 2024)", "U-Boot"),
        # A firmware volume has its signature at byte 40 (UEFI Platform Initialization Specification, volume 3).
        (b"\0" * 40 + b"_FVH" + b"\0" * 5000, "UEFI"),
        (b"MZ" + b"\0" * 5000 + b"Welcome to GRUB!", "GRUB"),
        (b"MZ" + b"\0" * 5000, "an EFI program"),
    ],
)
def test_a_boot_loader_is_not_taken_for_a_kernel(tmp_path: Path, data: bytes, loader: str) -> None:
    (tmp_path / "loader.bin").write_bytes(data)
    message = refused_yaml(tmp_path, "name: x\nkernel: loader.bin\n")
    assert message.startswith(f"2: 'loader.bin' is {loader}, not a kernel; expected an arm64 Image")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image()})
    assert refused(tmp_path / "Imag") == (
        f"{tmp_path}/Imag: there is no file or folder {tmp_path}/Imag, did you mean '{tmp_path}/Image'?"
    )
    assert refused_yaml(tmp_path, "name: x\nkernel: Image\nmodules:\n  - Image.tar\n") == (
        "4: there is no module, folder or archive of modules Image.tar"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            made.module("vmlinux"),
            "it is an ELF file for arm64 (probably vmlinux), which the firmware cannot start; expected an arm64",
        ),
        (
            b"#!/bin/sh\n",
            "it is not a kernel image; expected an arm64 Image (plain, gzip or EFI zboot) or a 32-bit arm",
        ),
        (gzip.compress(made.image(), mtime=0)[:100], "its gzip data is damaged (it is truncated)"),
        (b"\x1f\x8b" + b"\0" * 100, "its gzip data is damaged"),
        (made.image()[:64], "it contains no Linux version; the file may be truncated"),
        (
            made.zboot(b"\x04\x22\x4d\x18", "lz4"),
            "it is an EFI zboot image compressed with lz4; expected gzip, xz, lzma or zstd",
        ),
    ],
)
def test_a_file_that_is_not_a_kernel_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "Image").write_bytes(data)
    assert f"2: 'Image' is not a kernel for a Raspberry Pi: {message}" in refused_yaml(
        tmp_path, "name: x\nkernel: Image\n"
    )


def test_a_module_of_another_kernel_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "a.ko": made.module("a", made.VERMAGIC.replace("25", "24"))})
    assert refused_yaml(tmp_path, "kernel: Image\nmodules: [a.ko]\n") == (
        "2: a.ko was built for kernel 6.12.24-pinet, but the image is kernel 6.12.25-pinet"
    )
    made.write(tmp_path, {"a.ko": made.module("a", made.VERMAGIC.replace(" modversions", ""))})
    assert refused_yaml(tmp_path, "kernel: Image\nmodules: [a.ko]\n") == (
        "2: build a.ko and the kernel with one configuration: the module has vermagic "
        "'6.12.25-pinet SMP preempt mod_unload aarch64', the image "
        "'6.12.25-pinet SMP preempt mod_unload modversions aarch64'"
    )
    made.write(tmp_path, {"a.ko": made.module("a", machine=made.X86_64)})
    assert refused_yaml(tmp_path, "kernel: Image\nmodules: [a.ko]\n") == (
        "2: a.ko is a module for x86_64, but the kernel is for arm64"
    )


def test_a_tree_with_a_module_of_another_kernel_is_refused(tmp_path: Path) -> None:
    stray = made.module("stray", made.VERMAGIC.replace("25", "24"))
    made.write(tmp_path, {"Image": made.image(), **made.tree(good=made.module("good"), stray=stray)})
    assert refused_yaml(tmp_path, "kernel: Image\nmodules: .\n") == (
        f"2: {made.RELEASE}/kernel/drivers/net/stray.ko was built for kernel 6.12.24-pinet, but the image is kernel "
        "6.12.25-pinet"
    )


def test_modules_without_a_kernel_are_refused(tmp_path: Path) -> None:
    made.write(tmp_path, made.tree())
    assert refused_yaml(tmp_path, "modules: .\n") == (
        "1: the build has all modules of kernel 6.12.25-pinet, but no kernel; "
        "add the image of this kernel, or give only single module files (*.ko)"
    )


def test_two_kernels_of_one_kind_are_refused(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "b/Image": made.image("6.1.0"), **made.tree("6.1.0"), **made.tree()})
    assert "a build can have only one kernel for a board, but has two" in refused(
        f"{tmp_path}/Image,{tmp_path}/b/Image"
    )
    made.write(tmp_path / "c", {**made.tree("6.1.1"), **made.tree("6.1.2")})
    assert "but has two trees: 6.1.1 and 6.1.2" in refused_yaml(tmp_path, "kernel: Image\nmodules: c\n")


def test_hexadecimal_and_octal_values_and_names_with_underscores_stay_as_they_are_written(tmp_path: Path) -> None:
    text = "options: {e1000e: {debug: 0x10}}\nsysctls: {net.core.default_qdisc: fq_codel, net.core.rmem_max: 0x34000}\n"
    build = of_yaml(tmp_path, text)
    assert build.options == (("e1000e", "debug", "0x10"),)
    assert build.sysctls == (("net.core.default_qdisc", "fq_codel"), ("net.core.rmem_max", "0x34000"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cmdline: |\n  quiet\n  splash\n", "1: cmdline: expected one line, because the firmware reads only the first"),
        ("name: x\ncmdlien: quiet\n", "2: unknown key 'cmdlien', did you mean 'cmdline'?"),
        ("name: x\n", "1: this build is empty; name at least one file or setting"),
        ("", " the file is empty; expected a build.yaml with keys such as 'kernel' and 'modules'"),
        (
            "config: ['dtparam = eee=off']\n",
            "1: config line 'dtparam = eee=off': the firmware ignores a line with a blank beside its first '='",
        ),
        (
            "config: ['arm_freq= 900']\n",
            "1: config line 'arm_freq= 900': the firmware ignores a line with a blank beside",
        ),
        (
            f"config: [dtparam={'x' * 91}]\n",
            f"1: config line 'dtparam={'x' * 72}...' has 99 characters, and the firmware",
        ),
        ("config: [os_prefix=x/]\n", "1: config line 'os_prefix=x/': os_prefix is reserved: pinet sets it"),
        ("options: {e1000e: {a b: 1}}\n", "1: options: expected a parameter of e1000e such as 'debug', got 'a b'"),
        ("options: {e1000e: {debug: 1 2}}\n", "1: options.e1000e.debug: expected a value without spaces such as 100"),
        ("sysctls: {tcp_sack: 0}\n", "1: sysctls: expected a mapping such as 'net.ipv4.tcp_sack: 0', got 'tcp_sack'"),
        (
            "sysctls: {net.core.rmem_max: 1_000_000}\n",
            "1: sysctls: expected numbers without '_', which the kernel cannot read, got '1_000_000'",
        ),
        ("sysctls: {net.ipv4.tcp_rmem: '4096 0x8_0 1'}\n", "1: sysctls: expected numbers without '_'"),
        ("options: {e1000e: {debug: '1,1_0'}}\n", "1: options.e1000e.debug: expected numbers without '_'"),
        ("rps: second\n", "1: rps: 'second' is not 'all', 'off', CPUs such as '0-3' or '1,3', or a mask such as '0xf'"),
        ("irq: 0-1\n", "1: irq: expected one CPU such as 1, got '0-1'"),
        ("irq: true\n", "1: irq: expected one CPU such as 1, got 'true'"),
        ("rps: true\n", "1: rps: 'true' is not 'all', 'off'"),
        ("features: tso\n", f"1: features: expected {FEATURES}, got 'tso'"),
        ("features: {tsoo: on}\n", f"1: features: expected {FEATURES}, with names of ethtool -K, got 'tsoo'"),
        ("features: {tso: 1}\n", "1: features: 1 is not 'on' or 'off'"),
        ("cmdline: pinet.build=1\n", "1: cmdline: pinet.build is reserved: pinet sets it when it deploys the build"),
        ("cmdline: " + "x" * 1100 + "\n", "1: cmdline: longer than 1024 characters, which the firmware does not pass"),
        ("firmware: {../../etc/passwd: build.yaml}\n", "1: firmware '../../etc/passwd' must be a path below"),
        ("device_trees: [build.yaml]\n", "1: build.yaml is not a device tree; expected *.dtb or *.dtbo"),
    ],
)
def test_mistakes_in_a_build_yaml_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    assert refused_yaml(tmp_path, text).startswith(message)


def test_a_cmdline_txt_with_two_lines_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path, {"kernel8.img": made.image(), "cmdline.txt": b"\nquiet\nsplash\n"})
    assert refused(tmp_path) == (
        f"{tmp_path}/cmdline.txt:3: expected one line, because the firmware reads only the first"
    )


@pytest.mark.parametrize(("name", "near"), [("config.tx", "config.txt"), ("kernel.img8", ""), ("overlay", "overlays")])
def test_a_misspelled_file_in_a_folder_is_refused(tmp_path: Path, name: str, near: str) -> None:
    made.write(tmp_path, {"kernel8.img": made.image(), f"{name}/x" if name == "overlay" else name: b"x"})
    if near:
        assert refused(tmp_path).startswith(
            f"{tmp_path}: unsupported file '{name}', did you mean '{near}'? Accepted: a"
        )
    else:
        assert load_build(str(tmp_path)).left_out == (name,)


def test_broken_packages_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_bytes(b"hello")
    assert refused(tmp_path / "a.deb").endswith("cannot be unpacked: it is not a Debian package (no 'ar' archive)")
    whole = made.package({"usr/bin/x": b"x"})
    (tmp_path / "b.deb").write_bytes(whole[:-20])
    assert refused(tmp_path / "b.deb").endswith("cannot be unpacked: it is truncated")
    (tmp_path / "c.deb").write_bytes(whole)
    assert refused(tmp_path / "c.deb").endswith(
        "contains no kernel and no modules; expected a linux-image package, or an archive with boot/ or lib/modules/"
    )


def test_an_archive_cannot_write_outside(tmp_path: Path) -> None:
    (tmp_path / "m.tar").write_bytes(made.tar({"../../../tmp/x.ko": b"x"}))
    assert "a path that leads out of the archive" in refused(f"{tmp_path / 'm.tar'}")


def test_broken_modules_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes(b"text")
    assert refused(tmp_path / "a.ko").endswith("a.ko: it is not a kernel module (it is not an ELF file)")
    (tmp_path / "b.ko.xz").write_bytes(b"\xfd7zXZ\x00broken")
    assert "its xz data is damaged" in refused(tmp_path / "b.ko.xz")
