"""What a kernel reports about the connections that carry the traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sockets:
    """The data connections of one flow, read once during the traffic; None is a value that is not known.

    ``mss`` is the smallest one in use (bytes, without TCP's options). ``rtt_s`` is the mean smoothed round trip,
    ``rtt_min_s`` the shortest. ``cwnd_bytes`` is the sum of the congestion windows. ``window_scales`` are the window
    scale shifts of sender and receiver (RFC 7323). ``retransmits`` counts the segments that were sent again so far.
    ``receiver_limited`` and ``sender_limited`` are shares (0 to 1) of the time with data to send in which all
    connections waited for the receiver's window, or for the sender's own buffer. ``sndbuf_bytes`` and ``rcvbuf_bytes``
    are the smallest buffers that the kernel allows a connection.
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
