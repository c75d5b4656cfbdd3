"""The lines of ``pinet discover`` that say how each NIC of a node can be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.doctor.discover import Discovery, NicLocation, SearchOutcome, lab_file_lines
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from pytest_pinet.model.lab import Lab, PortRef
from tests.support.doctor_lab import lab

OWN = FoundNic("end0", "dc:a6:32:00:00:01", None, "bcmgenet", "platform", "fd580000.ethernet", is_own=True)
USB = FoundNic("eth1", "a0:ce:c8:00:00:02", None, "ax88179_178a", "usb", "usb-0000:01:00.0-1")
CARD = FoundNic("eth1", "02:00:00:00:00:09", "10:20:30:40:50:00", "atlantic", "pci", "0000:01:00.0")
# A Wi-Fi NIC and a bridge that are not in the lab file.
MORE = FoundNic("wlan0", "dc:a6:32:00:00:03", None, "brcmfmac", "sdio", "mmc1:0001:1")
BRIDGE = FoundNic("br0", "dc:a6:32:00:00:01", None, "bridge", is_stacked=True)


@pytest.fixture
def bench(tmp_path: Path) -> Lab:
    return lab(tmp_path)


def board(*nics: FoundNic) -> FoundBoard:
    return FoundBoard("Raspberry Pi 4 Model B Rev 1.4", {nic.device: nic for nic in nics})


def lines(bench: Lab, node: str, *nics: FoundNic, **ports: str) -> list[str]:
    """Return the lines of a node whose interfaces were found on these ports."""
    places = [
        NicLocation(bench.nodes[node].interface(name), SearchOutcome.WRONG, PortRef("s", port), "LLDP")
        for name, port in ports.items()
    ]
    places += [
        NicLocation(i, SearchOutcome.UNKNOWN, None, "") for i in bench.nodes[node].interfaces if i.name not in ports
    ]
    return lab_file_lines(Discovery(bench, places, {node: board(*nics)}))


def test_each_nic_is_a_line_of_the_lab_file(bench: Lab) -> None:
    assert lines(bench, "one", OWN, USB, MORE, BRIDGE, usb="p7") == [
        "    one:",
        "      interfaces:",
        "        onboard: {port: s/p1, mac: 'dc:a6:32:00:00:01', driver: bcmgenet, bus_info: fd580000.ethernet}",
        "        usb: {nic: ax88179, port: s/p7, mac: 'a0:ce:c8:00:00:02', driver: ax88179_178a, "
        "bus_info: 'usb-0000:01:00.0-1'}",
        "        # not in the lab file: wlan0: {mac: 'dc:a6:32:00:00:03', driver: brcmfmac, bus_info: 'mmc1:0001:1'}",
    ]


def test_the_permanent_address_is_written_and_numbers_of_yaml_are_quoted(bench: Lab) -> None:
    assert lines(bench, "two", replace(OWN, device="eth0"), CARD)[3] == (
        "        pcie: {nic: aqc107, port: s/p4, mac: '10:20:30:40:50:00', driver: atlantic, bus_info: '0000:01:00.0'}"
    )


def test_a_nic_that_does_not_match_is_a_comment_and_the_one_that_fits_a_line(bench: Lab) -> None:
    exchanged = (replace(OWN, device="eth1"), replace(USB, device="eth0"))
    assert lines(bench, "one", *exchanged)[2:] == [
        "        onboard: {port: s/p1, mac: 'dc:a6:32:00:00:01', driver: bcmgenet, bus_info: fd580000.ethernet}",
        "        # usb: eth1 has driver bcmgenet, but ax88179 needs ax88179_178a; it fits one:onboard, so their names "
        "may be exchanged",
        "        usb: {nic: ax88179, port: s/p2, mac: 'a0:ce:c8:00:00:02', driver: ax88179_178a, "
        "bus_info: 'usb-0000:01:00.0-1'}",
    ]
    found = lines(bench, "one", OWN)
    assert found[3].startswith(
        "        # usb: there is no network device eth1; the NICs there: end0 (driver bcmgenet, "
    )
    assert len(found) == 4
