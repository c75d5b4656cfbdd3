"""Finds which NIC is on which switch port, for ``pinet discover``, which can also correct the lab file.

It also writes how each NIC can be found on its node: MAC address, driver, and place on the bus.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.config.lab_text import identity, mapping
from pytest_pinet.doctor.bench import WIDTH, Bench, Status, open_bench
from pytest_pinet.doctor.cabling import NicLocation, located, reporting_switches, sightings
from pytest_pinet.doctor.examine import LINK_SPEED, REACHING, run
from pytest_pinet.errors import ConfigError, LabError, first_line
from pytest_pinet.judge.hardware import fitting, identify
from pytest_pinet.model.hardware import FoundBoard
from pytest_pinet.model.lab import ONBOARD, Interface, Lab, PortRef
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.report.text_wrap import text_table


@dataclass(frozen=True)
class Discovery:
    """Where each NIC of the lab file was found, and what each node is, by its name."""

    lab: Lab
    places: Sequence[NicLocation]
    boards: Mapping[str, FoundBoard]


def discover(lab: Lab, on_wait: Callable[[str], None], on_close: Callable[[list[str]], None]) -> Discovery:
    """Find each NIC's port. Nodes are powered on, and restored. Raises PinetError if no node can be reached."""
    with open_bench(lab, list(lab.nodes.values()), on_wait, on_close) as bench:
        reasons: dict[str, str] = {}
        for _, findings in run([*REACHING, LINK_SPEED], bench):
            for finding in (f for f in findings if f.status is Status.WRONG):
                if finding.mistake:
                    raise ConfigError(finding.message)
                if finding.node is None:
                    raise LabError(finding.message, finding.act)
                reasons.setdefault(finding.node, finding.message)
        return Discovery(bench.lab, _places(bench, reasons), dict(bench.boards))


def _places(bench: Bench, reasons: dict[str, str]) -> list[NicLocation]:
    switches, errors = reporting_switches(bench)
    linked = [i for i in bench.interfaces if i in bench.states and bench.states[i].carrier]
    seen = {sighting.nic.interface: sighting for sighting in sightings(bench, linked, switches)}
    places = []
    for interface in bench.lab.interfaces():
        sighting, name = seen.get(interface), interface.port.switch
        if interface.node in bench.blocked:
            why = reasons.get(interface.node, bench.blocked[interface.node])
        elif wrong := identify(bench.lab.nodes[interface.node], interface, bench.boards[interface.node])[1]:
            why = wrong[0].message
        elif sighting is None:
            why = f"{interface.device} has no link"
        elif name in errors and not sighting.ports and not sighting.unplaced:
            why = first_line(errors[name])
        else:
            places.append(located(sighting, switches))
            continue
        places.append(NicLocation(interface, Status.UNKNOWN, None, why))
    return places


def table(places: Sequence[NicLocation]) -> list[str]:
    """Return a line for each NIC, lab file and actual port; then why some NICs are unknown."""
    rows = [("node", "device", "lab file", "found", "by", "")]
    reasons: dict[str, list[str]] = {}
    for place in places:
        interface = place.interface
        head = (interface.node, interface.device, str(interface.port))
        if place.status is Status.UNKNOWN:
            rows.append((*head, "?", "", ""))
            reasons.setdefault(place.how, []).append(f"{interface.node} {interface.device}")
        elif place.found is None:
            rows.append((*head, "nowhere", "", "<- wrong"))
        else:
            rows.append((*head, str(place.found), place.how, "<- wrong" if place.status is Status.WRONG else ""))
    lines = text_table(rows, "<  <  <  <  <  <")
    for reason, who in reasons.items():
        lines += textwrap.wrap(f"? {', '.join(who)}: {reason}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def wrong_cables(places: Sequence[NicLocation]) -> list[str]:
    """Return a sentence for each cable that differs from the lab file; two exchanged cables share one."""
    sentences = []
    reported = set()
    wrong = {place.interface: place for place in places if place.status is Status.WRONG}
    for interface, place in wrong.items():
        if interface in reported:
            continue
        other = next(
            (o for o, p in wrong.items() if o != interface and p.found == interface.port and place.found == o.port),
            None,
        )
        if other is not None:
            reported.add(other)
            sentences.append(f"wrong cables: {interface} and {other} are exchanged ({interface.port} and {other.port})")
        elif place.found is None:
            sentences.append(f"wrong cable: {interface} is {place.how}")
        else:
            sentences.append(f"wrong cable: {interface} is on {place.found}, the lab file has {interface.port}")
    return sentences


def corrections(places: Sequence[NicLocation]) -> dict[Interface, PortRef]:
    """Return the ports to write into the lab file."""
    return {p.interface: p.found for p in places if p.status is Status.WRONG and p.found is not None}


def lab_file_lines(found: Discovery) -> list[str]:
    """Return the interfaces of all nodes as lines for the lab file. Each NIC is found by its MAC address.

    Comments say what does not match the lab file, and show the other NICs of a node. If names are exchanged, the NIC
    that fits counts.
    """
    lines = []
    ports = {place.interface: place.found or place.interface.port for place in found.places}
    for name, board in found.boards.items():
        node = found.lab.nodes[name]
        lines += [f"    {name}:", "      interfaces:"]
        listed = set()
        for interface in node.interfaces:
            nic, wrong = identify(node, interface, board)
            if wrong:
                lines.append(f"        # {interface.name}: {wrong[0].message}")
                nic = fitting(node, interface, board)
            if nic is None:
                continue
            listed.add(nic.device)
            own = {} if interface.name == ONBOARD else {"nic": interface.nic.name}
            own["port"] = str(ports[interface])
            if interface.speed_mbps != interface.nic.speed_mbps:
                own["speed"] = str(Bitrate.mbps(interface.speed_mbps))
            lines.append(f"        {interface.name}: {mapping(own | identity(nic))}")
        others = (nic for nic in board.nics.values() if nic.bus is not None and nic.device not in listed)
        lines += [f"        # not in the lab file: {nic.device}: {mapping(identity(nic))}" for nic in others]
    return lines
