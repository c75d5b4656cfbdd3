"""When traffic may stop: a sequential test over connections, with pass, fail and inconclusive as its ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, median, variance

from pytest_pinet.judge.noise import Noise
from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.quantities import Bitrate

# The tolerated and the caught slowdown are 1 and 5 % below the baseline, the limit in the middle: 4 % apart.
ZONE = 0.04
# No link repeats better than this.
FLOOR = 0.0025
ERROR_RATE = 0.01


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
    """

    outcome: Outcome
    why: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    next_fresh: Fresh = Fresh.CONNECTION


def decide(
    attempts: Sequence[Attempt],
    limit: Bitrate,
    noise: Noise,
    profile: Profile,
    error_rate: float = ERROR_RATE,
) -> Decision:
    """Judge all attempts of one direction against its limit (more than 0 bit/s); the order of attempts does not matter.

    The log likelihood ratio of "2 % above the limit" against "2 % below it" (Wald's sequential probability ratio test),
    over the attempts' medians and means, with their spread and what is known of the noise.
    """
    counted = [a for a in attempts if not a.excluded]
    spent = sum(a.traffic_seconds for a in attempts)
    if not counted:
        out = spent + profile.connection_s > profile.budget_s or len(attempts) >= 2 * profile.fails_after
        return Decision(Outcome.INCONCLUSIVE if out else Outcome.GO_ON, "no attempt gave a figure")
    means = [a.goodput.bps / limit.bps for a in counted]
    middles = [median(s.bps for s in a.counted) / limit.bps for a in counted]
    n = len(counted)
    ratio = fmean(means)
    own = variance(means) if n > 1 else 0.0
    pooled = (noise.freedom * noise.connections**2 + (n - 1) * own) / (noise.freedom + n - 1)
    spread = max(pooled, own if n >= 3 else 0.0, FLOOR**2) + n * noise.sessions**2
    needed = math.log((1 - error_rate) / error_rate)
    of_means = ZONE * n * (ratio - 1) / spread
    of_middles = ZONE * n * (fmean(middles) - 1) / spread
    half = 2.33 * math.sqrt(spread / n)
    known = Decision(Outcome.GO_ON, "not certain yet", ratio, ratio - half, ratio + half)
    below = sum(m < 1 for m in means)
    if n >= profile.passes_after and of_middles > needed and of_means > 0:
        return replace(known, outcome=Outcome.PASS, why=f"certain after {n} connection(s)")
    if n >= profile.fails_after and (of_middles < -needed or of_means < -needed) and below * 3 >= n * 2:
        return replace(known, outcome=Outcome.FAIL, why=f"below the limit in {below} of {n} connections")
    if spent + profile.connection_s > profile.budget_s:
        why = f"undecided after {n} connections and {spent:.0f} s of traffic"
        return replace(known, outcome=Outcome.INCONCLUSIVE, why=why)
    suspect = ratio < 1 and n >= 2
    return replace(known, next_fresh=Fresh.LINK if suspect else Fresh.CONNECTION)
