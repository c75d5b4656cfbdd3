"""Finds which NIC is on which switch port. NICs that the switches do not know send a packet first."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench, ok
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.doctor.whereabouts import AnnouncedNic, Neighbours, Sighting, locate
from pytest_pinet.errors import PinetError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.link.addressing import BENCHMARK_NET
from pytest_pinet.lab.switch.switchport import Capability
from pytest_pinet.model.lab import Interface, Node, PortRef

# A port with spanning tree learns no address for twice its forward delay of 15 s (802.1D).
LEARN_TIMEOUT_S = 35.0
# An address of the benchmark block (RFC 2544) that no link ever gets. No host answers, but the request is traffic.
NOBODY = str(BENCHMARK_NET.broadcast_address - 1)


class Cabling:
    """Checks that every NIC with a link is on the port that the lab file names."""

    name = "cabling"
    blocks = ""

    def run(self, bench: Bench) -> Sequence[Finding]:
        linked = [interface for interface in bench.interfaces if _has_link(bench, interface)]
        switches, errors = ask_switches(bench)
        found: dict[str, list[Finding]] = {node.name: [] for node in bench.ready}
        for interface in bench.interfaces:
            node, name = interface.node, interface.port.switch
            if name in errors:
                found[node].append(Finding.of(self.name, errors[name], node))
            elif interface not in linked:
                found[node].append(Finding(self.name, Status.NOT_CHECKED, node, f"{interface.device} has no link"))
        visible = [interface for interface in linked if interface.port.switch not in errors]
        for sighting in sightings(bench, visible, switches):
            found[sighting.nic.interface.node] += judge(self.name, sighting, switches)
        return [f for node in bench.ready for f in _distinct(found[node.name]) or ok(self.name, [node])]


def _has_link(bench: Bench, interface: Interface) -> bool:
    return interface in bench.states and bench.states[interface].carrier


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Report an unreachable switch once per node, for any number of NICs."""
    return list(dict.fromkeys(findings))


def ask_switches(bench: Bench) -> tuple[list[str], dict[str, PinetError]]:
    """Return the switches that can report their neighbours, and the errors of switches that cannot be reached."""
    able, errors = [], {}
    for name in bench.lab.switches:
        try:
            if bench.switch(name).capabilities & {Capability.LLDP, Capability.FDB}:
                able.append(name)
        except PinetError as error:
            errors[name] = error
    return able, errors


def sightings(bench: Bench, interfaces: Sequence[Interface], switches: Sequence[str]) -> list[Sighting]:
    """Return where these interfaces, which must have a link, are seen. Raises LabError if a switch does not answer."""
    if not interfaces or not switches:
        return [Sighting(AnnouncedNic(interface, interface.node, "")) for interface in interfaces]
    hosts = {interface.node: _host(bench, interface.node) for interface in interfaces}
    nics = [AnnouncedNic(i, hosts[i.node], bench.states[i].mac) for i in interfaces]
    found = locate(nics, _neighbours(bench, switches))
    deadline = Deadline(LEARN_TIMEOUT_S)

    def complete() -> bool:
        nonlocal found
        silent = {sighting.nic.interface for sighting in found if sighting.port is None}
        # A cable to a switch without neighbour information can never be found.
        waited_for = {interface for interface in silent if interface.port.switch in switches}
        if waited_for:
            speak(bench, silent)
            found = locate(nics, _neighbours(bench, switches))
        return not any(s.port is None and s.nic.interface in waited_for for s in found)

    deadline.wait_until(complete, interval_s=0.3)
    return found


def _host(bench: Bench, node: str) -> str:
    return bench.shell(node).run("uname -n").stdout.strip()


def _neighbours(bench: Bench, switches: Sequence[str]) -> Neighbours:
    uplinks = {port for uplink in bench.lab.uplinks.values() for port in uplink.ports}
    found = {}
    for name in switches:
        ports = [port for port in bench.lab.switches[name].ports if PortRef(name, port) not in uplinks]
        found.update({PortRef(name, port): seen for port, seen in bench.switch(name).neighbours(ports).items()})
    return found


def speak(bench: Bench, interfaces: set[Interface]) -> None:
    """Let these devices send an ARP request that no host answers, so that their switches learn their addresses."""

    def ask(node: Node) -> list[Finding]:
        devices = [interface.device for interface in node.interfaces if interface in interfaces]
        pings = [f"ping -n -q -c 1 -W 1 -I {device} {NOBODY} >/dev/null 2>&1 &" for device in devices]
        if pings:
            bench.shell(node.name).run(as_root(f"{' '.join(pings)} wait"))
        return []

    bench.on_each("", ask)


def judge(check: str, sighting: Sighting, switches: Sequence[str]) -> list[Finding]:
    """Return what is wrong with the cable of one NIC; empty if it is where the lab file says."""
    interface = sighting.nic.interface
    node, device, port = interface.node, interface.device, interface.port
    if sighting.port == port:
        return []
    if sighting.port is not None:
        message = f"wrong cable: {device} is on port {sighting.port}, the lab file has {port} (seen by {_by(sighting)})"
        act = f"move the cable, or correct `port:` in {interface.where}: pinet discover --write does it"
        return [Finding(check, Status.WRONG, node, message, act)]
    if len(sighting.ports) > 1:
        seen = " and ".join(map(str, sighting.ports))
        return [Finding(check, Status.UNKNOWN, node, f"{device} is seen on {seen} at once (by {_by(sighting)})")]
    if port.switch not in switches:
        return [Finding(check, Status.UNKNOWN, node, f"switch {port.switch} does not tell who is on its ports")]
    message = f"{device} has a link, but is on none of the ports that the lab file lists of switch {port.switch}"
    act = f"follow the cable of {node} {device}, and list its port in the lab file or move it to {port}"
    return [Finding(check, Status.WRONG, node, message, act)]


def _by(sighting: Sighting) -> str:
    return "LLDP" if sighting.source is Capability.LLDP else "its MAC address"
