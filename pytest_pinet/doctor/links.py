"""Checks the switches, and both ends of every cable: the link by the driver of the node, the port by the switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import LinkError, PinetError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.link.end import change
from pytest_pinet.lab.switch.switchport import About, Capability, PortState
from pytest_pinet.model.lab import Interface, Node

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
