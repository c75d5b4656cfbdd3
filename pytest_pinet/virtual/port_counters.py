"""What a port of a virtual switch has counted, as a real one counts it: on the wire, segment by segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_pinet.virtual.link_models import ETHERNET_HEADER, TCP_IP_HEADERS, TIMESTAMPS
from pytest_pinet.virtual.netlink import LinkInfo, QueueInfo

# RFC 3635: the frame check sequence counts.
_FCS = 4
# veth passes TCP packets of many segments; each segment but the first has its own headers on a wire.
_HEADERS = ETHERNET_HEADER + TCP_IP_HEADERS + TIMESTAMPS
# Packets that may pass between the kernel's answers on devices and on queues.
_IN_BETWEEN = 1000
_NO_QUEUE = QueueInfo(0, 0, 0)


@dataclass(frozen=True)
class Counted:
    """Octets with FCS; ``in`` is what the switch received. Discards are what the port's queue had no room for."""

    in_octets: int = 0
    out_octets: int = 0
    out_discards: int = 0
    in_errors: int = 0


@dataclass(frozen=True)
class _Raw:
    """What the kernel counts of a port; each of these starts over when its device or its queue is a new one."""

    rx_octets: int = 0
    rx_packets: int = 0
    rx_segments: int = 0
    tx_octets: int = 0
    sent_octets: int = 0
    sent_segments: int = 0
    drops: int = 0
    damaged: int = 0

    def and_(self, grown: _Raw) -> _Raw:
        return _Raw(**{field: value + more for field, value, more in _both(self, grown)})

    def since(self, last: _Raw) -> _Raw:
        grown = {f: value - before if value >= before else value for f, value, before in _both(self, last)}
        if 0 < grown["rx_segments"] < grown["rx_packets"] - _IN_BETWEEN:
            # Packets that no queue saw are those of a device that came back into the port.
            grown |= {"rx_octets": 0, "rx_packets": 0}
        return _Raw(**grown)

    @property
    def counted(self) -> Counted:
        in_octets, out_octets = self.rx_octets, self.tx_octets
        if self.rx_segments:
            more = max(0, self.rx_segments - self.rx_packets)
            in_octets += more * _HEADERS + self.rx_segments * _FCS
        if self.sent_segments:
            out_octets = self.sent_octets + self.sent_segments * _FCS
        return Counted(in_octets, out_octets, self.drops, self.damaged)


def _both(new: _Raw, old: _Raw) -> list[tuple[str, int, int]]:
    return [(field, value, getattr(old, field)) for field, value in vars(new).items()]


class PortCounters:
    """Never counts backwards, although pulling a cable exchanges the device; may be made stale.

    ``damaged`` tells how many frames a bad cable has broken, by port.
    """

    def __init__(self, clock: Callable[[], float], damaged: Callable[[], Mapping[str, int]]) -> None:
        self._clock = clock
        self._damaged = damaged
        self._last: dict[str, _Raw] = {}
        self._total: dict[str, _Raw] = {}
        self._shown: dict[str, Counted] = {}
        self._shown_at = float("-inf")
        self.stale_s = 0.0

    def read(
        self, links: Mapping[str, LinkInfo], queues: tuple[Mapping[int, QueueInfo], Mapping[int, QueueInfo]]
    ) -> Mapping[str, Counted]:
        """By port, of what the kernel says now or said ``stale_s`` ago at most."""
        now = self._clock()
        if now - self._shown_at < self.stale_s:
            # Bridges come and go while the counters stand still.
            return {name: self._shown.get(name, Counted()) for name in links}
        damaged = self._damaged()
        for name, link in links.items():
            raw = _raw(link, queues[0].get(link.index), queues[1].get(link.index), damaged.get(name, 0))
            total = self._total.get(name, _Raw()).and_(raw.since(self._last.get(name, _Raw())))
            self._last[name], self._total[name], self._shown[name] = raw, total, total.counted
        self._shown_at = now
        return {name: self._shown[name] for name in links}


def _raw(link: LinkInfo, sent: QueueInfo | None, received: QueueInfo | None, damaged: int) -> _Raw:
    sent, received = sent or _NO_QUEUE, received or _NO_QUEUE
    return _Raw(
        link.rx_bytes,
        link.rx_packets,
        received.packets,
        link.tx_bytes,
        sent.octets,
        sent.packets,
        sent.drops,
        damaged,
    )
