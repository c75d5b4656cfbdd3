"""Read the PCIe payload size (MPS) on the path to a NIC: the size in use (DevCtl) and the supported one (DevCap)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.tuning.setting import NoKnob, SettingPlace

_ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
# Match within one device of lspci: only its first line is not indented.
_ABLE = re.compile(r"\bDevCap:(?:.*\n\s)*?.*?MaxPayload (\d+) bytes")
_USED = re.compile(r"\bDevCtl:(?:.*\n\s)*?.*?MaxPayload (\d+) bytes")
_BENEATH = re.compile(r"\bBus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2})")


@dataclass(frozen=True)
class Payloads:
    """Payload sizes in bytes: ``used`` by each device on the path, by PCI address; ``most`` is what all support."""

    used: Mapping[str, int]
    most: int | None

    def __str__(self) -> str:
        return "MaxPayload " + ", ".join(f"{size} ({slot})" for slot, size in self.used.items())


def read_payloads(place: SettingPlace) -> Payloads:
    """Read the payloads of the NIC, or of its USB controller, and of all bridges above. Raises NoKnob, SshError."""
    slot: str | None = _slot(place)
    devices = _devices(place.change("lspci -D -vv 2>/dev/null").stdout)
    way = {}
    while slot is not None and slot in devices and slot not in way:
        way[slot] = devices[slot]
        slot = _above(slot, devices)
    used = {slot: int(found[1]) for slot, lines in reversed(way.items()) if (found := _USED.search(lines))}
    if not used:
        raise NoKnob(f"cannot read the payload size of PCIe packets to {place.device} (lspci -vv of pciutils, as root)")
    able = [int(found[1]) for lines in way.values() if (found := _ABLE.search(lines))]
    return Payloads(used, min(able) if len(able) == len(way) else None)


def _slot(place: SettingPlace) -> str:
    """Return the address of the PCIe device nearest to the NIC, from sysfs or from its driver. Raises NoKnob."""
    told = place.ask(
        f"ethtool -i {place.device} 2>/dev/null | grep '^bus-info:'; readlink -f {place.sysfs}/device"
    ).stdout
    found = _ADDRESS.findall(told)
    if not found:
        raise NoKnob(f"{place.device} is not on PCIe")
    return _full(found[-1])


def _full(address: str) -> str:
    return address if address.count(":") == 2 else f"0000:{address}"


def _devices(text: str) -> dict[str, str]:
    """Return the output of lspci for each device, by address."""
    found: dict[str, str] = {}
    slot = ""
    for line in text.splitlines():
        if (first := _ADDRESS.match(line)) is not None:
            slot = _full(first.group())
        if slot:
            found[slot] = f"{found.get(slot, '')}{line}\n"
    return found


def _above(slot: str, devices: Mapping[str, str]) -> str | None:
    """Return the bridge to the bus of a device, or None for a device on the first bus."""
    domain, bus, _ = slot.split(":")
    for other, lines in devices.items():
        beneath = _BENEATH.search(lines)
        if beneath is not None and other.partition(":")[0] == domain and beneath[1] == bus:
            return other
    return None
