"""The values of one connection: mean, level without disturbances, the scatter of its samples, and its dips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median
from typing import NamedTuple

from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.starts import start_of
from pytest_pinet.judge.statistics import robust_sd, variance
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import EventKind, Sample

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


# No link carries more; a higher value comes from a broken clock or counter.
HIGHEST_BPS = 1e15
# Seconds of one block of samples: the queues on the path correlate shorter blocks.
BLOCK_S = 0.45
# Slow changes correlate consecutive blocks: (1 + 0.33) / (1 - 0.33) for the correlation of 0.1 to 0.34 that was seen
# from second to second on quiet and on disturbed virtual links.
TIED = 2.0
# Huber's constant: clip values more than this many standard deviations from the level (Huber 1964).
CLIP = 1.5
# Events that make a value worthless: the link or the counter restarted.
BROKEN = (EventKind.LINK_DOWN, EventKind.RESTART)


class Level(NamedTuple):
    """The values of one connection in bit/s, and variances relative to them (0.0001 = a standard deviation of 1 %).

    ``mean`` is all received data over all counted time. ``level`` excludes stalls and gives little weight to short
    disturbances (Huber's M-estimate of the samples). ``own`` is the variance of the level and ``own_mean`` that of the
    mean, estimated from the samples. ``dips`` are times with a rate far below the level, including the warm-up.
    ``disturbed``: there were dips or events other than a slow start. A slow start is reported, too, but the value
    begins after it.
    """

    mean: float
    level: float
    own: float
    own_mean: float
    dips: tuple[Dip, ...]
    disturbed: bool


def unusable(connection: Connection) -> str:
    """Return why a connection gives no value; empty if it gives one."""
    if connection.excluded:
        return connection.excluded
    if not start_of(connection).ended:
        return "the start lasted longer than the connection"
    for event in connection.events:
        if event.kind in BROKEN:
            return event.text
    for sample in connection.samples:
        if not math.isfinite(sample.seconds) or sample.seconds < 0 or sample.bytes < 0:
            return f"impossible sample: {'fewer than 0' if sample.bytes < 0 else 'some'} bytes in {sample.seconds} s"
        if sample.bytes * 8 > HIGHEST_BPS * sample.seconds:
            return f"impossible sample: more than {HIGHEST_BPS / 1e12:.0f} Tbit/s"
    if not any(s.seconds > 0 for s in connection.counted):
        return "no sample after the warm-up"
    return ""


# The rules decide again after each connection. Without the cache, all samples would be read again each time.
@lru_cache(maxsize=128)
def read(connection: Connection) -> Level | None:
    """Return the values of one connection; None if it is `unusable`."""
    if unusable(connection):
        return None
    counted = [s for s in connection.counted if s.seconds > 0]
    usual = median(s.seconds for s in counted)
    # The last interval may be a few milliseconds long, so its rate is random.
    rates = [s.bps for s in counted if s.seconds > usual / 2]
    # If all counted samples are a stall, the samples before it give the level of the link.
    level, clipped = _level(moving(rates if any(rates) else [s.bps for s in connection.samples if s.seconds > 0]))
    per_block = max(1, round(BLOCK_S / usual))
    dips = find_dips(connection.samples, level)
    return Level(
        mean=connection.goodput.bps,
        level=level,
        own=_own(clipped, per_block, level),
        own_mean=_own(rates, per_block, level),
        dips=dips,
        disturbed=_is_disturbed(connection, dips, usual),
    )


def level_bps(connection: Connection) -> float | None:
    """Return the level of a connection in bit/s, without stalls; None if it gives no value."""
    reading = read(connection)
    return None if reading is None else reading.level


def remarks(connection: Connection) -> tuple[str, ...]:
    """Return a sentence for each disturbance: for each event, or else for each dip, as an event says more of it.

    A slow start is none: the value begins after it.
    """
    reading = read(connection)
    if any(event.kind is not EventKind.SLOW_START for event in connection.events):
        return tuple(event.text for event in connection.events if event.kind is not EventKind.SLOW_START)
    return () if reading is None or not reading.disturbed else tuple(str(dip) for dip in reading.dips)


@lru_cache(maxsize=128)
def flags(connection: Connection) -> tuple[str, ...]:
    """Return what a verdict says of a connection: its disturbances, or else why it gives no value."""
    if connection.beside_link:
        return ()
    if read(connection) is None and start_of(connection).ended:
        return (unusable(connection),)
    return remarks(connection)


def _is_disturbed(connection: Connection, dips: Sequence[Dip], usual: float) -> bool:
    slow_starts = [event for event in connection.events if event.kind is EventKind.SLOW_START]
    ends = [s.start_s + s.seconds for s in connection.samples if s.warmup]
    settled_s = max((*ends, *(event.start_s + event.seconds for event in slow_starts)), default=0.0)

    def is_start(dip: Dip) -> bool:
        # The begin and end of a dip are known only to a sample.
        return dip.start_s <= RAMP_S + usual and dip.start_s + dip.seconds <= settled_s + 1.5 * usual

    return len(connection.events) > len(slow_starts) or not all(is_start(dip) for dip in dips)


def _level(rates: Sequence[float]) -> tuple[float, list[float]]:
    """Return Huber's M-estimate of location, and the clipped samples that it is computed from."""
    middle = median(rates)
    # The spread of a shaped link is often 0 for half of the samples. One thousandth keeps the estimate from sticking.
    scale = CLIP * max(robust_sd(rates, middle), middle * 1e-3)
    level, clipped = middle, list(rates)
    for _ in range(8):
        low, high = level - scale, level + scale
        clipped = [low if rate < low else high if rate > high else rate for rate in rates]
        level = fmean(clipped)
    return level, clipped


def _own(rates: Sequence[float], per_block: int, level: float) -> float:
    """Return the relative variance of the mean of these samples, estimated from blocks; 0 with too few blocks."""
    blocks = [fmean(rates[i : i + per_block]) for i in range(0, len(rates) - per_block + 1, per_block)]
    if len(blocks) < 3 or level <= 0:
        return 0.0
    return TIED * variance(blocks) / len(blocks) / level**2
