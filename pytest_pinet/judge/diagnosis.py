"""What limited a figure: the first rule that holds, from those that no other can explain to those that are left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_pinet.judge.limits_of_ends import ceiling, power, processor, receive_path
from pytest_pinet.judge.limits_of_flow import asked_window, explaining_loss, loss, shaper, waited_for_window
from pytest_pinet.judge.limits_of_link import (
    half_duplex,
    line_rate,
    pcie_bus,
    sender_capped,
    slow_link,
    usb_adapter,
    usb_bus,
)
from pytest_pinet.model.diagnosis import Cause, Diagnosis, Facts

Rule = Callable[[Facts], Diagnosis | None]
# A full wire is one whatever else was busy. What an end's power or link did explains its processor. A bus and a
# processor are hard limits; a window that nobody asked for and losses bind only below them. Losses make a rate vary:
# one that is held steady has another cause, and they are what came of it.
RULES: tuple[Rule, ...] = (
    sender_capped,
    slow_link,
    line_rate,
    half_duplex,
    power,
    usb_bus,
    usb_adapter,
    pcie_bus,
    asked_window,
    receive_path,
    explaining_loss,
    processor,
    waited_for_window,
    ceiling,
    shaper,
    loss,
)


def diagnose(facts: Facts) -> Diagnosis:
    """The cause with its numbers; Cause.NOTHING where no rule has the numbers that it takes."""
    first = next((found for rule in RULES if (found := rule(facts)) is not None), None)
    found = first or Diagnosis(Cause.NOTHING, _what_is_known(facts), {"limit_bps": facts.wire.bps})
    return replace(found, numbers={"goodput_bps": facts.goodput.bps, **found.numbers})


def _what_is_known(facts: Facts) -> str:
    known = [f"{facts.goodput} is {facts.share * 100:.1f} % of what the link carries"]
    loads = [end.load for end in facts.ends if end.load is not None]
    if loads:
        known.append(f"the busiest CPU was {max(load.busy for load in loads) * 100:.0f} % busy")
    if facts.retransmit_rate is not None:
        known.append(f"{facts.retransmit_rate * 100:.2g} % of the segments were sent again")
    return ", ".join(known)
