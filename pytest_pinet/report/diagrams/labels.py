"""Labels in drawings: speeds, ports, NICs and traffic."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Interface, Lab, Uplink
from pytest_pinet.model.traffic import Direction

_NUMBERED = re.compile(r"(.*?)([1-9][0-9]*|0)")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 node``, ``6 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def speed(mbps: int) -> str:
    """Return a link speed: ``100 Mbit/s``, ``2.5 Gbit/s``."""
    return f"{mbps / 1000:g} Gbit/s" if mbps >= 1000 else f"{mbps} Mbit/s"


def ranges(ports: Iterable[str]) -> list[str]:
    """Return ports in the given order. Consecutive numbers are joined: ``p1-p4``."""
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
    """Return chip and bus: ``ax88179 on usb3``."""
    return interface.nic.name if interface.bus is Bus.SOC else f"{interface.nic.name} on {interface.bus}"


def uplink(cable: Uplink) -> str:
    """Return ``sw1/p16 to sw2/p16, 1 Gbit/s (trunk)``."""
    return f"{cable.ports[0]} to {cable.ports[1]}, {speed(cable.speed_mbps)} ({cable.name})"


def traffic(combination: Combination, direction: Direction) -> str:
    """Return the number of flows and their direction: ``5 flows at once, rx as seen from pi4b-1:onboard``."""
    flows = sum(len(run.direction.parts) for run in combination.topology.runs(direction))
    way = "both ways" if direction is Direction.BIDIR else f"{direction} as seen from {combination.dut}"
    return f"{count(flows, 'flow')}{' at once' if flows > 1 else ''}, {way}"


def switches(combination: Combination, segment: int) -> list[str]:
    """Return the switches of a segment: first the switch of its first end, then along the uplinks."""
    cables = combination.uplinks[segment]
    found = [combination.ends[combination.topology.segments[segment][0]].interface.port.switch]
    for here in found:
        for cable in cables:
            if cable.port_on(here) is not None:
                found += [port.switch for port in cable.ports if port.switch not in found]
    return found


def group(lab: Lab, combination: Combination, index: int) -> str:
    """Return how each switch connects a group of ports: ``group 1: a VLAN of its own on switch sw1``."""
    hows: dict[str, list[str]] = {}
    for name in switches(combination, index):
        how = "wired as it is" if lab.switches[name].backend == "fixed" else "a VLAN of its own"
        hows.setdefault(how, []).append(name)
    wired = (f"{how} on switch{'' if len(names) == 1 else 'es'} {', '.join(names)}" for how, names in hows.items())
    return f"group {index + 1}: {'; '.join(wired)}"


def free_ports(lab: Lab, switch: str) -> list[str]:
    """Return the ports of a switch without a cable."""
    used = {interface.port for interface in lab.interfaces()}
    used |= {port for cable in lab.uplinks.values() for port in cable.ports}
    taken = {port.port for port in used if port.switch == switch}
    return [port for port in lab.switches[switch].ports if port not in taken]
