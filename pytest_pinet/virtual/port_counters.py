"""What a port of a virtual switch has counted, as a real one counts it: on the wire, segment by segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pytest_pinet.virtual.link_models import ETHERNET_HEADER, TCP_IP_HEADERS, TIMESTAMPS
from pytest_pinet.virtual.netlink import LinkInfo, QueueInfo

# RFC 3635: the frame check sequence counts.
_FCS = 4
# veth passes TCP packets of many segments; each segment but the first has its own headers on a wire.
_HEADERS = ETHERNET_HEADER + TCP_IP_HEADERS + TIMESTAMPS


@dataclass(frozen=True)
class Counted:
    """Octets with FCS; ``in`` is what the switch received. Discards are what the port's queue had no room for."""

    in_octets: int = 0
    out_octets: int = 0
    out_discards: int = 0
    in_errors: int = 0


class PortCounters:
    """Never counts backwards, although pulling a cable exchanges the device; may be made stale.

    ``damaged`` tells how many frames a bad cable has broken, by port.
    """

    def __init__(self, clock: Callable[[], float], damaged: Callable[[], Mapping[str, int]]) -> None:
        self._clock = clock
        self._damaged = damaged
        self._last: dict[str, Counted] = {}
        self._base: dict[str, Counted] = {}
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
            fresh = _of(link, queues[0].get(link.index), queues[1].get(link.index), damaged.get(name, 0))
            last = self._last.get(name, Counted())
            base = self._base.get(name, Counted())
            for field in vars(fresh):
                if getattr(fresh, field) < getattr(last, field):
                    base = replace(base, **{field: getattr(base, field) + getattr(last, field)})
            self._last[name], self._base[name] = fresh, base
        self._shown = {
            name: Counted(**{f: v + getattr(self._base[name], f) for f, v in vars(self._last[name]).items()})
            for name in links
        }
        self._shown_at = now
        return self._shown


def _of(link: LinkInfo, sent: QueueInfo | None, received: QueueInfo | None, in_errors: int) -> Counted:
    in_octets, out_octets, discards = link.rx_bytes, link.tx_bytes, 0
    if received is not None and received.packets:
        segments = received.packets
        in_octets = link.rx_bytes + max(0, segments - link.rx_packets) * _HEADERS + segments * _FCS
    if sent is not None:
        out_octets = sent.octets + sent.packets * _FCS
        discards = sent.drops
    return Counted(in_octets, out_octets, discards, in_errors)
