"""The counters of a switch port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PortCounters:
    """One reading of the counters of a switch port; None is a counter that the switch does not have.

    ``rx`` is what the switch received, so the node sent it. ``time_s`` is the runner's monotonic clock at the answer.
    ``epoch`` changes when the counters restart (a reboot, a discontinuity). ``frames``: octets count frames on the wire
    including the check sequence, as the MIBs require (RFC 3635). If not set, the port may count segments before they
    are cut into frames. ``bits`` is the width of the counters.
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
        """Return the octets received and sent since an earlier reading.

        A narrow counter may have wrapped around once.
        """
        size = 1 << self.bits
        return (self.rx_octets - old.rx_octets) % size, (self.tx_octets - old.tx_octets) % size
