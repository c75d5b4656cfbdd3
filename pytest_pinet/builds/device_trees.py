"""Compares the device tree of a build with the tree that the kernel booted with, which the firmware has edited.

What the firmware edits depends on the board, its HATs, config.txt and the overlays. So it is learned: in the boot of
the known-good build, the known-good file and the running tree differ exactly in these edits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pytest_pinet.evidence.fdt import DeviceTree, NotDeviceTree, read_device_tree, shown

# Nodes that the firmware fills in, or that only describe overlays and parameters.
_OF_FIRMWARE = (
    "/chosen", "/aliases", "/memory", "/reserved-memory", "/system", "/hat", "/__overrides__", "/__symbols__",
    "/__fixups__", "/__local_fixups__",
)  # fmt: skip
# Properties of the board itself, wherever they stand.
_OF_BOARD = ("local-mac-address", "mac-address", "local-bd-address", "phandle", "linux,phandle")
_OF_ROOT = ("model", "serial-number", "memreserve")


@dataclass(frozen=True)
class TreeProof:
    """What a running device tree proves: the first ``difference`` from the file (empty: none), as a sentence.

    ``not_compared`` are sentences about what was not compared.
    """

    difference: str = ""
    not_compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class FirmwareEdits:
    """What the firmware changed in the boot of the known-good build; ``unknown`` is the reason if that is not known.

    ``nodes`` are the paths of the changed nodes, ``root`` are the changed properties of the root node. ``running`` is
    the tree of that boot.
    """

    nodes: frozenset[str] = frozenset()
    root: frozenset[str] = frozenset()
    running: DeviceTree = field(default_factory=dict)
    unknown: str = ""

    @classmethod
    def learn(cls, file: bytes | None, running: bytes | None) -> FirmwareEdits:
        """Learn from the known-good file, and from the tree of its boot. None: the board has no such file."""
        if not running:
            return cls(unknown="the kernel has no /sys/firmware/fdt")
        try:
            there = read_device_tree(running)
        except NotDeviceTree as why:
            return cls(unknown=f"/sys/firmware/fdt cannot be read: {why}")
        if file is None:
            return cls(unknown="the device tree of the known-good build is not known")
        try:
            found = list(_differences(read_device_tree(file), there))
        except NotDeviceTree as why:
            return cls(unknown=f"the device tree of the known-good build cannot be read: {why}")
        nodes = frozenset(path for path, _, _ in found if path != "/")
        return cls(nodes, frozenset(name for path, name, _ in found if path == "/"), there)


def compare_device_trees(name: str, file: bytes, running: bytes | None, edits: FirmwareEdits) -> TreeProof:
    """Compare a build's device tree ``name`` with the running one. Nodes that the firmware edits are not compared."""
    if edits.unknown or not running:
        return TreeProof(
            not_compared=(f"device tree {name}: {edits.unknown or 'the kernel has no /sys/firmware/fdt'}",)
        )
    try:
        wanted, there = read_device_tree(file), read_device_tree(running)
    except NotDeviceTree as why:
        return TreeProof(not_compared=(f"device tree {name}: it cannot be compared with /sys/firmware/fdt: {why}",))
    found: list[str] = []
    for path, key, text in _differences(wanted, there):
        edited = path in edits.nodes or (path == "/" and key in edits.root)
        # An overlay may switch a device on or off that the known-good tree has in the same state.
        switched = key == "status" and there[path].get(key) == edits.running.get(path, {}).get(key)
        if not edited and not switched:
            found.append(text)
    left_out = [path for path in wanted if path in edits.nodes]
    count = f"{len(left_out)} node{'s' if len(left_out) > 1 else ''}"
    skipped = f"device tree {name}: {count} that the firmware or an overlay changes, such as "
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return TreeProof(
        f"device tree {name}: {found[0]}{more}" if found else "", (f"{skipped}{left_out[0]}",) if left_out else ()
    )


def _differences(wanted: DeviceTree, there: DeviceTree) -> Iterator[tuple[str, str, str]]:
    """Yield path, property and a text for each part of ``wanted`` that the other tree does not have.

    A missing node is one difference, of the property "". Nodes and properties of the firmware are left out.
    """
    missing = ""
    for path, properties in wanted.items():
        if path.startswith(_OF_FIRMWARE) or (missing and path.startswith(f"{missing}/")):
            continue
        if path not in there:
            missing = path
            yield path, "", f"the running tree has no node {path}"
            continue
        for name, value in properties.items():
            if name in _OF_BOARD or (path == "/" and name in _OF_ROOT):
                continue
            now = there[path].get(name)
            if now != value:
                has = "is missing" if now is None else f"is {shown(now)}"
                yield path, name, f"{name} of {path} {has}, expected {shown(value)}"
