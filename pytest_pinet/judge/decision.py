"""The decision after all attempts so far, and its explanation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_pinet.judge.text import counted, percent, place
from pytest_pinet.model.attempt import Fresh

# If a larger share of the connections is disturbed, the result cannot pass.
MOST_DISTURBED = 1 / 3


class DecisionOutcome(StrEnum):
    """The outcome of the attempts so far."""

    GO_ON = "go on"
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Decision:
    """Whether to stop, and why.

    ``ratio`` is goodput over limit, the mean of all counted attempts, between ``low`` and ``high`` at the set error
    rate (None before the first attempt). ``why`` is one sentence. ``next_fresh`` is what must be fresh for the next
    attempt. ``connections``, ``below`` and ``disturbed`` count the connections with a value, with a value below the
    limit, and with a dip or an event. ``seconds`` is all traffic so far. ``noise`` is the relative standard deviation
    between connections that was used. ``carries`` is the least margin that can be judged with this noise and the whole
    budget (see `smallest_margin`). ``flagged`` has a sentence for each disturbance of the traffic; a pass with it
    becomes marginal.
    """

    outcome: DecisionOutcome
    why: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    next_fresh: Fresh = Fresh.CONNECTION
    connections: int = 0
    below: int = 0
    disturbed: int = 0
    seconds: float = 0.0
    noise: float | None = None
    carries: float | None = None
    flagged: tuple[str, ...] = ()


def explained(known: Decision) -> Decision:
    """Return the decision with ``why`` filled in."""
    assert known.ratio is not None
    assert known.noise is not None
    where, noise = place(known.ratio), percent(known.noise)
    odd = f"; {counted(known.disturbed, known.connections)} disturbed" if known.disturbed else ""
    if known.outcome is DecisionOutcome.PASS:
        why = f"certain after {counted(known.connections)} ({known.seconds:.0f} s): {where}, noise {noise}{odd}"
    elif known.outcome is DecisionOutcome.FAIL:
        below = counted(known.below, known.connections)
        why = f"below the limit in {below} ({known.seconds:.0f} s): {where} on average, noise {noise}{odd}"
    elif known.outcome is DecisionOutcome.INCONCLUSIVE:
        why = f"undecided after {counted(known.connections)}, {known.seconds:.0f} s of traffic: {_obstacle(known)}"
    else:
        why = f"not certain yet after {counted(known.connections)} ({known.seconds:.0f} s): {where}, noise {noise}{odd}"
    return replace(known, why=why)


def _obstacle(known: Decision) -> str:
    assert known.ratio is not None
    assert known.noise is not None
    assert known.carries is not None
    if known.disturbed > MOST_DISTURBED * known.connections:
        return f"{counted(known.disturbed, known.connections)} disturbed, such as {known.flagged[0]}"
    possible = f"the smallest margin that can be judged with it is {percent(known.carries)}"
    if known.carries >= 1:
        possible = "no margin can be judged with it"
    margin = percent(known.ratio - 1)
    return f"noise {percent(known.noise)} between connections is more than the margin {margin} allows; {possible}"
