"""Propose a tolerance for a link, with the number of connections that each verdict needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.judge.noise import Noise
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.spread import margin_after, smallest_margin
from pytest_pinet.judge.text import counted, percent

# A change of the link by this much is no regression; the tolerance leaves room for it.
TOLERATED = 0.01
# Steps finer than half a per cent are not distinguishable.
STEP = 0.005
LEAST_TOLERANCE = 0.03


@dataclass(frozen=True)
class Proposal:
    """A proposal at ``error_rate``: the ``tolerance`` below the baseline, and ``repeats`` connections for a verdict.

    Nine of ten gates reach a verdict with so many connections. ``margin`` is the least distance between value and limit
    that can be judged (see `smallest_margin`).
    """

    error_rate: float
    tolerance: float
    repeats: int
    margin: float

    def __str__(self) -> str:
        return (
            f"tolerance {percent(self.tolerance)} with {counted(self.repeats)} at error rate "
            f"{percent(self.error_rate)} (least margin {percent(self.margin)})"
        )


def propose(noise: Noise, profile: Profile, error_rates: Sequence[float] = (0.01, 0.05)) -> tuple[Proposal, ...]:
    """Return the tolerance and repeats that this noise requires, for each error rate.

    A link 1 % slower than its baseline must still pass. The tolerance is this 1 % plus the least margin, rounded up to
    half per cents, and at least 3 %.
    """
    found = []
    most = max(int(profile.budget_s / profile.connection_s), 1)
    for rate in error_rates:
        margin = smallest_margin(noise, profile, rate)
        tolerance = max(LEAST_TOLERANCE, math.ceil((TOLERATED + margin) / STEP - 1e-9) * STEP)
        room = tolerance - TOLERATED
        enough = (n for n in range(1, most) if margin_after(n, noise, rate) <= room)
        repeats = max(next(enough, most), profile.passes_after)
        found.append(Proposal(rate, round(tolerance, 4), repeats, margin))
    return tuple(found)
