"""What the sender's kernel said of the connections that carry the traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sockets:
    """The data connections of one flow, read once in mid-traffic; None is what this kernel or ``ss`` does not tell.

    ``mss`` is the smallest one in use (bytes, without TCP's options), ``rtt_s`` the mean smoothed round trip and
    ``rtt_min_s`` the shortest ever seen; ``cwnd_bytes`` is the sum of the congestion windows. ``window_scales`` are the
    factors of the windows of both sides as shifts (sender's, receiver's; RFC 7323), ``retransmits`` the segments sent
    again so far.
    """

    connections: int
    mss: int
    rtt_s: float | None = None
    rtt_min_s: float | None = None
    cwnd_bytes: int | None = None
    window_scales: tuple[int, int] | None = None
    retransmits: int | None = None
