"""Find the end of the warm-up in the samples instead of assuming it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.traffic import WARMUP_CAP_S

# The longest warm-up; above 2.5 Gbit/s windows grow for longer.
CAP_S = WARMUP_CAP_S
CAP_FAST_S = 2.0
FAST_MBPS = 2500
# A sample this near to the level has reached it: as near as most of the rest of the samples (this share of them, with a
# factor), within these bounds. The median deviation is not used: a shaper's samples often have two values, one of them
# rare.
MOST = 0.85
MARGIN = 1.25
NEAREST = 0.015
FARTHEST = 0.15
# For so long from the first counted sample on, all samples but one must be at the level.
STEADY_S = 0.4
# Timer jitter: samples that begin so little before the cap count as after it.
JITTER_S = 0.05


def cap_for(speed_mbps: int) -> float:
    """Return the longest warm-up on a link of this speed, in seconds."""
    return CAP_FAST_S if speed_mbps > FAST_MBPS else CAP_S


def settle(samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0) -> tuple[Sample, ...]:
    """Mark the warm-up: all samples before the first one at which the rate has reached the level of the rest.

    The samples belong to one run, in order. A rate above the level has not reached it, either: token buckets let a
    burst pass first. The warm-up ends after ``cap_s`` at the latest, but at least one sample counts. ``grain`` (bytes)
    is what the receiver counts in one piece; differences of this size between samples have no meaning.
    """
    end = settled_after(samples, cap_s, grain)
    end = cap_s if end is None else end
    kept = max(0, len(samples) - 1)
    return tuple(
        replace(s, warmup=index < kept and s.start_s < end - min(JITTER_S, s.seconds / 2))
        for index, s in enumerate(samples)
    )


def settled_after(samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0) -> float | None:
    """Return the seconds from the start of traffic until the rate is at its level; None if after ``cap_s``."""
    if not samples:
        return None
    level, near = _level(samples, cap_s)
    # One and a half grains, in bits.
    at_level = [s.bytes > 0 and abs(s.bps - level) * s.seconds <= near * s.seconds + 12 * grain for s in samples]
    steady = max(3, round(STEADY_S / max(0.01, median(s.seconds for s in samples))))
    for index, sample in enumerate(samples):
        if sample.start_s > cap_s - JITTER_S:
            return None
        following = at_level[index : index + steady]
        if following[0] and sum(following) >= len(following) - 1:
            return sample.start_s
    return None


def reached_after(samples: Sequence[Sample], share: float, cap_s: float = CAP_S) -> float | None:
    """Return the seconds until two samples in a row had at least ``share`` of the level; None if there are none."""
    if not samples:
        return None
    least = share * _level(samples, cap_s)[0]
    for index, sample in enumerate(samples):
        if all(s.bps >= least for s in samples[index : index + 2]):
            return sample.start_s
    return None


def _level(samples: Sequence[Sample], cap_s: float) -> tuple[float, float]:
    """Return the level of the rest of the run in bit/s, and how near to it a rate must be.

    The rest is the time after the cap, or the second half of a run that is at most twice as long as the cap. Samples
    without a byte are stalls, so they are ignored.
    """
    last = samples[-1]
    begin = min(cap_s, (last.start_s + last.seconds) / 2)
    rest = [s.bps for s in samples if s.start_s >= begin - JITTER_S and s.bytes > 0]
    level = median(rest) if rest else median(s.bps for s in samples)
    deviations = sorted(abs(rate - level) for rate in rest)
    usual = MARGIN * deviations[int(MOST * (len(deviations) - 1))] if deviations else 0.0
    return level, min(max(usual, NEAREST * level), FARTHEST * level)
