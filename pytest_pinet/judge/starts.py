"""Starts of connections: the end of the warm-up, connections that show their level, and how long the next must be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median

from pytest_pinet.judge.statistics import robust_sd
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import Event, EventKind, Sample
from pytest_pinet.model.traffic import WARMUP_CAP_S

# The longest warm-up; above 2.5 Gbit/s windows grow for longer.
CAP_S = WARMUP_CAP_S
CAP_FAST_S = 2.0
FAST_MBPS = 2500
# A sample has reached the level if it is as near to it as most samples after it: at most MARGIN times as far away as
# the share MOST of them, but always within NEAREST and never beyond FARTHEST (shares of the level). The median
# deviation would be 0 for samples of a shaper, which often have two values, one of them rare.
MOST = 0.85
MARGIN = 1.25
NEAREST = 0.015
FARTHEST = 0.15
# For so long from the first counted sample on, all samples but one must be at the level.
STEADY_S = 0.4
# A start may last longer than the cap. Then the last samples of the run, for so long, tell the level.
KEPT_S = 0.9
# The share of the level that ends a slow start.
REACHED = 0.9
# The rate still rises if the second half of the last samples is higher than the first by this share.
RISING = 0.03
# Rounding error of a sum of intervals, which are rounded to microseconds.
ROUNDING_S = 0.02
# Timer jitter: samples that begin so little before the cap count as after it.
JITTER_S = 0.05


def cap_for(speed_mbps: int) -> float:
    """Return the longest warm-up on a link of this speed, in seconds."""
    return CAP_FAST_S if speed_mbps > FAST_MBPS else CAP_S


def settle(samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0) -> tuple[Sample, ...]:
    """Mark the warm-up: all samples before the first one at which the rate has reached the level of the rest.

    The samples belong to one run, in order. A rate above the level has not reached it, either: token buckets let a
    burst pass first. If noise hides the moment, the warm-up ends after ``cap_s``, but a rate that visibly still rises
    then is warm-up until it has risen (`late_start`). At least one sample counts. ``grain`` (bytes) is what the
    receiver counts in one piece; differences of this size between samples have no meaning.
    """
    late = late_start(samples, cap_s, grain)
    if late is not None:
        end = samples[-1].start_s + samples[-1].seconds - KEPT_S if late.end_s is None else late.end_s
    else:
        found = settled_after(samples, cap_s, grain)
        end = cap_s if found is None else found
    kept = max(0, len(samples) - 1)
    return tuple(
        _marked(s, index < kept and s.start_s < end - min(JITTER_S, s.seconds / 2)) for index, s in enumerate(samples)
    )


def _marked(sample: Sample, warmup: bool) -> Sample:
    return sample if sample.warmup == warmup else replace(sample, warmup=warmup)


@dataclass(frozen=True)
class LateStart:
    """A start that lasted longer than the cap.

    ``reached_s`` is when the rate first reached REACHED of its level, ``end_s`` when it was at its level; None if the
    run ended before.
    """

    reached_s: float
    end_s: float | None


def late_start(samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0) -> LateStart | None:
    """Return the slow start of a run; None for an ordinary start, and for a run too short to tell.

    Limits, means, levels and accepted baselines all begin where the start ends, whatever its length.
    """
    seen = coarser(samples, grain)
    if not seen:
        return None
    total = seen[-1].start_s + seen[-1].seconds
    tail = [s.bps for s in seen if s.start_s >= total - KEPT_S - JITTER_S and s.bytes > 0]
    if total < cap_s + 2 * KEPT_S - ROUNDING_S or len(tail) < 4:
        return None
    usual = median(tail)
    index = _first_at(seen, REACHED * usual)
    if index is None or seen[index].start_s < cap_s - JITTER_S:
        return None
    rough = robust_sd(tail, usual)
    before = [s.bps for s in seen[:index]]
    if median(before) > usual - 3 * rough / math.sqrt(len(before)):
        return None
    half = len(tail) // 2
    early, late = median(tail[:half]), median(tail[half:])
    near = max(_near(tail, usual), 2.5 * rough)
    end = None
    if late <= early + max(RISING * early, 2 * rough / math.sqrt(half)):
        end = _steady_from(seen, index, [abs(s.bps - usual) <= near for s in seen], total - KEPT_S + JITTER_S)
    return LateStart(seen[index].start_s, end)


def _first_at(samples: Sequence[Sample], least: float) -> int | None:
    """Return the first of two samples in a row with at least this rate."""
    for index in range(len(samples)):
        if all(s.bps >= least for s in samples[index : index + 2]):
            return index
    return None


def _steady_from(samples: Sequence[Sample], first: int, at_level: Sequence[bool], latest_s: float) -> float | None:
    """Return when the rate is at its level to stay; None if that is after ``latest_s``."""
    steady = max(3, round(STEADY_S / max(0.01, median(s.seconds for s in samples))))
    for index in range(first, len(samples)):
        if samples[index].start_s > latest_s:
            return None
        following = at_level[index : index + steady]
        if following[0] and sum(following) >= len(following) - 1:
            return samples[index].start_s
    return None


def settled_after(samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0) -> float | None:
    """Return the seconds from the start of traffic until the rate is at its level; None if after ``cap_s``."""
    if not samples:
        return None
    level, near = _level(samples, cap_s)
    # One and a half grains, in bits.
    at_level = [s.bytes > 0 and abs(s.bps - level) * s.seconds <= near * s.seconds + 12 * grain for s in samples]
    return _steady_from(samples, 0, at_level, cap_s - JITTER_S)


def reached_after(samples: Sequence[Sample], share: float, cap_s: float = CAP_S) -> float | None:
    """Return the seconds until two samples in a row had at least ``share`` of the level; None if there are none."""
    if not samples:
        return None
    index = _first_at(samples, share * _level(samples, cap_s)[0])
    return None if index is None else samples[index].start_s


def _level(samples: Sequence[Sample], cap_s: float) -> tuple[float, float]:
    """Return the level of the rest of the run in bit/s, and how near to it a rate must be.

    The rest is the time after the cap, or the second half of a run that is at most twice as long as the cap. Samples
    without a byte are stalls, so they are ignored.
    """
    last = samples[-1]
    begin = min(cap_s, (last.start_s + last.seconds) / 2)
    rest = [s.bps for s in samples if s.start_s >= begin - JITTER_S and s.bytes > 0]
    level = median(rest) if rest else median(s.bps for s in samples)
    return level, _near(rest, level)


def _near(rates: Sequence[float], level: float) -> float:
    """Return how near to the level a rate must be: as near as most of these rates."""
    deviations = sorted(abs(rate - level) for rate in rates)
    usual = MARGIN * deviations[int(MOST * (len(deviations) - 1))] if deviations else 0.0
    return min(max(usual, NEAREST * level), FARTHEST * level)


def coarser(samples: Sequence[Sample], grain: float, grains: int = 5, most_s: float = float("inf")) -> list[Sample]:
    """Merge neighbours, so that one sample holds ``grains`` grains at the mean rate, but is at most ``most_s`` long.

    Warm-up and counted samples are not merged.
    """
    seconds, total = sum(s.seconds for s in samples), sum(s.bytes for s in samples)
    if grain <= 0 or total <= 0:
        return list(samples)
    wanted_s = min(grains * grain * seconds / total, most_s) - ROUNDING_S
    found: list[Sample] = []
    for sample in samples:
        last = found[-1] if found else None
        if last is not None and last.seconds < wanted_s and last.warmup == sample.warmup:
            found[-1] = Sample(last.start_s, last.seconds + sample.seconds, last.bytes + sample.bytes, last.warmup)
        else:
            found.append(sample)
    return found


# Times of samples that are this near are equal.
EDGE_S = 0.15
# More bytes are no sample of traffic.
POSSIBLE = 10**18
# After a slow start, a connection must still show its level for so long (s).
AFTER_START_S = 2.0
# A connection may lie within its slow start as a whole if it is this much slower than connections with a level.
WITHIN_START = 0.9


@dataclass(frozen=True)
class Started:
    """How one connection started: the length of its slow start (0: an ordinary start), and whether it ended at all.

    ``level`` is the median rate after the start in bit/s, ``seconds`` the length of the connection.
    """

    slow_s: float
    ended: bool
    level: float
    seconds: float


def started(events: Sequence[Event], samples: Sequence[Sample]) -> Started:
    """Return how the connection with these events and samples started."""
    usable = [s for s in samples if math.isfinite(s.seconds) and s.seconds > 0 and abs(s.bytes) < POSSIBLE]
    seconds = sum(s.seconds for s in usable)
    level = median([s.bps for s in usable if not s.warmup] or [0.0])
    slow = [event for event in events if event.kind is EventKind.SLOW_START]
    slow_s = sum(s.seconds for s in usable if s.warmup) if slow else 0.0
    return Started(slow_s, all(event.seconds < seconds - EDGE_S for event in slow), level, seconds)


@lru_cache(maxsize=128)
def start_of(connection: Connection) -> Started:
    """Return how a connection started. The start of one that does not count says nothing about the others: it is none.

    Cached, since the gate decides again after each connection, over all so far.
    """
    if connection.excluded:
        return Started(0.0, True, 0.0, 0.0)
    return started(connection.events, connection.samples)


def shows_level(connections: Sequence[Started]) -> list[bool]:
    """Return, for each connection, whether it shows its level.

    It does not if it ended before its slow start did. If starts are slow, a much slower connection that is hardly
    longer than the longest start may lie within its own: much slower than the fastest quarter of all connections, too,
    since the only one with a slow start may be the fastest by chance.
    """
    shown = [one.level for one in connections if one.slow_s and one.ended]
    fast = sorted((one.level for one in connections), reverse=True)[: (len(connections) + 3) // 4]
    least = WITHIN_START * min(median(shown), fast[-1]) if shown else 0.0
    longest = max((one.slow_s for one in connections), default=0.0)
    return [
        one.ended and bool(one.slow_s or not shown or one.seconds > longest + AFTER_START_S or one.level >= least)
        for one in connections
    ]


def next_seconds(connections: Sequence[Started], usual_s: float) -> int:
    """Return the length of the next connection if it must be longer than usual, so that its start ends; else 0."""
    slow = [one for one in connections if one.slow_s]
    wanted = max((one.slow_s + AFTER_START_S if one.ended else 2 * one.seconds for one in slow), default=0.0)
    return math.ceil(wanted - 1e-6) if wanted > usual_s else 0
