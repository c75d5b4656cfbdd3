"""Confirms a regression on a second board of the same kind, if the lab has one that is free at this moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_pinet.errors import PinetError, first_line
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.result import ResultRecord, SecondBoardRecord
from pytest_pinet.model.verdict import GOOD, Verdict


def on_another_board(lab: Lab, combination: Combination) -> list[Combination]:
    """Return this combination on each other board of its kind, without the board that it was measured on."""
    first = combination.dut
    others = {name: node for name, node in lab.nodes.items() if name != first.node.name}
    selector = EndpointSelector(replace(lab, nodes=others))
    found = []
    for node in others.values():
        own = (one for one in node.interfaces if one.label == first.interface.label)
        interface = next(own, None) if node.board.name == first.node.board.name and not node.runner else None
        if interface is None:
            continue
        try:
            found.append(replace(selector.combination(interface, combination.topology), tuning=combination.tuning))
        except NotEnoughNodes:
            continue
    return found


def confirm(
    access: LabAccess, lab: Lab, combination: Combination, measure: Callable[[Link], ResultRecord]
) -> SecondBoardRecord | None:
    """Measure on the first other board that is free, with its peers; None if there is none. Nothing waits for it.

    If a board has an error, the next one is measured.
    """
    failed: SecondBoardRecord | None = None
    for other in on_another_board(lab, combination):
        if not access.take_if_free(other):
            continue
        end = str(other.dut)
        try:
            with access.open(other) as link:
                found = measure(link)
        except PinetError as error:
            text = f"no value from {end}: {first_line(error)}"
            text = f"{failed.text}; {text}" if failed is not None else f"no second board gave a verdict: {text}"
            failed = SecondBoardRecord(end=end, verdict=Verdict.ERROR, text=text)
            continue
        return compared(str(combination.dut), str(combination.dut.interface.port), end, found)
    return failed


def compared(first: str, port: str, end: str, found: ResultRecord) -> SecondBoardRecord:
    """Return what the result of the second board says about a failure of the first one, at this switch port."""
    rates = ", ".join(f"{way} {Bitrate(one.goodput_bps)}" for way, one in found.directions.items()) or "its link drops"
    if found.verdict is Verdict.FAIL:
        text = f"confirmed on a second board: {end} fails, too ({rates})"
    elif found.verdict in GOOD:
        text = (
            f"not confirmed on a second board: {end}, of the same kind, has {rates}: look at {first}, its cable and "
            f"port {port}"
        )
    else:
        text = f"a second board gave no verdict: {end} is {found.verdict}"
    goodput = {way: one.goodput_bps for way, one in found.directions.items()}
    return SecondBoardRecord(end=end, verdict=found.verdict, goodput_bps=goodput, text=text)
