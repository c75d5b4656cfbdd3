"""Finds which NIC is on which switch port, by what the switches report about their neighbours.

LLDP comes first, because it names system and device. Without LLDP, the port that has learned the NIC's MAC address
counts. A NIC that no switch knows sends a packet first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.doctor.bench import Bench, Finding, Status
from pytest_pinet.errors import PinetError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.link.link import BENCHMARK_NET
from pytest_pinet.lab.switch.switchport import UNPLACED, Capability, Neighbour
from pytest_pinet.model.lab import Interface, Node, PortRef

# A port with spanning tree learns no address for twice its forward delay of 15 s (802.1D).
LEARN_TIMEOUT_S = 35.0
# An address of the benchmark block (RFC 2544) that no link ever gets. No host answers, but the request is traffic.
UNUSED_ADDRESS = str(BENCHMARK_NET.broadcast_address - 1)

Neighbours = Mapping[PortRef, frozenset[Neighbour]]


@dataclass(frozen=True)
class AnnouncedNic:
    """An interface as its node describes it: the host name that LLDP announces, and the device's address."""

    interface: Interface
    host: str
    mac: str


@dataclass(frozen=True)
class Sighting:
    """Where a NIC was seen, and by which method. Several ports: not clear. No port: not seen.

    ``unplaced`` names a switch that has seen the NIC, but does not prove on which port.
    """

    nic: AnnouncedNic
    ports: tuple[PortRef, ...] = ()
    source: Capability | None = None
    unplaced: str = ""

    @property
    def port(self) -> PortRef | None:
        """The port of the NIC if exactly one was found, else None."""
        return self.ports[0] if len(self.ports) == 1 else None


def locate(nics: Sequence[AnnouncedNic], neighbours: Neighbours) -> list[Sighting]:
    """Return a sighting for each NIC. ``neighbours`` has no uplink ports: they learn the NICs of other switches."""
    # Boards with the same host name (raspberrypi) cannot be distinguished by it.
    hosts = Counter(host for host, _ in {(nic.host, nic.interface.node) for nic in nics})
    return [_locate(nic, neighbours, hosts[nic.host] == 1) for nic in nics]


def _locate(nic: AnnouncedNic, neighbours: Neighbours, named: bool) -> Sighting:
    ways = {
        Capability.LLDP: lambda neighbour: _announces(neighbour, nic, named),
        Capability.FDB: lambda neighbour: neighbour.source is Capability.FDB and neighbour.mac == nic.mac,
    }
    unplaced = ""
    for source, fits in ways.items():
        found = sorted(port for port, seen in neighbours.items() if any(map(fits, seen)))
        ports = tuple(port for port in found if port.port != UNPLACED)
        if ports:
            return Sighting(nic, ports, source)
        unplaced = unplaced or next((port.switch for port in found), "")
    return Sighting(nic, unplaced=unplaced)


def _announces(neighbour: Neighbour, nic: AnnouncedNic, named: bool) -> bool:
    if neighbour.source is not Capability.LLDP:
        return False
    device = nic.interface.device
    if named and neighbour.system == nic.host and neighbour.port == device:
        return True
    # The address can be the chassis address, which belongs to another NIC of the same node.
    return neighbour.mac == nic.mac and neighbour.port in (None, device, nic.mac)


def check_cabling(bench: Bench) -> Sequence[Finding]:
    """Check that every NIC with a link is on the port that the lab file names."""
    switches, errors = reporting_switches(bench)
    found: list[Finding] = []
    linked = []
    for interface in bench.interfaces:
        node, name = interface.node, interface.port.switch
        if name in errors:
            found.append(Finding.of(errors[name], node))
        elif interface not in bench.states or not bench.states[interface].carrier:
            found.append(Finding(Status.NOT_CHECKED, node, f"{interface.device} has no link"))
        else:
            linked.append(interface)
    found += [one for sighting in sightings(bench, linked, switches) for one in judge(located(sighting, switches))]
    # A switch that does not answer is reported once per node, for any number of NICs.
    return list(dict.fromkeys(found))


def reporting_switches(bench: Bench) -> tuple[list[str], dict[str, PinetError]]:
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
    hosts = {i.node: bench.shell(i.node).run("uname -n").stdout.strip() for i in interfaces}
    nics = [AnnouncedNic(i, hosts[i.node], bench.states[i].mac) for i in interfaces]
    found = locate(nics, _neighbours(bench, switches))

    def complete() -> bool:
        nonlocal found
        silent = {sighting.nic.interface for sighting in found if sighting.port is None and not sighting.unplaced}
        # A cable to a switch without neighbour information can never be found.
        waited_for = {interface for interface in silent if interface.port.switch in switches}
        if waited_for:
            send_packets(bench, silent)
            found = locate(nics, _neighbours(bench, switches))
        return not any(s.port is None and not s.unplaced and s.nic.interface in waited_for for s in found)

    Deadline(LEARN_TIMEOUT_S).wait_until(complete, interval_s=0.3)
    return found


def _neighbours(bench: Bench, switches: Sequence[str]) -> Neighbours:
    uplinks = {port for uplink in bench.lab.uplinks.values() for port in uplink.ports}
    found = {}
    for name in switches:
        ports = [port for port in bench.lab.switches[name].ports if PortRef(name, port) not in uplinks]
        found.update({PortRef(name, port): seen for port, seen in bench.switch(name).neighbours(ports).items()})
    return found


def send_packets(bench: Bench, interfaces: set[Interface]) -> None:
    """Let these devices send an ARP request that no host answers, so that their switches learn their addresses."""

    def send(node: Node) -> list[Finding]:
        devices = [interface.device for interface in node.interfaces if interface in interfaces]
        pings = [f"ping -n -q -c 1 -W 1 -I {device} {UNUSED_ADDRESS} >/dev/null 2>&1 &" for device in devices]
        if pings:
            bench.shell(node.name).run(as_root(f"{' '.join(pings)} wait"))
        return []

    bench.in_parallel(send)


@dataclass(frozen=True)
class NicLocation:
    """Whether a NIC is on its port (ok, wrong, or unknown), and the port where it was ``found``.

    ``how`` names the method, or says why it was not found.
    """

    interface: Interface
    status: Status
    found: PortRef | None
    how: str


def located(sighting: Sighting, switches: Sequence[str]) -> NicLocation:
    """Return where a NIC with a link is. ``switches`` report their neighbours."""
    interface, unknown = sighting.nic.interface, Status.UNKNOWN
    if sighting.port is not None:
        status = Status.OK if sighting.port == interface.port else Status.WRONG
        how = "LLDP" if sighting.source is Capability.LLDP else f"MAC {sighting.nic.mac}"
        return NicLocation(interface, status, sighting.port, how)
    if sighting.ports:
        seen = " and ".join(map(str, sighting.ports))
        return NicLocation(interface, unknown, None, f"{interface.device} appears on {seen} at once")
    if sighting.unplaced:
        seen = f"switch {sighting.unplaced} has seen {interface.device}"
        why = f"{seen}, but its list of ports does not prove which port its table means"
        return NicLocation(interface, unknown, None, why)
    name = interface.port.switch
    if name not in switches:
        return NicLocation(interface, unknown, None, f"switch {name} does not report its neighbours")
    return NicLocation(interface, Status.WRONG, None, f"on none of the ports of switch {name} that the lab file lists")


def judge(place: NicLocation) -> list[Finding]:
    """Return what is wrong with the cable of one NIC; empty if it is where the lab file says."""
    interface = place.interface
    node, device, port = interface.node, interface.device, interface.port
    if place.status is not Status.WRONG:
        return [Finding(Status.UNKNOWN, node, place.how)] if place.status is Status.UNKNOWN else []
    if place.found is not None:
        message = f"wrong cable: {device} is on port {place.found}, the lab file has {port} (found by {place.how})"
        act = f"move the cable, or correct `port:` in {interface.where} (pinet discover --write does this)"
    else:
        message = f"{device} has a link, but is {place.how}"
        act = f"follow the cable of {node} {device}; list its port in the lab file, or move it to {port}"
    return [Finding(Status.WRONG, node, message, act)]
