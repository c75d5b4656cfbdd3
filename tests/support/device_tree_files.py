"""Flattened device trees in their real format: small ones of a Raspberry Pi 4, and the firmware's edits of a boot."""

from __future__ import annotations

import copy
import struct
from typing import Any

# A value is bytes, a text or a list of texts (ended by zero bytes), a number or a list of numbers (32 bits each).
# A node is a dictionary.
Node = dict[str, Any]

PI_4: Node = {
    "compatible": ["raspberrypi,4-model-b", "brcm,bcm2711"],
    "model": "Raspberry Pi 4 Model B",
    "memreserve": [0x3B400000, 0x4C00000],
    "aliases": {"serial0": "/soc/serial@7e215040", "ethernet0": "/scb/ethernet@7d580000"},
    "chosen": {"bootargs": "coherent_pool=1M"},
    "memory@0": {"device_type": "memory", "reg": [0, 0, 0]},
    "soc": {
        "serial@7e215040": {"compatible": "brcm,bcm2835-aux-uart", "status": "disabled", "skip-init": b""},
        "gpu": {"compatible": "brcm,bcm2711-vc5", "status": "disabled"},
    },
    "scb": {
        "dma-ranges": [4, 0x7C000000, 0, 0xFC000000, 0x3800000],
        "ethernet@7d580000": {
            "compatible": "brcm,bcm2711-genet-v5",
            "local-mac-address": bytes(6),
            "phy-mode": "rgmii-rxid",
            "max-speed": 1000,
            "mdio@e14": {"ethernet-phy@1": {"reg": 1, "led-modes": b"\0\x08"}},
        },
    },
    "__overrides__": {"eee": struct.pack(">I", 0x31) + b"brcm,eee?\0"},
}


def changed(tree: Node, **values: object) -> Node:
    """Return a copy with other values: ``changed(PI_4, scb__dma_ranges=[1])`` by path with two underscores each.

    The value None deletes. In a part of the path, ``at`` stands for the unit address and ``_`` for a hyphen.
    """
    found = copy.deepcopy(tree)
    for path, value in values.items():
        *parents, name = [_name(part) for part in path.split("__")]
        node = found
        for parent in parents:
            node = node[next((key for key in node if key.partition("@")[0] == parent), parent)]
        name = next((key for key in node if key.partition("@")[0] == name), name)
        if value is None:
            del node[name]
        else:
            node[name] = value
    return found


def _name(part: str) -> str:
    return part.replace("_", "-")


def booted(tree: Node, mac: bytes = b"\xdc\xa6\x32\x01\x02\x03") -> Node:
    """Return the tree that the kernel gets: the firmware fills in the board's facts, and merges an overlay."""
    found = changed(
        tree,
        model="Raspberry Pi 4 Model B Rev 1.4",
        serial_number="10000000e1f2a3b4",
        memory__reg=[0, 0, 0x3B400000, 0, 0x40000000, 0xBC000000],
        soc__serial__status="okay",
        soc__gpu__status="okay",
    )
    found["chosen"] = {"bootargs": "root=/dev/mmcblk0p2", "bootloader": {"tryboot": 1}}
    found["scb"]["ethernet@7d580000"]["local-mac-address"] = mac
    found["soc"]["i2c0mux"] = {"status": "okay"}
    return found


def blob(tree: Node) -> bytes:
    """Return the tree as a file (Devicetree Specification, chapter 5)."""
    strings: dict[str, int] = {}
    structs = _node("", tree, strings) + struct.pack(">I", 9)
    names = b"".join(name.encode() + b"\0" for name in strings)
    start = 40 + 16
    heads = (0xD00DFEED, start + len(structs) + len(names), start, start + len(structs), 40, 17, 16, 0)
    return struct.pack(">10I", *heads, len(names), len(structs)) + bytes(16) + structs + names


def _node(name: str, node: Node, strings: dict[str, int]) -> bytes:
    # A node's properties come before its children.
    data = struct.pack(">I", 1) + _padded(name.encode() + b"\0")
    for key, value in node.items():
        if not isinstance(value, dict):
            content = _value(value)
            at = strings.setdefault(key, sum(len(one) + 1 for one in strings))
            data += struct.pack(">3I", 3, len(content), at) + _padded(content)
    data += b"".join(_node(key, value, strings) for key, value in node.items() if isinstance(value, dict))
    return data + struct.pack(">I", 2)


def _value(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        return b"".join(map(_value, value))
    return struct.pack(">I", value) if isinstance(value, int) else str(value).encode() + b"\0"


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
