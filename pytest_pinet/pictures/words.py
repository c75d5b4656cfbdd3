"""What pictures call speeds, ports and traffic."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Interface, Lab, Uplink
from pytest_pinet.model.traffic import Direction

_NUMBERED = re.compile(r"(.*?)([1-9][0-9]*|0)")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 node``, ``6 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def speed(mbps: int) -> str:
    """A link speed as people write it: ``100 Mbit/s``, ``2.5 Gbit/s``."""
    return f"{mbps / 1000:g} Gbit/s" if mbps >= 1000 else f"{mbps} Mbit/s"


def ranges(ports: Iterable[str]) -> list[str]:
    """Ports in the order given, those that count on from one another together: ``p1-p4``."""
    runs: list[list[str]] = []
    for port in ports:
        if runs and _next(runs[-1][-1]) == port:
            runs[-1].append(port)
        else:
            runs.append([port])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _next(port: str) -> str | None:
    match = _NUMBERED.fullmatch(port)
    return f"{match[1]}{int(match[2]) + 1}" if match else None


def nic(interface: Interface) -> str:
    """Chip and how it is attached: ``ax88179 on usb3``."""
    return interface.nic.name if interface.bus is Bus.SOC else f"{interface.nic.name} on {interface.bus}"


def uplink(cable: Uplink) -> str:
    """``sw1/p16 to sw2/p16, 1 Gbit/s (trunk)``."""
    return f"{cable.ports[0]} to {cable.ports[1]}, {speed(cable.speed_mbps)} ({cable.name})"


def traffic(combination: Combination, direction: Direction) -> str:
    """How much runs at once, and which way: ``5 flows at once, rx as seen from pi4b-1:onboard``."""
    flows = sum(len(run.direction.parts) for run in combination.topology.runs(direction))
    way = "both ways" if direction is Direction.BIDIR else f"{direction} as seen from {combination.dut}"
    return f"{count(flows, 'flow')}{' at once' if flows > 1 else ''}, {way}"


def switches(combination: Combination, segment: int) -> list[str]:
    """The switches that a segment is on, from that of its first end on along the uplinks."""
    cables = combination.uplinks[segment]
    found = [combination.ends[combination.topology.segments[segment][0]].interface.port.switch]
    for here in found:
        for cable in cables:
            if cable.port_on(here) is not None:
                found += [port.switch for port in cable.ports if port.switch not in found]
    return found


def wiring(lab: Lab, switch: str) -> str:
    """What becomes of the ports of a group on this switch."""
    return "wired as it is" if lab.switches[switch].backend == "fixed" else "a VLAN of its own"


def free_ports(lab: Lab, switch: str) -> list[str]:
    """The ports of a switch that nothing is plugged into."""
    used = {interface.port for interface in lab.interfaces()}
    used |= {port for cable in lab.uplinks.values() for port in cable.ports}
    taken = {port.port for port in used if port.switch == switch}
    return [port for port in lab.switches[switch].ports if port not in taken]
