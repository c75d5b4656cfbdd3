"""Draws a combination as text: the groups of switch ports, their interfaces, and the flows between them."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.diagrams.arrows import FlowArrow, arrows
from pytest_pinet.report.diagrams.columns import blocks, columns
from pytest_pinet.report.diagrams.held import held, held_lines
from pytest_pinet.report.diagrams.labels import group, nic, speed, traffic, uplink
from pytest_pinet.report.text_wrap import shorten, wrap

_MOST = (16, 10, 24)
_NAME_MOST = 34
ONE_WAY = "---->"
BOTH_WAYS = "<--->"
FORWARDED = "====>"


def combination_text(lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str]) -> list[str]:
    """Return lines of at most 80 columns. ``domains`` are the contention domains that the combination measures in."""
    lines = wrap(f"{combination.id} in lab {lab.name}", hanging="  ")
    lines += wrap(traffic(combination, direction), hanging="  ")
    lines += [*_groups(lab, combination), "", *_flows(combination, direction), ""]
    facts = [
        ("limit", "\n".join(held_lines(held(combination, lab.limits))) or "none"),
        ("leases", ", ".join(combination.places)),
        ("domains", f"{', '.join(domains)} (nothing else is measured there meanwhile)" if domains else "none"),
    ]
    return lines + columns(facts, (7,))


def _groups(lab: Lab, combination: Combination) -> list[str]:
    rows = []
    for number, end in enumerate(combination.ends):
        interface = end.interface
        what = f"{end.node.board.name}, {nic(interface)}, {interface.device}" + (", under test" if number == 0 else "")
        rows.append((str(interface.port), speed(interface.speed_mbps), str(interface), what))
    # One table for all groups, so that their columns line up.
    table = blocks(rows, _MOST, indent="  |-- ", hanging="  |")
    lines = []
    for index, segment in enumerate(combination.topology.segments):
        lines += ["", *wrap(group(lab, combination, index), hanging="  ")]
        for number in segment:
            lines += table[number]
        for cable in combination.uplinks[index]:
            lines += wrap(f"over uplink {uplink(cable)}", indent="  |-- ", hanging="  |   ")
    return lines


def _flows(combination: Combination, direction: Direction) -> list[str]:
    found = arrows(combination.topology, direction)
    names = shorten(map(str, combination.ends), _NAME_MOST)
    rows = [_flow(arrow, [names[str(combination.ends[end])] for end in arrow.path]) for arrow in found]
    lines = ["flows, all at once:" if len(rows) > 1 else "flow:", *columns(rows, (_NAME_MOST,), indent="  ")]
    if combination.topology.forwards:
        node = combination.dut.node.name
        lines += wrap(f"({FORWARDED} inside {node}, which forwards from one NIC to the other)", "  ", "  ")
    return lines


def _flow(arrow: FlowArrow, names: Sequence[str]) -> tuple[str, str]:
    first, *others = names
    between = [BOTH_WAYS if arrow.both else ONE_WAY, f"<{FORWARDED[:-1]}>" if arrow.both else FORWARDED]
    return first, " ".join(f"{between[index % 2]} {name}" for index, name in enumerate(others))
