"""Which NIC is on which switch port, and what pinet discover says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.doctor.bench import Status
from pytest_pinet.doctor.cabling import AnnouncedNic, NicLocation, Sighting, judge, locate, located
from pytest_pinet.doctor.discover import Discovery, corrections, lab_file_lines, table, wrong_cables
from pytest_pinet.lab.switch.switchport import UNPLACED, Capability, Neighbour
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from pytest_pinet.model.lab import Lab, PortRef
from tests.support.doctor_lab import lab

MACS = {"one eth0": "02::1", "one eth1": "02::2", "two eth0": "02::3", "two eth1": "02::4"}


@pytest.fixture
def bench(tmp_path: Path) -> Lab:
    return lab(tmp_path)


def nics(bench: Lab, host: str | None = None) -> list[AnnouncedNic]:
    return [AnnouncedNic(i, host or i.node, MACS[f"{i.node} {i.device}"]) for i in bench.interfaces()]


def lldp(system: str, port: str | None, mac: str | None = None) -> frozenset[Neighbour]:
    return frozenset({Neighbour(Capability.LLDP, mac, system, port)})


def learned(*macs: str) -> frozenset[Neighbour]:
    return frozenset(Neighbour(Capability.FDB, mac) for mac in macs)


def ports(sightings: list[Sighting]) -> list[str | None]:
    return [sighting.port.port if sighting.port else None for sighting in sightings]


def test_lldp_names_system_and_device(bench: Lab) -> None:
    seen = {PortRef("s", "p1"): lldp("two", "eth1"), PortRef("s", "p2"): lldp("one", "eth0")}
    found = locate(nics(bench), seen)
    assert ports(found) == ["p2", None, None, "p1"]
    assert found[0].source is Capability.LLDP


def test_a_chassis_address_does_not_identify_a_port(bench: Lab) -> None:
    # lldpd uses the address of its first NIC as the chassis id, and announces it on all NICs.
    seen = {PortRef("s", "p1"): lldp("one", "eth0", "02::1"), PortRef("s", "p2"): lldp("one", "eth1", "02::1")}
    assert ports(locate(nics(bench), seen)) == ["p1", "p2", None, None]


def test_hosts_with_the_same_name_are_distinguished_by_mac_address(bench: Lab) -> None:
    same = lldp("raspberrypi", "eth0")
    seen = {PortRef("s", "p1"): same | learned("02::3"), PortRef("s", "p2"): same | learned("02::1")}
    found = locate(nics(bench, "raspberrypi"), seen)
    assert ports(found) == ["p2", None, "p1", None]
    assert found[0].source is Capability.FDB


def test_an_address_on_two_ports_is_unknown(bench: Lab) -> None:
    found = locate(nics(bench), {PortRef("s", "p1"): learned("02::1"), PortRef("s", "p2"): learned("02::1")})
    assert found[0].port is None
    (both,) = judge(located(found[0], ["s"]))
    assert (both.status, both.message) == (Status.UNKNOWN, "eth0 appears on s/p1 and s/p2 at once")


def test_a_nic_on_a_port_that_its_switch_does_not_prove_is_unknown(bench: Lab) -> None:
    seen = {PortRef("s", UNPLACED): learned("02::1", "02::3"), PortRef("s", "p3"): learned("02::3")}
    found = locate(nics(bench), seen)
    assert [found[0].port, found[2].port] == [None, PortRef("s", "p3")]
    (unknown,) = judge(located(found[0], ["s"]))
    assert unknown.status is Status.UNKNOWN
    assert unknown.message == (
        "switch s has seen eth0, but its list of ports does not prove which port its table means"
    )


def test_a_wrong_or_unknown_cable_is_reported(bench: Lab) -> None:
    nic = nics(bench)[0]
    assert judge(located(Sighting(nic, (PortRef("s", "p1"),), Capability.LLDP), ["s"])) == []
    (wrong,) = judge(located(Sighting(nic, (PortRef("s", "p3"),), Capability.LLDP), ["s"]))
    assert wrong.message == "wrong cable: eth0 is on port s/p3, the lab file has s/p1 (found by LLDP)"
    (fixed,) = judge(located(Sighting(nic), []))
    assert (fixed.status, fixed.message) == (Status.UNKNOWN, "switch s does not report its neighbours")
    (nowhere,) = judge(located(Sighting(nic), ["s"]))
    assert nowhere.status is Status.WRONG
    assert nowhere.message.startswith("eth0 has a link, but is on none of the ports")


def test_discover_lists_each_nic_and_the_wrong_cables(bench: Lab) -> None:
    first, second, third, fourth = bench.interfaces()
    places = [
        NicLocation(first, Status.WRONG, PortRef("s", "p3"), "LLDP"),
        NicLocation(second, Status.UNKNOWN, None, "eth1 has no link"),
        NicLocation(third, Status.WRONG, PortRef("s", "p1"), "MAC 02::3"),
        NicLocation(fourth, Status.WRONG, None, "on none of the ports of switch s that the lab file lists"),
    ]
    assert table(places) == [
        "node  device  lab file  found    by",
        "one   eth0    s/p1      s/p3     LLDP       <- wrong",
        "one   eth1    s/p2      ?",
        "two   eth0    s/p3      s/p1     MAC 02::3  <- wrong",
        "two   eth1    s/p4      nowhere             <- wrong",
        "? one eth1: eth1 has no link",
    ]
    assert wrong_cables(places) == [
        "wrong cables: one:onboard and two:onboard are exchanged (s/p1 and s/p3)",
        "wrong cable: two:pcie is on none of the ports of switch s that the lab file lists",
    ]
    assert corrections(places) == {first: PortRef("s", "p3"), third: PortRef("s", "p1")}


OWN = FoundNic("end0", "dc:a6:32:00:00:01", None, "bcmgenet", "platform", "fd580000.ethernet", is_own=True)
USB = FoundNic("eth1", "a0:ce:c8:00:00:02", None, "ax88179_178a", "usb", "usb-0000:01:00.0-1")
CARD = FoundNic("eth1", "02:00:00:00:00:09", "10:20:30:40:50:00", "atlantic", "pci", "0000:01:00.0")
# A Wi-Fi NIC and a bridge that are not in the lab file.
MORE = FoundNic("wlan0", "dc:a6:32:00:00:03", None, "brcmfmac", "sdio", "mmc1:0001:1")
BRIDGE = FoundNic("br0", "dc:a6:32:00:00:01", None, "bridge", is_stacked=True)


@pytest.fixture
def bench_of_places(tmp_path: Path) -> Lab:
    return lab(tmp_path)


def board(*nics: FoundNic) -> FoundBoard:
    return FoundBoard("Raspberry Pi 4 Model B Rev 1.4", {nic.device: nic for nic in nics})


def lines(bench_of_places: Lab, node: str, *nics: FoundNic, **ports: str) -> list[str]:
    """Return the lines of a node whose interfaces were found on these ports."""
    places = [
        NicLocation(bench_of_places.nodes[node].interface(name), Status.WRONG, PortRef("s", port), "LLDP")
        for name, port in ports.items()
    ]
    places += [
        NicLocation(i, Status.UNKNOWN, None, "") for i in bench_of_places.nodes[node].interfaces if i.name not in ports
    ]
    return lab_file_lines(Discovery(bench_of_places, places, {node: board(*nics)}))


def test_each_nic_is_a_line_of_the_lab_file(bench_of_places: Lab) -> None:
    assert lines(bench_of_places, "one", OWN, USB, MORE, BRIDGE, usb="p7") == [
        "    one:",
        "      interfaces:",
        "        onboard: {port: s/p1, mac: 'dc:a6:32:00:00:01', driver: bcmgenet, bus_info: fd580000.ethernet}",
        "        usb: {nic: ax88179, port: s/p7, mac: 'a0:ce:c8:00:00:02', driver: ax88179_178a, "
        "bus_info: 'usb-0000:01:00.0-1'}",
        "        # not in the lab file: wlan0: {mac: 'dc:a6:32:00:00:03', driver: brcmfmac, bus_info: 'mmc1:0001:1'}",
    ]


def test_the_permanent_address_is_written_and_numbers_of_yaml_are_quoted(bench_of_places: Lab) -> None:
    assert lines(bench_of_places, "two", replace(OWN, device="eth0"), CARD)[3] == (
        "        pcie: {nic: aqc107, port: s/p4, mac: '10:20:30:40:50:00', driver: atlantic, bus_info: '0000:01:00.0'}"
    )


def test_a_nic_that_does_not_match_is_a_comment_and_the_one_that_fits_a_line(bench_of_places: Lab) -> None:
    exchanged = (replace(OWN, device="eth1"), replace(USB, device="eth0"))
    assert lines(bench_of_places, "one", *exchanged)[2:] == [
        "        onboard: {port: s/p1, mac: 'dc:a6:32:00:00:01', driver: bcmgenet, bus_info: fd580000.ethernet}",
        "        # usb: eth1 has driver bcmgenet, but ax88179 needs ax88179_178a; it fits one:onboard, so their names "
        "may be exchanged",
        "        usb: {nic: ax88179, port: s/p2, mac: 'a0:ce:c8:00:00:02', driver: ax88179_178a, "
        "bus_info: 'usb-0000:01:00.0-1'}",
    ]
    found = lines(bench_of_places, "one", OWN)
    assert found[3].startswith(
        "        # usb: there is no network device eth1; the NICs there: end0 (driver bcmgenet, "
    )
    assert len(found) == 4
