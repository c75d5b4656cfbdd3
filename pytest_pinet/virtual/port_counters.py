"""Counters of a virtual switch's port. Like a real switch, they count each segment on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pytest_pinet.virtual.link_models import ETHERNET_HEADER, TCP_IP_HEADERS, TIMESTAMPS
from pytest_pinet.virtual.netlink import LinkInfo, QueueInfo

# RFC 3635: octet counters include the frame check sequence.
_FCS = 4
# veth passes TCP packets of many segments as one. On a wire, each segment has its own headers.
_HEADERS = ETHERNET_HEADER + TCP_IP_HEADERS + TIMESTAMPS
_NO_QUEUE = QueueInfo(0, 0, 0)


@dataclass(frozen=True)
class Counted:
    """Counters of a port, seen from the switch. Octets include the FCS. Discards are drops of the port's full queue."""

    in_octets: int = 0
    out_octets: int = 0
    out_discards: int = 0
    in_errors: int = 0


class _Raw(NamedTuple):
    """The kernel's counters of a port. Each restarts at 0 when the port's device or queue is replaced."""

    rx_octets: int = 0
    rx_packets: int = 0
    rx_segments: int = 0
    tx_octets: int = 0
    sent_octets: int = 0
    sent_segments: int = 0
    drops: int = 0
    damaged: int = 0

    def grown(self, last: _Raw, now: _Raw) -> _Raw:
        """Return these totals after the kernel's counters went from ``last`` to ``now``."""
        return _Raw(*(t + (n - b if n >= b else n) for t, b, n in zip(self, last, now, strict=True)))

    @property
    def counted(self) -> Counted:
        in_octets, out_octets = self.rx_octets, self.tx_octets
        if self.rx_segments:
            more = max(0, self.rx_segments - self.rx_packets)
            in_octets += more * _HEADERS + self.rx_segments * _FCS
        if self.sent_segments:
            out_octets = self.sent_octets + self.sent_segments * _FCS
        return Counted(in_octets, out_octets, self.drops, self.damaged)


class VirtualPortCounters:
    """Counters that never decrease, also when a queue is replaced. They can be made stale.

    ``damaged`` returns how many frames a bad cable has broken, by port.
    """

    def __init__(self, clock: Callable[[], float], damaged: Callable[[], Mapping[str, int]]) -> None:
        self._clock = clock
        self._damaged = damaged
        self._last: dict[str, _Raw] = {}
        self._total: dict[str, _Raw] = {}
        self._shown: dict[str, Counted] = {}
        self._shown_at = float("-inf")
        self._exchanging: set[str] = set()
        self._stale_s = 0.0

    def delay(self, stale_s: float) -> None:
        """Show counters that are up to this old."""
        self._stale_s = stale_s

    @contextmanager
    def exchanging(self, port: str) -> Iterator[None]:
        """Ignore a port while its device is replaced: the new device's old counts do not belong to the port."""
        self._exchanging.add(port)
        try:
            yield
        finally:
            self._exchanging.remove(port)
            self._last.pop(port, None)

    def read(
        self, links: Mapping[str, LinkInfo], queues: tuple[Mapping[int, QueueInfo], Mapping[int, QueueInfo]]
    ) -> Mapping[str, Counted]:
        """Return the counters by port, as old as ``delay`` allows. The next device of a port starts from its values."""
        damaged = self._damaged()
        for name, link in links.items():
            if name in self._exchanging:
                continue
            raw = _raw(link, queues[0].get(link.index), queues[1].get(link.index), damaged.get(name, 0))
            last = self._last.get(name, raw if name in self._total else _Raw())
            self._last[name], self._total[name] = raw, self._total.get(name, _Raw()).grown(last, raw)
        now = self._clock()
        if now - self._shown_at >= self._stale_s:
            self._shown = {name: total.counted for name, total in self._total.items()}
            self._shown_at = now
        # Bridges can come and go while stale counters are shown.
        return {name: self._shown.get(name, Counted()) for name in links}


def _raw(link: LinkInfo, sent: QueueInfo | None, received: QueueInfo | None, damaged: int) -> _Raw:
    out, segments = sent or _NO_QUEUE, received.packets if received else 0
    return _Raw(link.rx_bytes, link.rx_packets, segments, link.tx_bytes, out.octets, out.packets, out.drops, damaged)
