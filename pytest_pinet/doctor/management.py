"""Names the way in which commands reach each node, and compares it with the lab file."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import LinkError
from pytest_pinet.lab.node.management import FoundManagement, check_declared, find_management
from pytest_pinet.lab.switch.switchport import Capability
from pytest_pinet.model.lab import Node
from pytest_pinet.model.management import Management, ManagementMode


def check_management(bench: Bench) -> Sequence[Finding]:
    """Find the interface of the ssh connection of each node. Name the mode and its cost."""

    def look(node: Node) -> list[Finding]:
        facts = bench.session(node).facts
        found = find_management(bench.shell(node.name), facts)
        rewires = [
            i.port.switch for i in node.interfaces if Capability.VLAN in bench.switch(i.port.switch).capabilities
        ]
        # With all interfaces of the lab file, also those without their NIC: ssh may come in by such a device.
        return judge(bench.lab.nodes[node.name], found, bool(rewires))

    return bench.one_by_one(look)


def judge(node: Node, found: FoundManagement, rewires: bool) -> list[Finding]:
    """Return the mode of one node with its cost, or what is wrong with it. ``rewires``: its ports may be moved."""
    try:
        check_declared(node, found)
    except LinkError as error:
        return [Finding.of(error, node.name)]
    way = node.management or found.of(node)
    if node.management is None and way.shares_interface and rewires:
        message = f"ssh {found.words(node)}, which is under test, and the lab file does not say so"
        return [Finding(Status.WRONG, node.name, message, f"write `management: {way}` at {node.where}: {way.cost}")]
    if shared := _shared_bus(node, found):
        return [Finding(Status.WRONG, node.name, shared, "reach the node by `management: same`, wifi or serial")]
    return [Finding(Status.OK, node.name, _words(way))]


def _words(way: Management) -> str:
    return str(way) if way.mode is ManagementMode.SEPARATE else f"{way}: {way.cost}"


def _shared_bus(node: Node, found: FoundManagement) -> str:
    """Return a sentence if ssh comes in by another NIC of the USB bus of a NIC under test."""
    tested = {i.device: found.usb[i.device] for i in node.interfaces if i.device in found.usb}
    for device in sorted(found.carriers - tested.keys()):
        for name, bus in tested.items():
            if found.usb.get(device) == bus:
                return f"ssh comes in by {device}, which shares the USB bus of {name}: the traffic of both competes"
    return ""
