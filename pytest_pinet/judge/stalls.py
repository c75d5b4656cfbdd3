"""Where traffic fell far below its own level, and which faults are too rare to be seen.

`find_dips` tells whether a figure was disturbed: against the better part of the samples, and what a rough link does
anyhow; `events.find_events` names moments for a reader, against the median. The thresholds are those of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pytest_pinet.model.measurement import Sample

if TYPE_CHECKING:
    from pytest_pinet.judge.profile import Profile

# TCP starts within this time on any link here; what is low later is no start.
RAMP_S = 0.3
# A dip is this long at least, and leaves less than this of the level.
WINDOW_S = 0.5
DEPTH = 0.7
# On a link that is rough all the time only what stands out of its own noise is a dip.
DEVIATIONS = 5.0
# A sample with less than this part of what the better ones have belongs to a stall.
STALLED = 0.1


@dataclass(frozen=True)
class Dip:
    """A time in which the rate was far below the level: seconds from the start of traffic, and the part that was left.

    ``left`` is the mean rate over the level, 0 for a stall.
    """

    start_s: float
    seconds: float
    left: float

    def __str__(self) -> str:
        return f"{self.left * 100:.0f} % of the rate for {self.seconds:.1f} s, {self.start_s:.1f} s after the start"


def find_dips(samples: Sequence[Sample], level: float) -> tuple[Dip, ...]:
    """All dips below ``level`` (bit/s), in order; those of the warm-up too, but not the first moments of TCP's start.

    Looks at windows of WINDOW_S (or one sample, if that is longer), so that single late samples do not count.
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
    """The rates apart from stalls, which are told by themselves; all of them where nothing ever moved."""
    least = STALLED * sorted(rates)[int(0.9 * (len(rates) - 1))]
    return [rate for rate in rates if rate > least] or rates


def _when_well(samples: Sequence[Sample], level: float) -> tuple[float, float]:
    """The rate of the better part of the samples (bit/s), and its relative standard deviation.

    Faults may fill half of the time and pull every other measure down. Three quarters of the samples are not above the
    first; the second is from the distance between the 60 and the 90 % quantile, 1.03 standard deviations when normal.
    """
    ranked = sorted(moving([s.bps for s in samples]))
    lower, middle, upper = (ranked[min(int(q * len(ranked)), len(ranked) - 1)] for q in (0.6, 0.75, 0.9))
    well = max(level, middle)
    return well, (upper - lower) / 1.03 / well


def _dip(part: Sequence[Sample], level: float) -> Dip:
    """The low samples of a run of low windows; at its ends a window reaches into good times."""
    low = [index for index, sample in enumerate(part) if sample.bps < 0.85 * level]
    inner = part[low[0] : low[-1] + 1] if low else part
    seconds = sum(s.seconds for s in inner)
    return Dip(inner[0].start_s, seconds, sum(s.bytes for s in inner) * 8 / seconds / level)


def unseen_share(seconds: float, error_rate: float) -> float:
    """The largest share of the seconds that a fault may hit and still be missed with more than ``error_rate``.

    A fault that hits a share p of the seconds, each by itself, spares all n of them with ``(1 - p)^n``
    (facts/measuring.md 5.3).
    """
    spared: float = error_rate ** (1 / seconds)
    return 1 - spared


def blind_spots(profile: Profile, error_rate: float = 0.01) -> str:
    """One sentence for the user: which rates of stalls this profile's quickest pass cannot see."""
    seconds = profile.passes_after * profile.connection_s
    percent = unseen_share(seconds, error_rate) * 100
    return (
        f"{profile.name}: a fault in fewer than {percent:.2g} % of the seconds is missed in more than "
        f"{error_rate * 100:.2g} % of the gates ({seconds} s of traffic before it passes)"
    )
