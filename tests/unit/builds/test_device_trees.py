"""The device tree of a build is compared with the tree that the kernel booted with, which the firmware has edited."""

from __future__ import annotations

import struct

import pytest

from pytest_pinet.builds.matching import FirmwareEdits, TreeProof, compare_device_trees
from pytest_pinet.evidence.fdt import NotDeviceTree, read_device_tree, shown
from tests.support.device_tree_files import PI_4, Node, blob, booted, changed

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
