"""The switch's word on a measurement: the octets of its ports against the payload that iperf3 moved.

Octets of a port count the frame check sequence (RFC 3635): full TCP segments with timestamps make ``(MTU + 18) /
(MTU - 52)`` octets of each byte of payload, 1.048 at 1500, and must agree within 2 %. Of a port that may see segments
before they are cut (a bridge in software counts one header for 64 KB) anything from 1 to that factor agrees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.crossing import Moved
from pytest_pinet.model.counters import PortCounters

AGREEMENT = 0.02
# Acknowledgements of what flows the other way, as a share of its payload: one of 84 octets for every second segment.
ACKNOWLEDGEMENTS = 0.03
# ARP, LLDP and the control connection of iperf3.
CHATTER_OCTETS = 100_000
# An idle port counts no more than this between two readings that are SETTLED_S apart.
IDLE_OCTETS = 20_000
SETTLED_S = 1.0


@dataclass(frozen=True)
class Cable:
    """One end of a combination and the switch port that it is cabled to, as messages call them.

    ``moved`` is what arrived of the flows through it, ``sent`` what their senders sent, which is at least that: both in
    bytes of payload.
    """

    node: str
    port: str
    moved: Moved
    sent: Moved


def factor(mtu: int, headers: int, payload: int) -> float:
    """Octets on the wire for each byte of payload in packets of ``payload`` bytes behind ``headers`` bytes of IP."""
    size = min(mtu - headers, payload)
    return (size + headers + 18) / size


Wait = Callable[[Callable[[], bool], float], bool]


def settled(read: Callable[[], Sequence[PortCounters]], latency_s: float, wait: Wait) -> list[PortCounters]:
    """Counters that have caught up with what was moved before.

    That is when two readings a second apart agree; at the latest after ``latency_s``, which is how old they may be.
    """
    last = list(read())
    if latency_s <= 0:
        return last

    def agree() -> bool:
        nonlocal last
        if time.monotonic() - last[0].time_s < SETTLED_S:
            return False
        fresh = list(read())
        idle = all(max(new.octets_since(old)) <= IDLE_OCTETS for old, new in zip(last, fresh, strict=True))
        last = fresh
        return idle

    wait(agree, latency_s)
    return last


def check_octets(
    cables: Sequence[Cable],
    before: Sequence[PortCounters],
    read: Callable[[], Sequence[PortCounters]],
    wire_factor: float,
    latency_s: float,
    wait: Wait,
) -> list[PortCounters]:
    """Compare each port with its cable's payload, and return what the ports count now.

    Counters may be stale (net-snmp keeps them for 3 s, some switches longer): too little is read again for
    ``latency_s``. Ports that started to count anew, or whose narrow counters may have started over more than once, say
    nothing. Raises InvalidMeasurement that names the hop which lost or added octets.
    """
    after = list(read())

    def complete() -> bool:
        nonlocal after
        after = list(read())
        return _missing(cables, before, after, wire_factor) is None

    if _missing(cables, before, after, wire_factor) is not None:
        wait(complete, latency_s)
    trouble = _missing(cables, before, after, wire_factor) or _surplus(cables, before, after, wire_factor)
    if trouble is not None:
        raise InvalidMeasurement(trouble)
    return after


def _silent(cable: Cable, old: PortCounters, new: PortCounters, wire_factor: float) -> bool:
    """Whether this port's counters say nothing about this measurement."""
    most = wire_factor * max(cable.sent.sent, cable.sent.received) + CHATTER_OCTETS
    if new.bits < 64:
        return old.epoch != new.epoch or most >= 1 << (new.bits - 1)
    return old.epoch != new.epoch or new.rx_octets < old.rx_octets or new.tx_octets < old.tx_octets


def _missing(
    cables: Sequence[Cable], before: Sequence[PortCounters], after: Sequence[PortCounters], wire_factor: float
) -> str | None:
    """The first port that saw less than was moved, in words."""
    for cable, old, new in zip(cables, before, after, strict=True):
        if _silent(cable, old, new, wire_factor):
            continue
        came_in, went_out = new.octets_since(old)
        least = (1 - AGREEMENT) * (wire_factor if new.frames else 1.0)
        for way, seen, payload in (
            (f"came in from {cable.node}", came_in, cable.moved.sent),
            (f"went out to {cable.node}", went_out, cable.moved.received),
        ):
            if seen < least * payload:
                return (
                    f"only {_mb(seen)} {way} at {cable.port}, for {_mb(payload)} of payload that iperf3 moved: they "
                    "took another way\n  -> check that this cable is in the port that the lab file names"
                )
    return None


def _surplus(
    cables: Sequence[Cable], before: Sequence[PortCounters], after: Sequence[PortCounters], wire_factor: float
) -> str | None:
    """The first hop behind which octets are missing that were there before it, in words."""
    for cable, old, new in zip(cables, before, after, strict=True):
        if _silent(cable, old, new, wire_factor):
            continue
        came_in, went_out = new.octets_since(old)
        sent, received = cable.moved.sent, cable.moved.received
        if sent and came_in > _most(cable.sent.sent, cable.sent.received, wire_factor):
            lost = _discards(old.tx_discards, new.tx_discards)
            return (
                f"{_mb(came_in)} came in from {cable.node} at {cable.port}, for {_mb(sent)} that were received at the "
                f"far end: lost behind that port, in the switch or on the receiver's side{lost}\n  -> look at the "
                "discards of the other ports, or for other traffic of this node"
            )
        if received and went_out > _most(cable.sent.received, cable.sent.sent, wire_factor):
            return (
                f"{_mb(went_out)} went out to {cable.node} at {cable.port}, and only {_mb(received)} arrived: lost on "
                f"the cable, in the NIC or in the driver of {cable.node}\n  -> look at its errors and drops, and for "
                "other traffic to this node"
            )
    return None


def _most(payload: int, opposite: int, wire_factor: float) -> float:
    return (1 + AGREEMENT) * wire_factor * payload + ACKNOWLEDGEMENTS * opposite + CHATTER_OCTETS


def _discards(old: int | None, new: int | None) -> str:
    return "" if old is None or new is None or new == old else f" ({new - old} discards there)"


def _mb(octets: int) -> str:
    return f"{octets / 1e6:.1f} MB"
