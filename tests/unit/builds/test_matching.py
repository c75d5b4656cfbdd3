"""Whether a build fits a board, whether the board runs the build, and its device tree."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.ab.options import ABOptions
from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.matching import (
    FirmwareEdits,
    TreeProof,
    changed_values,
    compare_device_trees,
    mismatches,
    missing_modules,
    not_proved,
    require_any_pi,
    require_machine,
    require_processor,
)
from pytest_pinet.errors import BuildError
from pytest_pinet.evidence.build import read_running
from pytest_pinet.evidence.fdt import NotDeviceTree, read_device_tree, shown
from pytest_pinet.judge.turns import Side
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, KernelId, Loaded, ModuleId, RunningBuild
from pytest_pinet.model.record.change import BuildFileRecord
from tests.support import build_files as made
from tests.support.change_session import Bench, bench_with
from tests.support.device_tree_files import PI_4, Node, blob, booted, changed
from tests.support.local_shell import LocalShell

VERSION = "Linux version 6.12.25 (me@here) (gcc) #7 SMP"
KERNEL = KernelId("arm64", "6.12.25", VERSION, build_ids=frozenset({"aa", "bb"}))
FILE = BuildFile(BuildFileRole.KERNEL, "kernel8.img", "/x/Image", "0" * 64, 1)
SINGLE = BuildFile(BuildFileRole.MODULE, "r8169.ko.xz", "/x/r8169.ko.xz", "1" * 64, 1)
MODULE = ModuleId("r8169", "r8169.ko.xz", "6.12.25 SMP", "arm64", "S1", "cc")
BUILD = Build("new", (FILE,), KERNEL)


def running(build: Build | None = BUILD, **more: Any) -> RunningBuild:
    mark = f" pinet.build={build.key}" if build is not None else ""
    found = RunningBuild("pi5-1", "Linux pi5-1 6.12.25", VERSION, f"root=/dev/x rootwait quiet{mark}", build_id="aa")
    return replace(found, **more)


def test_a_board_that_runs_the_build_has_no_mismatch() -> None:
    assert mismatches(BUILD, running(), booted=True) == []


@pytest.mark.parametrize(
    ("build", "found", "message"),
    [
        (BUILD, running(None), f"the kernel command line has no {BUILD.key}: pi5-1 booted its known-good build"),
        (BUILD, running(replace(BUILD, cmdline=("a",))), "pi5-1 booted build "),
        (
            BUILD,
            running(version="Linux version 6.12.24"),
            "the board runs 'Linux version 6.12.24', but the image contains '",
        ),
        (BUILD, running(build_id="dd"), "the build ID of the running kernel is dd, which the image does not contain"),
    ],
)
def test_another_kernel_is_a_mismatch(build: Build, found: RunningBuild, message: str) -> None:
    (why,) = mismatches(build, found, booted=True)
    assert why.startswith(message)


def test_a_missing_word_on_the_command_line_is_a_mismatch() -> None:
    build = replace(BUILD, cmdline=("quiet", "pci=nomsi"))
    assert mismatches(build, running(build), booted=True) == ["'pci=nomsi' is missing on the kernel command line"]


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        (Loaded("S1", "cc"), []),
        (Loaded(None, "cc"), []),
        (Loaded(None, None), []),
        (Loaded("S2", "cc"), ["module r8169 has srcversion S2, expected S1"]),
        # Built from the same source with other options.
        (Loaded("S1", "dd"), ["module r8169 has build ID dd, expected cc"]),
    ],
)
def test_loaded_modules_are_compared_with_the_build(loaded: Loaded, expected: list[str]) -> None:
    build = replace(BUILD, modules={"r8169": MODULE})
    assert mismatches(build, running(modules={"r8169": loaded}), booted=True) == expected


def test_single_modules_must_be_loaded_but_not_modules_of_a_tree() -> None:
    tree = replace(BUILD, modules={"r8169": MODULE})
    assert mismatches(tree, running(), booted=True) == []
    build = Build("one", (SINGLE,), modules={"r8169": MODULE})
    assert missing_modules(build, running(None)) == ["r8169"]
    assert mismatches(build, running(None), booted=False) == ["module r8169 is not loaded"]
    assert missing_modules(build, running(None, modules={"r8169": Loaded()})) == []


def test_options_and_sysctls_are_compared() -> None:
    build = Build("set", options=(("e1000e", "debug", "1"),), sysctls=(("net.ipv4.tcp_rmem", "4096 65536 65536"),))
    good = running(None, parameters={"e1000e.debug": "Y"}, sysctls={"net.ipv4.tcp_rmem": "4096\t65536\t65536"})
    assert mismatches(build, good, booted=False) == []
    hidden = replace(good, parameters={})
    assert mismatches(build, hidden, booted=False) == []
    bad = running(None, parameters={"e1000e.debug": "0"}, sysctls={"net.ipv4.tcp_rmem": "4096 131072 6291456"})
    assert mismatches(build, bad, booted=False) == [
        "option e1000e.debug is '0', expected '1'",
        "sysctl net.ipv4.tcp_rmem is '4096 131072 6291456', expected '4096 65536 65536'",
    ]
    assert mismatches(build, replace(good, sysctls={}), booted=False) == ["the kernel has no sysctl net.ipv4.tcp_rmem"]


@pytest.mark.parametrize(
    ("wanted", "now", "is_equal"),
    [
        ("0x10", "16", True),
        ("010", "8", True),
        ("16", "0x00000010", True),
        ("0x10", "10", False),
        ("08", "8", False),
        ("fq_codel", "fq_codel", True),
    ],
)
def test_numbers_are_compared_by_value(wanted: str, now: str, is_equal: bool) -> None:
    build = Build("set", options=(("e1000e", "debug", wanted),), sysctls=(("net.core.rmem_max", wanted),))
    found = running(None, parameters={"e1000e.debug": f"{now}\n"}, sysctls={"net.core.rmem_max": now})
    assert len(mismatches(build, found, booted=False)) == (0 if is_equal else 2)
    lists = Build("set", options=(("e1000e", "debug", f"1,{wanted}"),), sysctls=(("net.a", f"1 {wanted}"),))
    found = running(None, parameters={"e1000e.debug": f"1,{now}"}, sysctls={"net.a": f"1\t{now}"})
    assert len(mismatches(lists, found, booted=False)) == (0 if is_equal else 2)


def test_a_value_that_the_kernel_changed_to_a_third_value_is_named_and_a_kept_one_is_an_error() -> None:
    build = Build("set", options=(("e1000e", "debug", "99"),), sysctls=(("net.core.somaxconn", "4096"),))
    before = running(None, parameters={"e1000e.debug": "0"}, sysctls={"net.core.somaxconn": "128"})
    clamped = running(None, parameters={"e1000e.debug": "16\n"}, sysctls={"net.core.somaxconn": "2048"})
    assert mismatches(build, clamped, False, before) == []
    assert changed_values(build, clamped, before) == (
        "option e1000e.debug: requested '99', the kernel has '16'",
        "sysctl net.core.somaxconn: requested '4096', the kernel has '2048'",
    )
    assert mismatches(build, before, False, before) == [
        "option e1000e.debug is still '0', as before, expected '99'",
        "sysctl net.core.somaxconn is still '128', as before, expected '4096'",
    ]
    assert changed_values(build, before, before) == ()
    exact = running(None, parameters={"e1000e.debug": "99"}, sysctls={"net.core.somaxconn": "4096"})
    assert (mismatches(build, exact, False, before), changed_values(build, exact, before)) == ([], ())
    # What the driver had before is not known.
    assert mismatches(build, clamped, False, running(None)) == [
        "option e1000e.debug is '16', expected '99'",
        "sysctl net.core.somaxconn is '2048', expected '4096'",
    ]


def test_the_release_of_the_running_kernel_must_be_that_of_image_and_modules() -> None:
    other = running(uname="Linux pi5-1 6.12.24 #1 SMP aarch64 GNU/Linux")
    assert mismatches(BUILD, other, booted=True) == [
        "uname -r of the board is 6.12.24, but the image is kernel 6.12.25"
    ]
    # A zImage that cannot be unpacked has the release of its modules only.
    packed = replace(BUILD, kernel=KernelId("arm", "6.12.25", ""))
    assert mismatches(packed, replace(other, cmdline=running(packed).cmdline), booted=True) == [
        "uname -r of the board is 6.12.24, but the image is kernel 6.12.25"
    ]
    assert not_proved(packed, running(packed)) == (
        "kernel: pinet cannot unpack the image (lz4 or lzo), so only the release was compared",
    )


def test_what_a_board_does_not_report_is_not_proved() -> None:
    def files(role: BuildFileRole, *names: str) -> tuple[BuildFile, ...]:
        return tuple(BuildFile(role, name, f"/x/{name}", "0" * 64, 1) for name in names)

    overlays = files(BuildFileRole.OVERLAY, *(f"overlays/{letter}.dtbo" for letter in "abcde"))
    build = Build(
        "all",
        (
            FILE,
            *files(BuildFileRole.INITRAMFS, "initrd.img"),
            *overlays,
            *files(BuildFileRole.FIRMWARE, "rtl_nic/a.fw"),
        ),
        replace(KERNEL, build_ids=frozenset()),
        {"r8169": ModuleId("r8169", "r8169.ko", "6.12.25 SMP", "arm64", None, None), "absent": MODULE},
        config=("dtparam=eee=off",),
        options=(("e1000e", "debug", "1"), ("r8169", "shown", "1")),
    )
    found = running(build, modules={"r8169": Loaded("S1", "cc")}, parameters={"r8169.shown": "1"})
    assert not_proved(build, found) == (
        "kernel: it has no build ID, so only its release and its version line were compared",
        "module r8169: no srcversion and no build ID can be compared",
        "initramfs initrd.img: the board does not say which file it loaded",
        "overlay overlays/a.dtbo, overlays/b.dtbo, overlays/c.dtbo and 2 more: "
        "the board does not say which file it merged",
        "driver firmware rtl_nic/a.fw: a driver reports at most a version (ethtool -i)",
        "config.txt 'dtparam=eee=off': the firmware does not say which lines it used",
        "option e1000e.debug=1: the driver does not show its value",
    )
    assert not_proved(BUILD, running()) == ()


def test_the_running_kernel_of_this_machine_is_read() -> None:
    found = read_running(LocalShell("runner"), [("no_such", "option")], ["net.ipv4.tcp_sack", "no.such", "x; reboot"])
    assert found.version.startswith("Linux version ")
    assert found.uname.startswith("Linux ")
    assert found.marker is None
    assert found.sysctls.keys() == {"net.ipv4.tcp_sack"}
    assert found.parameters == {}
    assert found.record()["version"] == found.version


def test_the_record_of_a_build() -> None:
    build = replace(BUILD, options=(("e1000e", "debug", "1"),), sysctls=(("net.core.rmem_max", "1"),))
    record = ABOptions(build, None).record(Side.B)
    assert record.files == (BuildFileRecord(role="kernel", name="kernel8.img", sha256="0" * 64, size=1),)
    assert (record.options, record.sysctls) == (("e1000e.debug=1",), ("net.core.rmem_max=1",))
    assert record.key == build.key != BUILD.key
    assert "rps" not in record.dump()
    assert "features" not in record.dump()
    steered = ABOptions(replace(build, rps="1", irq="0", features=(("tso", "on"),)), None).record(Side.B)
    assert (steered.dump()["rps"], steered.dump()["irq"]) == ("1", "0")
    assert steered.settings == ("e1000e.debug=1", "net.core.rmem_max=1", "rps=1", "irq=0", "tso=on")


X86 = b"\0" * 0x202 + b"HdrS"
RISCV = b"\0" * 0x38 + b"RSC\x05"
# A zImage, which unpacks itself, so its version is not readable.
ARM = b"\0" * 0x24 + b"\x18\x28\x6f\x01" + b"\0" * 0x40


def image(folder: Path, data: bytes) -> Build:
    (folder / "Image").write_bytes(data)
    return load_build(str(folder / "Image"))


@pytest.mark.parametrize(
    ("data", "arch"),
    [
        (X86, "x86"),
        (RISCV, "riscv"),
        (gzip.compress(X86, mtime=0), "x86"),
        # An EFI stub makes a kernel begin with MZ.
        (b"MZ" + X86[2:], "x86"),
        (b"MZ" + RISCV[2:], "riscv"),
    ],
)
def test_a_kernel_for_another_processor_is_refused(tmp_path: Path, data: bytes, arch: str) -> None:
    with pytest.raises(BuildError) as caught:
        require_any_pi(image(tmp_path, data))
    assert str(caught.value) == (
        f"build Image is for {arch}, but a Raspberry Pi has an arm64 or arm processor: "
        "set ARCH=arm64 when you compile the kernel"
    )
    assert caught.value.kind == "wrong architecture"


def test_a_module_for_another_processor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes(made.module("a", machine=made.X86_64))
    with pytest.raises(BuildError, match=r"build a\.ko is for x86_64, but a Raspberry Pi has an arm64"):
        require_any_pi(load_build(str(tmp_path / "a.ko")))


def test_a_32_bit_kernel_fits_only_32_bit_boards(tmp_path: Path) -> None:
    build = image(tmp_path, ARM)
    require_any_pi(build)
    require_machine(build, "old", "armv7l")
    with pytest.raises(BuildError, match=r"build Image is for arm, but pi runs arm64 \(aarch64\)"):
        require_machine(build, "pi", "aarch64")
    # Only a 64-bit kernel calls itself armv8l, to programs that run as on a 32-bit machine.
    with pytest.raises(BuildError, match=r"build Image is for arm, but pi runs arm64 \(armv8l\)"):
        require_machine(build, "pi", "armv8l")


@pytest.mark.parametrize(
    ("architectures", "bits", "why"),
    [
        (("arm64", "arm"), 32, None),
        (("arm64", "arm"), None, None),
        (("arm",), 32, None),
        (("arm64",), 32, "the processor of pi starts only arm64 kernels: set ARCH=arm64 when you compile the kernel"),
        (("arm64", "arm"), 64, "the programs of pi are 64-bit, which a 32-bit kernel cannot run: set ARCH=arm64"),
    ],
)
def test_processor_and_programs_decide_whether_a_32_bit_kernel_is_booted(
    tmp_path: Path, architectures: tuple[str, ...], bits: int | None, why: str | None
) -> None:
    build = image(tmp_path, ARM)
    if why is None:
        require_processor(build, "pi", architectures, bits)
        return
    with pytest.raises(BuildError) as caught:
        require_processor(build, "pi", architectures, bits)
    assert str(caught.value).startswith(f"build Image is for arm, but {why}")
    assert caught.value.kind == "wrong architecture"


def test_settings_fit_every_processor(tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text("cmdline: quiet\n")
    require_machine(load_build(str(tmp_path)), "pi", "aarch64")


TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, TEST) as found:
        (pytester.path / "Image").write_bytes(X86)
        yield found


@pytest.mark.parametrize("baseline", ["good.yaml", "running", "accepted"])
def test_a_wrong_architecture_is_a_finding_and_no_board_is_used(bench: Bench, baseline: str) -> None:
    result = bench.run(builds=("Image", baseline))
    result.assert_outcomes(failed=1)
    head = bench.record["change"]
    assert [(entry["verdict"], entry["finding"]) for entry in head["entries"]] == [("fail", "wrong architecture")]
    assert (head["exit"], head["bisect_exit"]) == (1, 125)
    assert bench.log == []
    result.stdout.fnmatch_lines(["*WRONG ARCHITECTURE*", "*build Image is for x86, but a Raspberry Pi has an arm64*"])


def test_a_wrong_architecture_seen_on_the_board_is_a_finding(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(check=lambda build: BuildError("build new is for arm, and one runs arm64", "wrong architecture")'
        ' if build.name == "new" else None)'
    )
    bench.run().assert_outcomes(failed=1)
    assert [entry["finding"] for entry in bench.record["change"]["entries"]] == ["wrong architecture"]
    assert not any(line.startswith("boot") for line in bench.log)


def test_a_baseline_for_another_processor_is_a_usage_error(bench: Bench) -> None:
    result = bench.run(builds=("new.yaml", "Image"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--pinet-against: build Image is for x86, but a Raspberry Pi has an*"])


def test_a_baseline_that_the_board_cannot_run_is_a_usage_error(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(check=lambda build: BuildError("build good is for arm, and one runs arm64", "wrong architecture")'
        ' if build.name == "good" else None)'
    )
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*build good is for arm, and one runs arm64*"])


NAME = "bcm2711-rpi-4-b.dtb"
EDITS = FirmwareEdits.learn(blob(PI_4), blob(booted(PI_4)))
TWO_NODES = (
    f"device tree {NAME}: 2 nodes that the firmware or an overlay changes, such as /soc/serial@7e215040",
)  # fmt: skip


def compare(file: Node, running: Node, edits: FirmwareEdits = EDITS) -> TreeProof:
    return compare_device_trees(NAME, blob(file), blob(running), edits)


def test_a_tree_is_read_with_its_nodes_and_values() -> None:
    tree = read_device_tree(blob(PI_4))
    assert list(tree)[:3] == ["/", "/aliases", "/chosen"]
    assert tree["/"]["compatible"] == b"raspberrypi,4-model-b\0brcm,bcm2711\0"
    assert tree["/scb/ethernet@7d580000/mdio@e14/ethernet-phy@1"]["reg"] == struct.pack(">I", 1)
    assert tree["/soc/serial@7e215040"]["skip-init"] == b""


@pytest.mark.parametrize(
    "data",
    [b"", b"known-good tree", blob(PI_4)[:-20], blob(PI_4)[:200], b"\xd0\x0d\xfe\xed" + b"\xff" * 60,
     struct.pack(">10I", 0xD00DFEED, 56 + 8 * 200, 56, 40, 40, 17, 16, 0, 0, 8 * 200)
     + bytes(16) + struct.pack(">2I", 1, 0x61000000) * 200],
)  # fmt: skip
def test_other_data_are_no_device_tree(data: bytes) -> None:
    with pytest.raises(NotDeviceTree):
        read_device_tree(data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "no value"),
        (b"okay\0", '"okay"'),
        (b"a\0b\0", '"a", "b"'),
        (struct.pack(">2I", 1, 0xFF), "<0x1 0xff>"),
        (b"\1\2\3", "[01 02 03]"),
        (b"x" * 99 + b"\0", f'"{"x" * 56}...'),
    ],
)
def test_a_value_is_shown_as_in_a_source(value: bytes, text: str) -> None:
    assert shown(value) == text


def test_a_build_whose_tree_was_used_has_no_difference() -> None:
    new = changed(PI_4, scb__ethernet__phy_mode="rgmii", scb__ethernet__brcm_new=7)
    # The build is booted on the board, whose firmware edits its tree in the same way.
    assert compare(new, booted(new)) == TreeProof("", TWO_NODES)


def test_if_the_firmware_has_used_the_known_good_tree_the_first_node_and_property_are_named() -> None:
    new = changed(PI_4, scb__ethernet__phy_mode="rgmii", scb__ethernet__max_speed=100)
    assert compare(new, booted(PI_4)).difference == (
        f'device tree {NAME}: phy-mode of /scb/ethernet@7d580000 is "rgmii-rxid", expected "rgmii" (and 1 more)'
    )


def test_a_missing_node_is_one_difference_with_all_that_it_contains() -> None:
    new = changed(PI_4, scb__pcie={"reg": 1, "usb@0": {"reg": 2}})
    assert compare(new, booted(PI_4)).difference == f"device tree {NAME}: the running tree has no node /scb/pcie"


def test_a_missing_property_is_a_difference() -> None:
    running = booted(PI_4)
    del running["scb"]["ethernet@7d580000"]["max-speed"]
    assert compare(PI_4, running).difference == (
        f"device tree {NAME}: max-speed of /scb/ethernet@7d580000 is missing, expected <0x3e8>"
    )


@pytest.mark.parametrize(
    "running",
    [
        # The board's own facts, also of another board than that of the known-good boot.
        booted(PI_4, mac=b"\0\1\2\3\4\5"),
        # Values that the firmware or an overlay has changed in the known-good boot, too.
        changed(booted(PI_4), soc__gpu__status="disabled"),
        changed(booted(PI_4), soc__gpu__compatible="other"),
        changed(booted(PI_4), model="Raspberry Pi 4 Model B Rev 1.5", chosen={}, aliases={}, memory={}),
    ],
)
def test_edits_of_the_firmware_are_no_difference(running: Node) -> None:
    assert compare(PI_4, running).difference == ""


def test_a_device_that_both_an_overlay_and_the_known_good_tree_switch_on_is_no_difference() -> None:
    known = changed(PI_4, scb__ethernet__status="okay")
    edits = FirmwareEdits.learn(blob(known), blob(booted(known)))
    new = changed(PI_4, scb__ethernet__status="disabled")
    assert compare(new, booted(known), edits).difference == ""
    other = changed(booted(known), scb__ethernet__status="fail")
    assert "status of /scb/ethernet@7d580000" in compare(new, other, edits).difference


@pytest.mark.parametrize(
    ("file", "running", "why"),
    [
        (blob(PI_4), None, "the kernel has no /sys/firmware/fdt"),
        (blob(PI_4), b"", "the kernel has no /sys/firmware/fdt"),
        (blob(PI_4), b"x", "/sys/firmware/fdt cannot be read: it does not begin like a device tree"),
        (None, blob(booted(PI_4)), "the device tree of the known-good build is not known"),
        (b"known-good tree", blob(booted(PI_4)), "the device tree of the known-good build cannot be read: it does not"),
    ],
)
def test_without_the_known_good_boot_nothing_is_compared_and_this_is_said(
    file: bytes | None, running: bytes | None, why: str
) -> None:
    found = compare(PI_4, booted(PI_4), FirmwareEdits.learn(file, running))
    assert found.difference == ""
    assert found.not_compared[0].startswith(f"device tree {NAME}: {why}")
