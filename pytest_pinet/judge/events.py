"""What happened to traffic, found in its samples: stalls, dips and slow starts.

`find_events` names single moments, as short as STALL_S, for a reader; whether a figure was disturbed, though half of
the run may be low and the link rough, is what `stalls.find_dips` tells. What counts as low, and for how long, is alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pytest_pinet.judge.settle import CAP_S, JITTER_S, reached_after, settled_after
from pytest_pinet.judge.stalls import DEPTH, STALLED, WINDOW_S
from pytest_pinet.model.events import Event, EventKind
from pytest_pinet.model.measurement import Sample

# Below this share of the median, for at least so long; shorter ones are a sample that came late.
STALL_SHARE, STALL_S = STALLED, 0.2
DIP_SHARE, DIP_S = DEPTH, WINDOW_S
# Low pieces with no more than this between them are one event.
NEIGHBOURS_S = 0.2
# Of a ramp: the share of the level that ends it.
RAMP_SHARE = 0.9
# A receiver's TCP holds back what came after a lost segment until that came again (at least one retransmission timeout
# of 0.2 s, RFC 6298 as Linux has it). The application sees nothing, then all of it at once: the wire never stopped.
HELD_BACK_S = 0.4
CAUGHT_UP_S = 0.2
# Sums of intervals that were rounded to microseconds.
ROUNDING_S = 0.02


@dataclass(frozen=True)
class _Piece:
    """Samples from ``first`` up to but not including ``end``, of which ``low_s`` seconds are low."""

    first: int
    end: int
    low_s: float


def find_events(
    samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0, paced: bool = False
) -> tuple[Event, ...]:
    """Find stalls and dips in all samples of a run, its warm-up included, and a start that was slow; by their start.

    ``grain`` (bytes): what the receiver counts in one piece; samples are taken together until it does not look like
    gaps. ``paced``: the sender was told a rate, so that it catches up after any interruption.
    """
    return tuple(sorted((*_low(coarser(samples, grain), paced), *_slow_start(samples, cap_s, grain)), key=_start))


def coarser(samples: Sequence[Sample], grain: float, grains: int = 5, most_s: float = float("inf")) -> list[Sample]:
    """Take neighbours together, so that one holds ``grains`` grains at the mean rate, but not longer than ``most_s``.

    Warm-up and counted samples are not mixed.
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


def _start(event: Event) -> float:
    return event.start_s


def _low(samples: Sequence[Sample], paced: bool) -> list[Event]:
    """Stalls, and the dips that are more than a stall and its edges."""
    level = _median(samples)
    if level <= 0:
        return []
    ramp = next((i for i, s in enumerate(samples) if s.bps >= DIP_SHARE * level), len(samples))
    stalls = [
        piece
        for piece in _pieces(samples, ramp, STALL_SHARE * level)
        if piece.low_s >= STALL_S - ROUNDING_S and (paced or not _held_back(samples, piece, level))
    ]
    events = [_event(EventKind.STALL, samples[p.first : p.end], level) for p in stalls]
    # The samples in which a stall begins and ends are partly low: they are its edges.
    covered = {index for s in stalls for index in range(s.first - 1, s.end + 1)}
    for piece in _pieces(samples, ramp, DIP_SHARE * level):
        own = [samples[i] for i in range(piece.first, piece.end) if i not in covered]
        if sum(s.seconds for s in own if s.bps < DIP_SHARE * level) >= DIP_S - ROUNDING_S:
            events.append(_event(EventKind.DIP, samples[piece.first : piece.end], level))
    return events


def _median(samples: Sequence[Sample]) -> float:
    """Of what counts and is not empty: a run of which most was a stall is not one of level 0."""
    rates = [s.bps for s in samples if s.bytes > 0 and not s.warmup] or [s.bps for s in samples if s.bytes > 0]
    return median(rates) if rates else 0.0


def _pieces(samples: Sequence[Sample], begin: int, below: float) -> list[_Piece]:
    """Runs of samples below a rate, those merged that are neighbours."""
    found: list[_Piece] = []
    for index in range(begin, len(samples)):
        sample = samples[index]
        if sample.bps >= below:
            continue
        last = found[-1] if found else None
        if last is not None and sum(s.seconds for s in samples[last.end : index]) <= _gap(sample):
            found[-1] = _Piece(last.first, index + 1, last.low_s + sample.seconds)
        else:
            found.append(_Piece(index, index + 1, sample.seconds))
    return found


def _gap(sample: Sample) -> float:
    # Half a second at full rate is no seam, however long the samples are.
    return NEIGHBOURS_S + ROUNDING_S if sample.seconds < NEIGHBOURS_S else ROUNDING_S


def _held_back(samples: Sequence[Sample], piece: _Piece, level: float) -> bool:
    """Whether what is missing arrived right afterwards, faster than the link carries anything that is not waiting."""
    if sum(s.seconds for s in samples[piece.first : piece.end]) > HELD_BACK_S + ROUNDING_S:
        return False
    missing = sum(level * s.seconds / 8 - s.bytes for s in samples[piece.first : piece.end])
    surplus, seconds = 0.0, 0.0
    for sample in samples[piece.end :]:
        if seconds >= CAUGHT_UP_S - ROUNDING_S:
            break
        surplus += max(0.0, sample.bytes - level * sample.seconds / 8)
        seconds += sample.seconds
    return surplus >= missing / 2


def _event(kind: EventKind, low: Sequence[Sample], level: float) -> Event:
    seconds = sum(s.seconds for s in low)
    share = sum(s.bytes for s in low) * 8 / seconds / level
    what = "nothing arrived" if share < 0.005 else f"only {share * 100:.0f} % of the usual rate arrived"
    return Event(kind, low[0].start_s, seconds, f"{what} for {seconds:.1f} s, {low[0].start_s:.1f} s after the start")


def _slow_start(samples: Sequence[Sample], cap_s: float, grain: float) -> list[Event]:
    """The event of a warm-up that reached its cap from below."""
    seen = coarser(samples, grain)
    if not seen or seen[-1].start_s < cap_s - JITTER_S or settled_after(seen, cap_s, grain) is not None:
        return []
    reached = reached_after(seen, RAMP_SHARE, cap_s)
    if reached is None or reached <= seen[0].start_s:
        return []
    if reached < cap_s - JITTER_S and not _still_low(seen, cap_s):
        return []
    text = f"slow start: {RAMP_SHARE * 100:.0f} % of the usual rate only after {reached:.1f} s"
    if reached < cap_s - JITTER_S:
        text = (
            f"slow start: {RAMP_SHARE * 100:.0f} % of the usual rate after {reached:.1f} s, all of it after {cap_s:g} s"
        )
    return [Event(EventKind.SLOW_START, seen[0].start_s, reached - seen[0].start_s, text)]


def _still_low(samples: Sequence[Sample], cap_s: float) -> bool:
    """Whether the end of the warm-up is below the rest, rather than a burst above it or noise around it."""
    before = [s.bps for s in samples if cap_s / 2 <= s.start_s < cap_s - JITTER_S]
    after = [s.bps for s in samples if s.start_s >= cap_s - JITTER_S and s.bytes > 0]
    return bool(before and after) and median(before) < (1 + RAMP_SHARE) / 2 * median(after)
