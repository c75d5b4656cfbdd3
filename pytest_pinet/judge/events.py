"""What happened during a connection, and drops of links."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_pinet.judge.level import BROKEN, DEPTH, STALLED, WINDOW_S
from pytest_pinet.judge.starts import (
    CAP_S,
    JITTER_S,
    REACHED,
    ROUNDING_S,
    coarser,
    late_start,
    reached_after,
    settled_after,
)
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import Event, EventKind, Sample

# With so many connections in which links dropped, others than the link under test among them, the lab is faulty.
DROPS_MAX = 2


@dataclass(frozen=True)
class DropRule:
    """How often the link under test may drop. ``own`` are the ends whose carrier is only that of the link under test.

    An accepted baseline has no drops: `pinet accept` takes no run in which a link dropped.
    """

    own: Collection[int]
    limit: Limit | None = None

    def is_alone(self, ends: Collection[int]) -> bool:
        """Return whether all these ends, the device under test among them, belong to the link under test.

        If other links dropped, too, the switch or its power is at fault.
        """
        return 0 in ends and set(ends) <= set(self.own)

    def is_own(self, one: Connection) -> bool:
        """Return whether only the link under test dropped."""
        return self.is_alone(one.dropped)

    def drops(self, connections: Sequence[Connection]) -> int:
        """Return how often the link under test dropped. Both ends of one cable see each drop."""
        return sum(max(map(one.dropped.count, self.own)) for one in connections if self.is_own(one))

    def too_many(self, connections: Sequence[Connection]) -> bool:
        """Return whether the link under test dropped too often.

        Without a limit, it may drop in one connection: several drops in one connection can be one disturbance.
        """
        if self.limit is None or not isinstance(self.limit.bound, int):
            return sum(map(self.is_own, connections)) > 1
        return self.drops(connections) > self.limit.bound

    def lab_is_faulty(self, connections: Sequence[Connection]) -> bool:
        """Return whether connections were lost repeatedly, and not only by drops of the link under test."""
        lost = [one for one in connections if one.dropped or any(event.kind in BROKEN for event in one.link_events)]
        return len(lost) >= DROPS_MAX and not all(self.is_own(one) for one in lost)


# A stall is below this share of the median for at least so long; a shorter one is a late sample.
STALL_SHARE, STALL_S = STALLED, 0.2
DIP_SHARE, DIP_S = DEPTH, WINDOW_S
# Low pieces with at most this gap are one event.
NEIGHBOURS_S = 0.2
# A receiver's TCP holds back the data after a lost segment until the segment arrives again (at least one retransmission
# timeout of 0.2 s, RFC 6298 as in Linux). The application sees nothing, then all of it at once: the wire never stopped.
HELD_BACK_S = 0.4
CAUGHT_UP_S = 0.2


@dataclass(frozen=True)
class _Piece:
    """Samples from ``first`` up to but not including ``end``; ``low_s`` seconds of them are low."""

    first: int
    end: int
    low_s: float


def find_events(
    samples: Sequence[Sample], cap_s: float = CAP_S, grain: float = 0.0, paced: bool = False
) -> tuple[Event, ...]:
    """Return stalls and dips in all samples of a run, including its warm-up, and a slow start, sorted by their start.

    ``grain`` (bytes) is what the receiver counts in one piece; samples are merged until pieces do not look like gaps.
    ``paced``: the sender has a rate limit, so that it catches up after any interruption.
    """
    found = (*_low(coarser(samples, grain), paced), *_slow_start(samples, cap_s, grain))
    return tuple(sorted(found, key=lambda event: event.start_s))


def _low(samples: Sequence[Sample], paced: bool) -> list[Event]:
    """Return stalls, and dips that are more than a stall and its edges."""
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
    """Return the median of counted samples that are not empty, so that the level of a run with long stalls is not 0."""
    rates = [s.bps for s in samples if s.bytes > 0 and not s.warmup] or [s.bps for s in samples if s.bytes > 0]
    return median(rates) if rates else 0.0


def _pieces(samples: Sequence[Sample], begin: int, below: float) -> list[_Piece]:
    """Return runs of samples below a rate; neighbouring runs are merged."""
    found: list[_Piece] = []
    for index in range(begin, len(samples)):
        sample = samples[index]
        if sample.bps >= below:
            continue
        last = found[-1] if found else None
        # Half a second at full rate separates two events, however long the samples are.
        gap = ROUNDING_S + (NEIGHBOURS_S if sample.seconds < NEIGHBOURS_S else 0.0)
        if last is not None and sum(s.seconds for s in samples[last.end : index]) <= gap:
            found[-1] = _Piece(last.first, index + 1, last.low_s + sample.seconds)
        else:
            found.append(_Piece(index, index + 1, sample.seconds))
    return found


def _held_back(samples: Sequence[Sample], piece: _Piece, level: float) -> bool:
    """Return whether the missing data arrived right afterwards, faster than the link's rate: TCP had held it back."""
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
    """Return the event of a start that lasted longer than the cap of the warm-up."""
    late = late_start(samples, cap_s, grain)
    if late is not None:
        begin = samples[0].start_s
        text = f"slow start: {REACHED * 100:.0f} % of the usual rate only after {late.reached_s:.1f} s"
        if late.end_s is None:
            lasted = samples[-1].start_s + samples[-1].seconds - begin
            text = f"slow start: the rate still rose when the connection ended after {lasted:.1f} s"
            return [Event(EventKind.SLOW_START, begin, lasted, text)]
        return [Event(EventKind.SLOW_START, begin, late.reached_s - begin, text)]
    seen = coarser(samples, grain)
    if not seen or seen[-1].start_s < cap_s - JITTER_S or settled_after(seen, cap_s, grain) is not None:
        return []
    reached = reached_after(seen, REACHED, cap_s)
    if reached is None or reached <= seen[0].start_s:
        return []
    if reached < cap_s - JITTER_S and not _still_low(seen, cap_s):
        return []
    text = f"slow start: {REACHED * 100:.0f} % of the usual rate only after {reached:.1f} s"
    if reached < cap_s - JITTER_S:
        text = f"slow start: {REACHED * 100:.0f} % of the usual rate after {reached:.1f} s, full rate after {cap_s:g} s"
    return [Event(EventKind.SLOW_START, seen[0].start_s, reached - seen[0].start_s, text)]


def _still_low(samples: Sequence[Sample], cap_s: float) -> bool:
    """Return whether the end of the warm-up is below the rest, rather than a burst above it or noise around it."""
    before = [s.bps for s in samples if cap_s / 2 <= s.start_s < cap_s - JITTER_S]
    after = [s.bps for s in samples if s.start_s >= cap_s - JITTER_S and s.bytes > 0]
    return bool(before and after) and median(before) < (1 + REACHED) / 2 * median(after)
