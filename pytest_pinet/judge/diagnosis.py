"""Find what limited goodput: the first matching rule, from causes that explain others to causes left over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_pinet.judge import limits_of_flow as flow
from pytest_pinet.judge import limits_of_link as link
from pytest_pinet.judge.oracle import TOLERANCE
from pytest_pinet.model.diagnosis import Cause, Diagnosis, DiagnosisFacts

Rule = Callable[[DiagnosisFacts], Diagnosis | None]
# A full wire is the cause, even if something else was busy. Throttling or a slow link explains a busy processor. A bus
# and a processor are hard limits; a default window and losses matter only below them. A queue before a rate that is
# held loses segments and fills windows: both are its effects. Losses alone make a rate vary, and build no queue.
RULES: tuple[Rule, ...] = (
    link.sender_capped,
    link.slow_link,
    link.line_rate,
    link.half_duplex,
    link.power,
    link.usb_bus,
    link.usb_adapter,
    link.pcie_bus,
    flow.queue,
    flow.requested_window,
    link.receive_path,
    link.other_work,
    flow.explaining_loss,
    link.processor,
    flow.waited_for_window,
    link.ceiling,
    flow.shaper,
    flow.loss,
)


def diagnose(facts: DiagnosisFacts) -> Diagnosis:
    """Return the cause with its numbers; Cause.NOTHING if no rule matches.

    A value above the physical limit is a measurement error, which no limit of the link explains.
    """
    rules = RULES if facts.goodput.bps <= facts.wire.bps * (1 + TOLERANCE) else ()
    first = next((found for rule in rules if (found := rule(facts)) is not None), None)
    found = first or Diagnosis(Cause.NOTHING, _what_is_known(facts), {"limit_bps": facts.wire.bps})
    return replace(found, numbers={"goodput_bps": facts.goodput.bps, **found.numbers})


def _what_is_known(facts: DiagnosisFacts) -> str:
    known = [f"{facts.goodput} is {facts.share * 100:.1f} % of what the link carries"]
    loads = [end.load for end in facts.ends if end.load is not None]
    if loads:
        known.append(f"the busiest CPU was {max(load.busy for load in loads) * 100:.0f} % busy")
    if facts.retransmit_rate is not None:
        known.append(f"{facts.retransmit_rate * 100:.2g} % of the segments were retransmitted")
    return ", ".join(known)
