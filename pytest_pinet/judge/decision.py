"""What comes of all attempts at a figure so far, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_pinet.judge.wording import counted, percent, place
from pytest_pinet.model.attempt import Fresh

# The part of the connections that may be disturbed before nothing is passed any more.
MOST_DISTURBED = 1 / 3


class Outcome(StrEnum):
    """What comes of the attempts so far."""

    GO_ON = "go on"
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Decision:
    """Whether to stop, and why.

    ``ratio``: goodput over limit, the mean of all attempts that count, between ``low`` and ``high`` at the set error
    rate (None before the first). ``why`` is one sentence. ``next_fresh``: what the next attempt should begin with.
    ``connections``, ``below``, ``disturbed``: how many gave a figure, gave one below the limit, had a dip or an event.
    ``seconds``: all traffic so far. ``noise``: the relative standard deviation between connections that was reckoned
    with. ``carries``: the least margin that can be judged with it in the whole budget (see `smallest_margin`).
    ``flagged``: what was odd about the traffic, a sentence each; a pass with it is no plain pass.
    """

    outcome: Outcome
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
    """Fill in ``why``."""
    assert known.ratio is not None
    assert known.noise is not None
    where, noise = place(known.ratio), percent(known.noise)
    odd = f"; {counted(known.disturbed, known.connections)} disturbed" if known.disturbed else ""
    if known.outcome is Outcome.PASS:
        why = f"certain after {counted(known.connections)} ({known.seconds:.0f} s): {where}, noise {noise}{odd}"
    elif known.outcome is Outcome.FAIL:
        below = counted(known.below, known.connections)
        why = f"below the limit in {below} ({known.seconds:.0f} s): {where} on average, noise {noise}{odd}"
    elif known.outcome is Outcome.INCONCLUSIVE:
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
    could = f"with it a margin of {percent(known.carries)} could be judged"
    if known.carries >= 1:
        could = "with it no margin could be judged"
    margin = percent(known.ratio - 1)
    return f"noise {percent(known.noise)} between connections is more than the margin {margin} allows; {could}"
