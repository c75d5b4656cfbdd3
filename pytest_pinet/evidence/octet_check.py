"""Compares the octet counters of the switch ports with the payload that iperf3 moved.

The octets of a port include the frame check sequence (RFC 3635). Full TCP segments with timestamps make ``(MTU + 18) /
(MTU - 52)`` octets for each byte of payload, 1.048 at MTU 1500. The counts must agree within 2 %. A port that counts
segments before they are cut (a software bridge counts one header for 64 KB) may show any factor from 1 to that value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.interface import Moved
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.model.evidence import PortCounters, Trouble

AGREEMENT = 0.02
# Acknowledgements of the opposite flow, as a share of its payload: one of 84 octets for every second segment.
ACKNOWLEDGEMENTS = 0.03
# ARP, LLDP and the control connection of iperf3.
CHATTER_OCTETS = 100_000
# An idle port counts at most this many octets between two readings that are SETTLED_S apart.
IDLE_OCTETS = 20_000
SETTLED_S = 1.0
POLL_S = 0.1


@dataclass(frozen=True)
class CableEnd:
    """One end of a combination and its switch port. ``node`` and ``port`` are their names in messages.

    ``moved`` is the payload in bytes that arrived, for the flows through this cable. ``sent`` is the payload that their
    senders sent, which is at least ``moved``.
    """

    node: str
    port: str
    moved: Moved
    sent: Moved


def factor(mtu: int, headers: int, payload: int) -> float:
    """Return the octets on the wire per byte of payload, for packets of ``payload`` bytes.

    ``headers`` is the size in bytes of the headers from IP on.
    """
    size = min(mtu - headers, payload)
    return (size + headers + 18) / size


def settled(read: Callable[[], Sequence[PortCounters]], latency_s: float) -> list[PortCounters]:
    """Return counters that include all traffic before this call.

    This is reached when two readings a second apart agree, and at the latest after ``latency_s``, the counters' most
    age.
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

    Deadline(latency_s).wait_until(agree, POLL_S)
    return last


def check_octets(
    cables: Sequence[CableEnd],
    before: Sequence[PortCounters],
    read: Callable[[], Sequence[PortCounters]],
    wire_factor: float,
    latency_s: float,
) -> list[PortCounters]:
    """Compare each port with its cable's payload, and return the ports' present counters.

    Counters can be stale (net-snmp keeps them for 3 s, some switches longer). Counts that are too low are therefore
    read again for up to ``latency_s``. Ports whose counters restarted, or may have wrapped more than once, are not
    checked. Raises InvalidMeasurement, whose message names the hop that lost or added octets.
    """
    after = list(read())

    def counts() -> list[_Counted]:
        each = zip(cables, before, after, strict=True)
        return [(cable, old, new) for cable, old, new in each if _is_usable(cable, old, new, wire_factor)]

    def complete() -> bool:
        nonlocal after
        after = list(read())
        return _missing(counts(), wire_factor) is None

    if _missing(counts(), wire_factor) is not None:
        Deadline(latency_s).wait_until(complete, POLL_S)
    trouble = _missing(counts(), wire_factor) or _surplus(counts(), wire_factor)
    if trouble is not None:
        raise InvalidMeasurement(trouble.text, trouble.act)
    return after


# A cable with the counters of its port before and after traffic.
_Counted = tuple[CableEnd, PortCounters, PortCounters]


def _is_usable(cable: CableEnd, old: PortCounters, new: PortCounters, wire_factor: float) -> bool:
    """Return whether this port's counters neither restarted nor may have wrapped more than once."""
    if new.bits < 64:
        most = wire_factor * max(cable.sent.sent, cable.sent.received) + CHATTER_OCTETS
        return old.epoch == new.epoch and most < 1 << (new.bits - 1)
    return old.epoch == new.epoch and new.rx_octets >= old.rx_octets and new.tx_octets >= old.tx_octets


def _missing(counts: Sequence[_Counted], wire_factor: float) -> Trouble | None:
    """Return the first port that counted less than the payload, and what to do; None if there is none."""
    for cable, old, new in counts:
        came_in, went_out = new.octets_since(old)
        least = (1 - AGREEMENT) * (wire_factor if new.frames else 1.0)
        for way, seen, payload in (
            (f"came in from {cable.node}", came_in, cable.moved.sent),
            (f"went out to {cable.node}", went_out, cable.moved.received),
        ):
            if seen < least * payload:
                return Trouble(
                    f"only {_mb(seen)} {way} at {cable.port}, for {_mb(payload)} of payload that iperf3 moved: the "
                    "traffic took another way",
                    "check that this cable is in the port that the lab file names",
                )
    return None


def _surplus(counts: Sequence[_Counted], wire_factor: float) -> Trouble | None:
    """Return the first hop that lost octets, and what to do; None if there is none."""
    for cable, old, new in counts:
        came_in, went_out = new.octets_since(old)
        sent, received = cable.moved.sent, cable.moved.received
        discards = _discards(old.rx_discards, new.rx_discards)
        if sent and came_in > _most(cable.sent.sent, cable.sent.received, wire_factor):
            return Trouble(
                f"{_mb(came_in)} came in from {cable.node} at {cable.port}, but the far end received only "
                f"{_mb(sent)}: the rest was lost behind this port, in the switch or on the receiver's side{discards}",
                "look at the discards of the other ports, or for other traffic of this node",
            )
        if received and went_out > _most(cable.sent.received, cable.sent.sent, wire_factor):
            return Trouble(
                f"{_mb(went_out)} went out to {cable.node} at {cable.port}, but only {_mb(received)} arrived: the rest "
                f"was lost on the cable, in the NIC or in the driver of {cable.node}",
                "look at errors and drops of this NIC, and for other traffic to this node",
            )
    return None


def _most(payload: int, opposite: int, wire_factor: float) -> float:
    return (1 + AGREEMENT) * wire_factor * payload + ACKNOWLEDGEMENTS * opposite + CHATTER_OCTETS


def _discards(old: int | None, new: int | None) -> str:
    return (
        "" if old is None or new is None or new == old else f" (this port discarded {new - old} frames from the node)"
    )


def _mb(octets: int) -> str:
    return f"{octets / 1e6:.1f} MB"
