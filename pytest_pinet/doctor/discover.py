"""Which NIC sits on which switch port, as ``pinet discover`` tells and corrects it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.doctor.bench import Bench, open_bench
from pytest_pinet.doctor.cabling import ask_switches, sightings
from pytest_pinet.doctor.examine import reaching, run
from pytest_pinet.doctor.finding import Status
from pytest_pinet.doctor.links import LinkSpeed
from pytest_pinet.doctor.table import WIDTH
from pytest_pinet.errors import LabError, first_line
from pytest_pinet.lab.switchport import Capability
from pytest_pinet.model.lab import Interface, Lab, PortRef


class Answer(StrEnum):
    """What became of the question where a NIC is."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Place:
    """Where one NIC was found; ``how`` says by what, or why it was not."""

    interface: Interface
    answer: Answer
    found: PortRef | None
    how: str


def discover(lab: Lab, on_wait: Callable[[str], None], on_close: Callable[[list[str]], None]) -> list[Place]:
    """A place for each NIC of the lab; every node that can be had is switched on, asked, and left as it was found.

    Raises PinetError when no node can be asked.
    """
    with open_bench(lab, list(lab.nodes.values()), on_wait, on_close) as bench:
        reasons: dict[str, str] = {}
        for _, findings in run([*reaching(), LinkSpeed()], bench):
            for finding in (f for f in findings if f.status is Status.WRONG):
                if finding.node is None:
                    raise LabError(finding.message, finding.act)
                reasons.setdefault(finding.node, finding.message)
        return _places(bench, reasons)


def _places(bench: Bench, reasons: dict[str, str]) -> list[Place]:
    switches, errors = ask_switches(bench)
    linked = [i for i in bench.interfaces if i in bench.states and bench.states[i].carrier]
    seen = {sighting.nic.interface: sighting for sighting in sightings(bench, linked, switches)}
    places = []
    for interface in bench.lab.interfaces():
        sighting, name = seen.get(interface), interface.port.switch
        if interface.node in bench.blocked:
            places.append(_untold(interface, reasons.get(interface.node, bench.blocked[interface.node])))
        elif sighting is None:
            places.append(_untold(interface, f"{interface.device} has no link"))
        elif sighting.port is not None:
            answer = Answer.RIGHT if sighting.port == interface.port else Answer.WRONG
            how = "LLDP" if sighting.source is Capability.LLDP else f"MAC {sighting.nic.mac}"
            places.append(Place(interface, answer, sighting.port, how))
        elif sighting.ports:
            places.append(_untold(interface, f"seen on {' and '.join(map(str, sighting.ports))} at once"))
        elif name in errors:
            places.append(_untold(interface, first_line(errors[name])))
        elif name not in switches:
            backend = bench.lab.switches[name].backend
            places.append(_untold(interface, f"switch {name} ({backend}) cannot tell who is on its ports"))
        else:
            message = f"on none of the ports that the lab file lists of switch {name}"
            places.append(Place(interface, Answer.WRONG, None, message))
    return places


def _untold(interface: Interface, why: str) -> Place:
    return Place(interface, Answer.UNKNOWN, None, why)


def table(places: Sequence[Place]) -> list[str]:
    """A line for each NIC, lab file against what was found; below, why some cannot be told."""
    rows = [("node", "device", "lab file", "found", "by", "")]
    reasons: dict[str, list[str]] = {}
    for place in places:
        interface = place.interface
        head = (interface.node, interface.device, str(interface.port))
        if place.answer is Answer.UNKNOWN:
            rows.append((*head, "?", "", ""))
            reasons.setdefault(place.how, []).append(f"{interface.node} {interface.device}")
        elif place.found is None:
            rows.append((*head, "nowhere", "", "<- wrong"))
        else:
            rows.append((*head, str(place.found), place.how, "<- wrong" if place.answer is Answer.WRONG else ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for reason, who in reasons.items():
        lines += textwrap.wrap(f"? {', '.join(who)}: {reason}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def wrong_cables(places: Sequence[Place]) -> list[str]:
    """A sentence for each cable that is not where the lab file says; two that were exchanged share one."""
    sentences = []
    told = set()
    wrong = {place.interface: place for place in places if place.answer is Answer.WRONG}
    for interface, place in wrong.items():
        if interface in told:
            continue
        other = next(
            (o for o, p in wrong.items() if o != interface and p.found == interface.port and place.found == o.port),
            None,
        )
        if other is not None:
            told.add(other)
            sentences.append(f"wrong cables: {interface} and {other} are exchanged ({interface.port} and {other.port})")
        elif place.found is None:
            sentences.append(f"wrong cable: {interface} is {place.how}")
        else:
            sentences.append(f"wrong cable: {interface} is on {place.found}, the lab file has {interface.port}")
    return sentences


def corrections(places: Sequence[Place]) -> dict[Interface, PortRef]:
    """The ports to write into the lab file."""
    return {p.interface: p.found for p in places if p.answer is Answer.WRONG and p.found is not None}
