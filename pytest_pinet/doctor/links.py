"""Checks both ends of every cable: the link state by the node's driver, and the port state by the switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pytest_pinet.doctor.bench import Bench, ok
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import LinkError, PinetError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.link.end import change
from pytest_pinet.lab.switch.switchport import Capability, PortState
from pytest_pinet.model.lab import Interface, Node

# 10GBASE-T needs up to 10 s to train.
CARRIER_TIMEOUT_S = 12.0
# net-snmp shows a change of ifTable only after its cache of 3 s has expired.
AGREE_TIMEOUT_S = 5.0


class LinkSpeed:
    """Checks that every NIC has a link with the lab file's speed and full duplex. Brings up ports and devices first."""

    name = "link speed and duplex"
    blocks = ""

    def run(self, bench: Bench) -> Sequence[Finding]:
        for name in dict.fromkeys(interface.port.switch for interface in bench.interfaces):
            _bring_ports_up(bench, name)
        deadline = Deadline(CARRIER_TIMEOUT_S)
        return bench.on_each(self.name, lambda node: self._look(bench, node, deadline))

    def _look(self, bench: Bench, node: Node, deadline: Deadline) -> list[Finding]:
        shell = bench.shell(node.name)
        findings = []
        there = []
        for interface in node.interfaces:
            try:
                bring_up(bench, interface)
                there.append(interface)
            except LinkError as error:
                findings.append(Finding.of(self.name, error, node.name))

        def linked() -> bool:
            for interface in there:
                if not bench.states[interface].carrier:
                    bench.states[interface] = read_interface(shell, interface.device)
            return all(bench.states[interface].carrier for interface in there)

        deadline.wait_until(linked, interval_s=0.1)
        findings += [finding for interface in there for finding in judge(self.name, interface, bench.states[interface])]
        return findings or ok(self.name, [node])


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


def judge(check: str, interface: Interface, state: InterfaceState) -> list[Finding]:
    """Return what is wrong or unknown about one link by its driver; empty if all is well."""
    node, device, port = interface.node, interface.device, interface.port
    if not state.carrier:
        return [
            Finding(
                check,
                Status.WRONG,
                node,
                f"{device} has no link after {CARRIER_TIMEOUT_S:.0f} s",
                f"check the cable between {node} {device} and port {port.port} of switch {port.switch}",
            )
        ]
    if state.speed_mbps is not None and state.speed_mbps != interface.speed_mbps:
        message = f"{device} negotiated {state.speed_mbps} Mbit/s instead of {interface.speed_mbps} Mbit/s"
        act = f"check cable, switch port and EEE, or set `speed:` in {interface.where}"
        return [Finding(check, Status.WRONG, node, message, act)]
    if state.duplex == "half":
        return [Finding(check, Status.WRONG, node, f"{device} runs in half duplex", "let both ends negotiate")]
    untold = [word for word, value in (("speed", state.speed_mbps), ("duplex", state.duplex)) if value is None]
    if untold:
        message = f"the driver of {device} does not tell {' and '.join(untold)}"
        return [Finding(check, Status.UNKNOWN, node, message)]
    return []


class SwitchPortAgrees:
    """Checks that switch port and NIC agree about every link: admin and link state, speed, duplex."""

    name = "switch port agrees"
    blocks = ""

    def run(self, bench: Bench) -> Sequence[Finding]:
        found: dict[str, list[Finding]] = {node.name: [] for node in bench.ready}
        for name in dict.fromkeys(interface.port.switch for interface in bench.interfaces):
            here = [i for i in bench.interfaces if i.port.switch == name and i in bench.states]
            for finding in self._ask(bench, name, here):
                assert finding.node is not None
                found[finding.node].append(finding)
        return [f for node in bench.ready for f in found[node.name] or ok(self.name, [node])]

    def _ask(self, bench: Bench, name: str, here: Sequence[Interface]) -> list[Finding]:
        nodes = dict.fromkeys(interface.node for interface in here)
        found: list[Finding] = []
        try:
            switch = bench.switch(name)
            if Capability.LINK not in switch.capabilities:
                message = f"switch {name} ({bench.lab.switches[name].backend}) does not tell the state of its ports"
                return [Finding(self.name, Status.UNKNOWN, node, message) for node in nodes]

            def agree() -> bool:
                found[:] = compare(self.name, switch.states([i.port.port for i in here]), here, bench.states)
                return not any(finding.status is Status.WRONG for finding in found)

            Deadline(AGREE_TIMEOUT_S).wait_until(agree, interval_s=0.5)
        except PinetError as error:
            return [Finding.of(self.name, error, node) for node in nodes]
        return found


def compare(
    check: str,
    ports: Mapping[str, PortState],
    interfaces: Sequence[Interface],
    states: Mapping[Interface, InterfaceState],
) -> list[Finding]:
    """Return the differences between ports and their NICs; empty if they agree."""
    found = []
    for interface in interfaces:
        port, state = ports[interface.port.port], states[interface]
        where, device = f"port {interface.port.port} of switch {interface.port.switch}", interface.device
        if port.admin_up is False:
            act = f"switch it on at the switch, which refuses to do it for us, or correct `port:` in {interface.where}"
            found.append(Finding(check, Status.WRONG, interface.node, f"{where} is administratively down", act))
        elif not state.carrier:
            found.append(Finding(check, Status.NOT_CHECKED, interface.node, f"{device} has no link; {where}: {port}"))
        elif port.carrier is False:
            message = f"{where} has no link, and {device} has one: its cable is elsewhere"
            found.append(Finding(check, Status.WRONG, interface.node, message, "pinet discover tells where"))
        else:
            speeds, duplexes = (port.speed_mbps, state.speed_mbps), (port.duplex, state.duplex)
            differ = [
                f"{there} {unit}at the switch, {here} {unit}at {device}"
                for (there, here), unit in ((speeds, "Mbit/s "), (duplexes, ""))
                if None not in (there, here) and there != here
            ]
            if differ:
                act = "let both ends negotiate, and check that the cable is in this port (pinet discover)"
                found.append(Finding(check, Status.WRONG, interface.node, f"{where}: {'; '.join(differ)}", act))
    return found
