"""A combination as text: the groups of switch ports, who is on them, and who sends to whom."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Direction
from pytest_pinet.pictures.arrows import Arrow, arrows
from pytest_pinet.pictures.columns import blocks, columns
from pytest_pinet.pictures.held import held, held_lines
from pytest_pinet.pictures.words import nic, speed, switches, traffic, uplink, wiring
from pytest_pinet.report.fit import shorten, wrap

_MOST = (16, 10, 24)
_NAME_MOST = 34
ONE_WAY = "---->"
BOTH_WAYS = "<--->"
FORWARDED = "====>"


def combination_text(lab: Lab, combination: Combination, direction: Direction, domains: Sequence[str]) -> list[str]:
    """The lines of the drawing; at most 80 columns. ``domains`` are the contention domains that it measures in."""
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
    # One table, so that the columns of all groups line up.
    table = blocks(rows, _MOST, indent="  |-- ", hanging="  |")
    lines = []
    for index, segment in enumerate(combination.topology.segments):
        hows: dict[str, list[str]] = {}
        for name in switches(combination, index):
            hows.setdefault(wiring(lab, name), []).append(name)
        wired = "; ".join(
            f"{how} on switch{'' if len(names) == 1 else 'es'} {', '.join(names)}" for how, names in hows.items()
        )
        lines += ["", *wrap(f"group {index + 1}: {wired}", hanging="  ")]
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


def _flow(arrow: Arrow, names: Sequence[str]) -> tuple[str, str]:
    first, *others = names
    between = [BOTH_WAYS if arrow.both else ONE_WAY, f"<{FORWARDED[:-1]}>" if arrow.both else FORWARDED]
    return first, " ".join(f"{between[index % 2]} {name}" for index, name in enumerate(others))
