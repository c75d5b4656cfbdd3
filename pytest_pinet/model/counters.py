"""What a switch port has counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PortCounters:
    """``rx`` is what the switch received, that is what the node sent.

    ``time_s`` is the runner's monotonic clock at the answer; ``epoch`` changes when the counters started anew (a
    reboot, a discontinuity). ``frames``: octets are those of frames on the wire with their check sequence, as the MIBs
    demand (RFC 3635); else the port may see segments before they are cut. ``bits`` is how wide they are. None is what
    the switch does not count; absent is not zero.
    """

    time_s: float
    rx_octets: int
    tx_octets: int
    rx_errors: int | None = None
    tx_errors: int | None = None
    rx_discards: int | None = None
    tx_discards: int | None = None
    epoch: str | None = None
    frames: bool = False
    bits: int = 64

    def octets_since(self, old: PortCounters) -> tuple[int, int]:
        """What was received and sent since an earlier reading; a narrow counter may have started over once."""
        size = 1 << self.bits
        return (self.rx_octets - old.rx_octets) % size, (self.tx_octets - old.tx_octets) % size
