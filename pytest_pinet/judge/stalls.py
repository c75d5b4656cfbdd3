"""Find times in which traffic fell far below its own level, and estimate which faults are too rare to be seen.

`find_dips` decides whether a value was disturbed: it compares with the better part of the samples and with the usual
noise of the link. `events.find_events` names moments for a reader: it compares with the median. Both use the same
thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.measurement import Sample

# TCP starts within this time on any link here; a later low rate is not the start.
RAMP_S = 0.3
# A dip has at least this length, and less than this share of the level.
WINDOW_S = 0.5
DEPTH = 0.7
# On a rough link, only deviations larger than its own noise are dips.
DEVIATIONS = 5.0
# A sample below this share of the better samples belongs to a stall.
STALLED = 0.1


@dataclass(frozen=True)
class Dip:
    """A time in which the rate was far below the level, in seconds from the start of traffic.

    ``left`` is the mean rate over the level, 0 for a stall.
    """

    start_s: float
    seconds: float
    left: float

    def __str__(self) -> str:
        return f"{self.left * 100:.0f} % of the rate for {self.seconds:.1f} s, {self.start_s:.1f} s after the start"


def find_dips(samples: Sequence[Sample], level: float) -> tuple[Dip, ...]:
    """Return all dips below ``level`` (bit/s) in order, including the warm-up but not the start of TCP.

    The search uses windows of WINDOW_S (or one sample, if that is longer), so that single late samples do not count.
    """
    usable = [s for s in samples if s.seconds > 0 and s.start_s >= RAMP_S - 1e-6]
    if not usable or level <= 0:
        return ()
    width = max(1, round(WINDOW_S / median(s.seconds for s in usable)))
    if len(usable) < width:
        return ()
    level, rough = _when_well(usable, level)
    threshold = level * min(DEPTH, 1 - DEVIATIONS * rough / math.sqrt(width))
    low: list[tuple[int, int]] = []
    for first in range(len(usable) - width + 1):
        part = usable[first : first + width]
        if sum(s.bytes for s in part) * 8 / sum(s.seconds for s in part) >= threshold:
            continue
        if low and first <= low[-1][1]:
            low[-1] = (low[-1][0], first + width)
        else:
            low.append((first, first + width))
    return tuple(_dip(usable[first:end], level) for first, end in low)


def moving(rates: Sequence[float]) -> Sequence[float]:
    """Return the rates without stalls, which are reported separately; all rates if nothing ever moved."""
    least = STALLED * sorted(rates)[int(0.9 * (len(rates) - 1))]
    return [rate for rate in rates if rate > least] or rates


def _when_well(samples: Sequence[Sample], level: float) -> tuple[float, float]:
    """Return the rate of the better part of the samples (bit/s), and its relative standard deviation.

    Faults may fill half of the time and lower every other estimate. The rate is the 75 % quantile. The deviation comes
    from the distance between the 60 % and the 90 % quantile, which is 1.03 standard deviations of a normal
    distribution.
    """
    ranked = sorted(moving([s.bps for s in samples]))
    lower, middle, upper = (ranked[min(int(q * len(ranked)), len(ranked) - 1)] for q in (0.6, 0.75, 0.9))
    well = max(level, middle)
    return well, (upper - lower) / 1.03 / well


def _dip(part: Sequence[Sample], level: float) -> Dip:
    """Return the low samples in a run of low windows, since the windows at its ends include good samples."""
    low = [index for index, sample in enumerate(part) if sample.bps < 0.85 * level]
    inner = part[low[0] : low[-1] + 1] if low else part
    seconds = sum(s.seconds for s in inner)
    return Dip(inner[0].start_s, seconds, sum(s.bytes for s in inner) * 8 / seconds / level)


def unseen_share(seconds: float, error_rate: float) -> float:
    """Return the largest share of the seconds that a fault may hit and still be missed with at least ``error_rate``.

    A fault that hits a share p of the seconds independently spares all n of them with ``(1 - p)^n``.
    """
    spared: float = error_rate ** (1 / seconds)
    return 1 - spared


def blind_spots(profile: Profile, error_rate: float) -> str:
    """Return a sentence for the user: which intermittent faults the shortest pass of this profile may miss.

    A fault that is active for a smaller share of the time is missed in more than ``error_rate`` of the gates.
    """
    percent = unseen_share(profile.least_counted_s, error_rate) * 100
    return f"Profile {profile.name} may miss faults that are active less than {percent:.2g} % of the time."
