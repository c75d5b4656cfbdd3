"""Checks each node's board and NICs, and both ends of every cable: link, switch port, management and managers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pytest_pinet.doctor.bench import Bench, Finding, Status
from pytest_pinet.errors import LinkError, PinetError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.judge.hardware import ADDRESS, Mismatch, compare_board, exchangeable, identify
from pytest_pinet.judge.preconditions import USB_MBPS
from pytest_pinet.lab.link.end import READ_TIMEOUT_S, change
from pytest_pinet.lab.link.manager import Manager, Surroundings, parse, reading
from pytest_pinet.lab.node.management import FoundManagement, check_declared, find_management
from pytest_pinet.lab.switch.switchport import About, Capability, PortState
from pytest_pinet.model.forms import ManagementMode
from pytest_pinet.model.hardware import Bus, FoundBoard, FoundNic
from pytest_pinet.model.lab import VIRTUAL, Interface, Node

# The least that a bus negotiates without a fault: GT/s and lanes.
_PCIE = {Bus.PCIE2X1: (5.0, 1), Bus.PCIE3X1: (8.0, 1)}


def check_board_and_nics(bench: Bench) -> Sequence[Finding]:
    """Check that board and NICs match the lab file, and that each NIC's bus runs at its expected speed."""
    found = [
        finding for node in bench.ready for finding in judge_board(bench.lab.nodes[node.name], bench.boards[node.name])
    ]
    if bench.lab.launcher is None:
        for node in bench.ready:
            sentences = exchangeable(bench.lab.nodes[node.name])
            found += [Finding(Status.UNKNOWN, node.name, text, ADDRESS) for text in sentences]
    return found


def judge_board(node: Node, board: FoundBoard) -> list[Finding]:
    """Compare what was found on a node with the lab file."""
    wrong = compare_board(node, board.model)
    without_bus: list[FoundNic] = []
    for interface in node.interfaces:
        nic, differences = identify(node, interface, board)
        wrong += differences
        if nic is None:
            continue
        if nic.bus is None:
            without_bus.append(nic)
        # A bus has no meaningful speed if the node's clock counts instructions.
        elif not differences and node.clock != VIRTUAL:
            wrong += _speed(interface, nic)
    found = [Finding(Status.WRONG, node.name, one.message, one.act) for one in wrong]
    if board.model is None:
        found.append(Finding(Status.UNKNOWN, node.name, "the board has no device tree, so its model is unknown"))
    elif node.board.model is None:
        message = f"it is a {board.model!r}; board {node.board.name} of the lab file has no `model:` to compare with"
        found.append(Finding(Status.UNKNOWN, node.name, message))
    if without_bus:
        drivers = " and ".join(sorted({str(nic.driver) for nic in without_bus}))
        found.append(Finding(Status.UNKNOWN, node.name, f"no bus is known for devices of driver {drivers}"))
    return found or [Finding(Status.OK, node.name, board.model or "")]


def _speed(interface: Interface, nic: FoundNic) -> list[Mismatch]:
    device, bus = nic.device, interface.bus
    if nic.usb_mbps is not None and nic.usb_mbps < USB_MBPS.get(bus, 0):
        # Only boards with USB 3 have blue ports: `bus` is the faster one that both board and NIC have.
        act = f"use another port{' (USB 3 ports are blue)' if bus is Bus.USB3 else ''} or cable, without a hub"
        return [Mismatch(f"{device} runs at USB {nic.usb_mbps:g} Mbit/s instead of {USB_MBPS[bus]:g}", act)]
    if nic.pcie_gts is not None and bus in _PCIE:
        gts, lanes = _PCIE[bus]
        if nic.pcie_gts < gts or (nic.pcie_lanes is not None and nic.pcie_lanes < lanes):
            found = f"{nic.pcie_gts:g} GT/s x{nic.pcie_lanes or '?'}"
            act = "reseat card and cable"
            if bus is Bus.PCIE3X1:
                act += "; 8 GT/s need dtparam=pciex1_gen=3 in config.txt"
            return [Mismatch(f"{device} runs at PCIe {found} instead of {gts:g} GT/s x{lanes}", act)]
    return []


def check_management(bench: Bench) -> Sequence[Finding]:
    """Find the interface of the ssh connection of each node. Name the mode and its cost."""

    def look(node: Node) -> list[Finding]:
        facts = bench.session(node).facts
        found = find_management(bench.shell(node.name), facts)
        rewires = [
            i.port.switch for i in node.interfaces if Capability.VLAN in bench.switch(i.port.switch).capabilities
        ]
        # With all interfaces of the lab file, also those without their NIC: ssh may come in by such a device.
        return judge_management(bench.lab.nodes[node.name], found, bool(rewires))

    return bench.one_by_one(look)


def judge_management(node: Node, found: FoundManagement, rewires: bool) -> list[Finding]:
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
        return [Finding(Status.WRONG, node.name, shared, "reach the node by `management: same` or wifi")]
    words = str(way) if way.mode is ManagementMode.SEPARATE else f"{way}: {way.cost}"
    return [Finding(Status.OK, node.name, words)]


def _shared_bus(node: Node, found: FoundManagement) -> str:
    """Return a sentence if ssh comes in by another NIC of the USB bus of a NIC under test."""
    tested = {i.device: found.usb[i.device] for i in node.interfaces if i.device in found.usb}
    for device in sorted(found.carriers - tested.keys()):
        for name, bus in tested.items():
            if found.usb.get(device) == bus:
                return f"ssh comes in by {device}, which shares the USB bus of {name}: the traffic of both competes"
    return ""


def check_managers(bench: Bench) -> Sequence[Finding]:
    """Name the network manager of each NIC. Any manager is fine; one that was never tried is unknown."""
    found: dict[str, Mapping[str, Surroundings]] = {}

    def look(node: Node) -> list[Finding]:
        shell = bench.shell(node.name)
        carriers = find_management(shell, bench.session(node).facts).carriers
        text = shell.run(reading([i.device for i in node.interfaces]), READ_TIMEOUT_S).stdout
        found[node.name] = parse(text, carriers)
        return []

    missing = bench.in_parallel(look)
    return [*missing, *judge_managers({node.name: found[node.name] for node in bench.ready if node.name in found})]


def judge_managers(nodes: Mapping[str, Mapping[str, Surroundings]]) -> list[Finding]:
    """Return a finding for each manager, with its NICs."""
    groups: dict[str, list[str]] = {}
    untried = []
    for node, devices in nodes.items():
        for device, around in devices.items():
            manager = "no manager" if around.holding is None else str(around.holding.manager)
            kept = "carries ssh" if around.carries_ssh else "Wi-Fi" if around.wireless else ""
            groups.setdefault(manager, []).append(f"{node} {device}{f' ({kept})' if kept else ''}")
            if around.holding is not None and around.holding.manager is Manager.NETIFD:
                message = f"netifd configures {device}; tests leave it so, which was never tried on a real board"
                untried.append(Finding(Status.UNKNOWN, node, message))
    named = [f"{manager}: {', '.join(nics)}" for manager, nics in groups.items()]
    return [*(Finding(Status.OK, message=message) for message in named), *untried]


NOT_MANAGED = (
    "no managed switch: cables and byte counts are not checked, and tests that move a port or switch it off are skipped"
)


def check_switches(bench: Bench) -> Sequence[Finding]:
    """Report each switch of the nodes. The check "switch port agrees" reports a switch that does not answer."""
    found: list[Finding] = []
    for name in dict.fromkeys(interface.port.switch for node in bench.nodes for interface in node.interfaces):
        if bench.lab.switches[name].backend == "fixed":
            found.append(Finding(Status.UNKNOWN, message=f"switch {name}: {NOT_MANAGED}"))
            continue
        try:
            found += describe(name, bench.switch(name).about)
        except PinetError:
            found.append(Finding(Status.NOT_CHECKED, message=f"switch {name} does not answer"))
    return found


def describe(name: str, about: About) -> list[Finding]:
    """Return what a reader must know about one switch."""
    found = []
    if about.is_untested:
        message = (
            f"switch {name}: {about.title} is untested: pytest-pinet never ran with the vendor's software. "
            f"Checked against: {'; '.join(about.sources) or 'nothing'}"
        )
        found.append(Finding(Status.UNKNOWN, message=message))
    if about.note:
        found.append(Finding(Status.UNKNOWN, message=f"switch {name} is used as it is wired, because {about.note}"))
    return found or [Finding(Status.OK, message=f"{name}: {about.title}")]


# 10GBASE-T needs up to 10 s to train.
CARRIER_TIMEOUT_S = 12.0
# net-snmp shows a change of ifTable only after its cache of 3 s has expired.
AGREE_TIMEOUT_S = 5.0


def check_link_speed(bench: Bench) -> Sequence[Finding]:
    """Check that every NIC has a link with the lab file's speed and full duplex. Bring up ports and devices first."""
    for name in dict.fromkeys(interface.port.switch for interface in bench.interfaces):
        _bring_ports_up(bench, name)
    deadline = Deadline(CARRIER_TIMEOUT_S)
    return bench.in_parallel(lambda node: _look(bench, node, deadline))


def _look(bench: Bench, node: Node, deadline: Deadline) -> list[Finding]:
    shell = bench.shell(node.name)
    findings = []
    there = []
    for interface in node.interfaces:
        try:
            bring_up(bench, interface)
            there.append(interface)
        except LinkError as error:
            findings.append(Finding.of(error, node.name))

    def linked() -> bool:
        for interface in there:
            if not bench.states[interface].carrier:
                bench.states[interface] = read_interface(shell, interface.device)
        return all(bench.states[interface].carrier for interface in there)

    deadline.wait_until(linked, interval_s=0.1)
    return findings + [finding for interface in there for finding in judge(interface, bench.states[interface])]


def bring_up(bench: Bench, interface: Interface) -> None:
    """Read the state of a device, and bring it up if it is down. This is undone at the end. Raises LinkError."""
    shell, device = bench.shell(interface.node), interface.device
    bench.states[interface] = read_interface(shell, device)
    if not bench.states[interface].admin_up:
        undo = partial(change, shell, f"ip link set {device} down")
        bench.undo.add(f"{device} up on {interface.node}", undo, interface.node)
        change(shell, f"ip link set {device} up")


def _bring_ports_up(bench: Bench, name: str) -> None:
    """Bring switch ports up, as a test does. The check "switch port agrees" reports a switch that fails here."""
    try:
        switch = bench.switch(name)
        if Capability.ADMIN not in switch.capabilities:
            return
        states = switch.states([i.port.port for i in bench.interfaces if i.port.switch == name])
        for port, state in states.items():
            if state.admin_up is False:
                switch.set_admin(port, True, bench.undo)
    except PinetError:
        return


def judge(interface: Interface, state: InterfaceState) -> list[Finding]:
    """Return what is wrong or unknown about one link by its driver; empty if all is well."""
    node, device, port = interface.node, interface.device, interface.port
    if not state.carrier:
        message = f"{device} has no link after {CARRIER_TIMEOUT_S:.0f} s"
        act = f"check the cable between {node} {device} and port {port.port} of switch {port.switch}"
        return [Finding(Status.WRONG, node, message, act)]
    if state.speed_mbps is not None and state.speed_mbps != interface.speed_mbps:
        message = f"{device} negotiated {state.speed_mbps} Mbit/s instead of {interface.speed_mbps} Mbit/s"
        act = f"check cable, switch port and EEE, or correct `speed:` in {interface.where}"
        return [Finding(Status.WRONG, node, message, act)]
    if state.duplex == "half":
        act = "switch on autonegotiation at both ends"
        return [Finding(Status.WRONG, node, f"{device} runs in half duplex", act)]
    missing = [word for word, value in (("speed", state.speed_mbps), ("duplex", state.duplex)) if value is None]
    if missing:
        return [Finding(Status.UNKNOWN, node, f"the driver of {device} does not report its {' and '.join(missing)}")]
    return []


def check_switch_ports(bench: Bench) -> Sequence[Finding]:
    """Check that switch port and NIC agree about every link: admin and link state, speed, duplex."""
    found: list[Finding] = []
    for name in dict.fromkeys(interface.port.switch for interface in bench.interfaces):
        found += _compare(bench, name, [i for i in bench.interfaces if i.port.switch == name and i in bench.states])
    return found


def _compare(bench: Bench, name: str, here: Sequence[Interface]) -> list[Finding]:
    nodes = dict.fromkeys(interface.node for interface in here)
    found: list[Finding] = []
    try:
        switch = bench.switch(name)
        if Capability.LINK not in switch.capabilities:
            message = f"switch {name} ({bench.lab.switches[name].backend}) does not report the state of its ports"
            return [Finding(Status.UNKNOWN, node, message) for node in nodes]

        def agree() -> bool:
            found[:] = compare(switch.states([i.port.port for i in here]), here, bench.states)
            return not any(finding.status is Status.WRONG for finding in found)

        Deadline(AGREE_TIMEOUT_S).wait_until(agree, interval_s=0.5)
    except PinetError as error:
        return [Finding.of(error, node) for node in nodes]
    return found


def compare(
    ports: Mapping[str, PortState], interfaces: Sequence[Interface], states: Mapping[Interface, InterfaceState]
) -> list[Finding]:
    """Return the differences between ports and their NICs; empty if they agree."""
    found = []
    for interface in interfaces:
        port, state, node = ports[interface.port.port], states[interface], interface.node
        where, device = f"port {interface.port.port} of switch {interface.port.switch}", interface.device
        if port.admin_up is False:
            act = f"enable the port at the switch (pinet could not), or correct `port:` in {interface.where}"
            found.append(Finding(Status.WRONG, node, f"{where} is administratively down", act))
        elif not state.carrier:
            found.append(Finding(Status.NOT_CHECKED, node, f"{device} has no link; {where}: {port}"))
        elif port.carrier is False:
            message = f"{where} has no link, but {device} has one: its cable is in another port"
            found.append(Finding(Status.WRONG, node, message, "find the port with: pinet discover"))
        else:
            speeds, duplexes = (port.speed_mbps, state.speed_mbps), (port.duplex, state.duplex)
            differ = [
                f"{there} {unit}at the switch, {here} {unit}at {device}"
                for (there, here), unit in ((speeds, "Mbit/s "), (duplexes, ""))
                if None not in (there, here) and there != here
            ]
            if differ:
                act = "switch on autonegotiation at both ends, and check that the cable is in this port: pinet discover"
                found.append(Finding(Status.WRONG, node, f"{where}: {'; '.join(differ)}", act))
    return found
