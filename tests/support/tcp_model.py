"""A model of one TCP connection over one bottleneck, round trip by round trip: CUBIC (RFC 9438), a queue, losses.

It knows nothing of the rules that name causes. It yields what a measurement has: samples, segments sent again, and
round-trip times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pytest_pinet.model.measurement import Sample

SEGMENT = 1448
# RFC 9438: the factor of a reduction, and the constant of the growth (segments/s^3).
BETA, C = 0.7, 0.4


@dataclass(frozen=True)
class Bottleneck:
    """What a path carries (Mbit/s), its shortest round trip, its queue (segments), and the share that it loses.

    ``window`` is the most that may be on the way (segments). ``police``: what exceeds the rate is dropped at once.
    """

    mbps: float
    rtt_s: float
    queue: int = 400
    lost: float = 0.0
    window: int = 10**9


@dataclass(frozen=True)
class Course:
    """What was measured of a connection."""

    samples: tuple[Sample, ...]
    retransmits: int
    rtt_s: float
    rtt_min_s: float
    # The share of the time in which the sender waited for the window.
    limited: float

    @property
    def mbps(self) -> float:
        """The goodput."""
        return sum(s.bytes for s in self.samples) * 8 / sum(s.seconds for s in self.samples) / 1e6


def run(path: Bottleneck, seed: int, seconds: float = 3.0, skipped_s: float = 2.0) -> Course:
    """Return the course of a connection after its start of ``skipped_s``."""
    dice = random.Random(seed)
    per_s = path.mbps * 1e6 / 8 / SEGMENT
    held = per_s * path.rtt_s
    cwnd, w_max, since_s = 10.0, 0.0, 0.0
    slow_start = True
    now_s = 0.0
    pieces: list[tuple[float, float, float]] = []
    retransmits, rtts, limited_s = 0, [], 0.0
    while now_s < skipped_s + seconds:
        flying = min(cwnd, path.window)
        queued = max(0.0, flying - held)
        dropped = max(0.0, queued - path.queue)
        rtt_s = path.rtt_s + min(queued, path.queue) / per_s
        lost = sum(dice.random() < path.lost for _ in range(int(flying))) if path.lost else 0
        arrived = min(flying - dropped, per_s * rtt_s) - lost
        pieces.append((now_s, rtt_s, max(0.0, arrived)))
        if now_s >= skipped_s:
            retransmits += lost + round(dropped)
            rtts.append(rtt_s)
            limited_s += rtt_s if cwnd >= path.window else 0.0
        if dropped >= 1 or lost:
            slow_start, w_max, since_s = False, flying, 0.0
            cwnd = max(2.0, flying * BETA)
        elif slow_start:
            cwnd = min(cwnd * 2, float(path.window))
        elif cwnd < path.window:
            since_s += rtt_s
            k = (w_max * (1 - BETA) / C) ** (1 / 3)
            reno = w_max * BETA + 3 * (1 - BETA) / (1 + BETA) * since_s / rtt_s
            cwnd = max(C * (since_s - k) ** 3 + w_max, reno, 2.0)
        now_s += rtt_s
    return Course(
        _samples(pieces, skipped_s, seconds),
        retransmits,
        sum(rtts) / len(rtts),
        path.rtt_s,
        limited_s / seconds,
    )


def _samples(pieces: list[tuple[float, float, float]], begin_s: float, seconds: float) -> tuple[Sample, ...]:
    """Return samples of a tenth of a second."""
    bins = [0.0] * round(seconds * 10)
    for start_s, length_s, segments in pieces:
        first, last = (start_s - begin_s) * 10, (start_s + length_s - begin_s) * 10
        for index in range(max(0, int(first)), min(len(bins), int(last) + 1)):
            part = min(last, index + 1.0) - max(first, float(index))
            bins[index] += segments * max(0.0, part) / (last - first)
    return tuple(Sample(index / 10, 0.1, round(count * SEGMENT)) for index, count in enumerate(bins))
