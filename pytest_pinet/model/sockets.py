"""What the sender's kernel said of the connections that carry the traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sockets:
    """The data connections of one flow, read once in mid-traffic; None is what this kernel or ``ss`` does not tell.

    ``mss`` is the smallest one in use (bytes, without TCP's options), ``rtt_s`` the mean smoothed round trip and
    ``rtt_min_s`` the shortest ever seen; ``cwnd_bytes`` is the sum of the congestion windows. ``window_scales`` are the
    factors of the windows of both sides as shifts (sender's, receiver's; RFC 7323), ``retransmits`` the segments sent
    again so far. ``receiver_limited`` and ``sender_limited`` are the parts (0 to 1) of the time with data to send in
    which all of them waited for the receiver's window, and for the sender's own buffer. ``sndbuf_bytes`` and
    ``rcvbuf_bytes`` are the smallest buffers that the kernel allows one of them.
    """

    connections: int
    mss: int
    rtt_s: float | None = None
    rtt_min_s: float | None = None
    cwnd_bytes: int | None = None
    window_scales: tuple[int, int] | None = None
    retransmits: int | None = None
    receiver_limited: float | None = None
    sender_limited: float | None = None
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None
