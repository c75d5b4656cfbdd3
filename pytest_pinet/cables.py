"""Counters on both sides of every cable of a link, before and after traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from pytest_pinet.evidence.crossing import Crossing, Device, Moved
from pytest_pinet.evidence.octets import Cable, check_octets, factor, settled
from pytest_pinet.judge.oracle import IPV4_TCP_HEADERS, IPV4_UDP_HEADERS, TIMESTAMP_OPTION
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.lab.managed_switch import ManagedSwitch
from pytest_pinet.lab.switchport import Capability
from pytest_pinet.model.counters import PortCounters
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.report.record import CableRecord
from pytest_pinet.tries import MeasuredFlow

# Some drivers refresh their counters once a second.
COUNTER_TIMEOUT_S = 3.0
# What a TCP flow may have on the wire and in queues when its receiver stops, of so many connections: a receiver that is
# slower than its sender has a full window of it, which Linux lets grow to half of its tcp_rmem (6 MB).
IN_FLIGHT_BYTES = 3_200_000
IN_FLIGHT_STREAMS = 10


class Cables:
    """Reads all counters on construction; ``check`` reads them again and compares with what the flows moved."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._crossing = Crossing([Device(end.shell, end.device, str(end)) for end in link.ends])
        # Ends whose switch counts.
        self._counted = [i for i, e in enumerate(link.ends) if Capability.COUNTERS in _switch(link, e).capabilities]
        self._latency_s = max((_switch(link, link.ends[i]).counter_latency_s for i in self._counted), default=0.0)
        self._before = settled(self._read, self._latency_s, _wait) if self._counted else []
        self._after = self._before

    def _read(self) -> list[PortCounters]:
        """One question for each switch."""
        found: dict[tuple[str, str], PortCounters] = {}
        wanted: dict[str, list[str]] = {}
        for index in self._counted:
            port = self._link.ends[index].endpoint.interface.port
            wanted.setdefault(port.switch, []).append(port.port)
        for name, ports in wanted.items():
            found |= {(name, p): c for p, c in self._link.switches[name].counters(ports).items()}
        ports_of = [self._link.ends[index].endpoint.interface.port for index in self._counted]
        return [found[port.switch, port.port] for port in ports_of]

    def accept_carriers(self) -> None:
        """Take the links' carriers as they are now: somebody took one down on purpose."""
        self._crossing.accept_carriers()

    @property
    def carrier_changes(self) -> list[int | None]:
        """How often the carrier of each end had changed when it was last taken as it is; None where nobody counts."""
        return [state.carrier_changes for state in self._crossing.before]

    def rebase(self) -> None:
        """Count from here: what was before was told, and its counters may have begun anew."""
        self._crossing.rebase()
        if self._counted:
            self._before = self._after = settled(self._read, self._latency_s, _wait)

    def check(self, flows: Sequence[MeasuredFlow], traffic: Traffic) -> None:
        """Raises TrafficError when a link went down, InvalidMeasurement when counters and payload disagree."""
        moved, sent = self._moved(flows), self._moved(flows, max(1, math.ceil(traffic.streams / IN_FLIGHT_STREAMS)))
        self._crossing.check(moved, Deadline(COUNTER_TIMEOUT_S).wait_until)
        if not self._counted:
            return
        path = self._link.path
        headers = IPV4_UDP_HEADERS if traffic.udp else IPV4_TCP_HEADERS + TIMESTAMP_OPTION * path.timestamps
        segment = traffic.packet_bytes(path.mtu - headers) or path.mtu
        cables = [
            Cable(str(end.endpoint), f"port {end.endpoint.interface.port}", moved[i], sent[i])
            for i, end in ((i, self._link.ends[i]) for i in self._counted)
        ]
        self._after = check_octets(
            cables,
            self._before,
            self._read,
            factor(path.mtu, headers, segment),
            self._latency_s,
            _wait,
        )

    def _moved(self, flows: Sequence[MeasuredFlow], sent: int = 0) -> list[Moved]:
        """Payload through each end: what was received, or with ``sent`` what the senders sent, where it is known.

        What was on its way in the end is at most ``sent`` times IN_FLIGHT_BYTES of each TCP flow. Counters know no
        scale, so this is what moved indeed.
        """
        totals = [Moved(0, 0) for _ in self._link.ends]
        for measured in flows:
            told = measured.flow.received_bytes + measured.flow.head_bytes
            received = round(told * self._link.scale)
            payload = received
            if sent and measured.flow.sent_bytes is not None:
                on_its_way = max(0, round(measured.flow.sent_bytes * self._link.scale) - received)
                # What UDP sent it sent; what TCP was given may never have left the socket.
                payload += on_its_way if measured.flow.packets is not None else min(on_its_way, sent * IN_FLIGHT_BYTES)
            crossed = self._link.crossed(measured.sender, measured.receiver)
            for position, end in enumerate(crossed):
                old = totals[end]
                if position % 2 == 0:
                    totals[end] = replace(old, sent=old.sent + payload)
                else:
                    totals[end] = replace(old, received=old.received + payload)
        return totals

    def records(self) -> list[CableRecord]:
        """What each side of each cable counted between the two looks."""
        ports = dict(zip(self._counted, zip(self._before, self._after, strict=True), strict=True))
        found: list[CableRecord] = []
        for index, end in enumerate(self._link.ends):
            old, new = self._crossing.before[index], self._crossing.after[index]
            received, sent = new.bytes_since(old)
            losses = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
            lost = {name: _difference(getattr(old, name), getattr(new, name)) for name in losses}
            record: CableRecord = {
                "end": str(end.endpoint),
                "port": str(end.endpoint.interface.port),
                "node": {"rx_bytes": received, "tx_bytes": sent, **lost},
                "switch": None,
            }
            if index in ports:
                before, after = ports[index]
                names = ("rx_octets", "tx_octets", "rx_errors", "tx_errors", "rx_discards", "tx_discards")
                record["switch"] = {n: _difference(getattr(before, n), getattr(after, n)) for n in names}
            found.append(record)
        return found

    def raw(self) -> dict[str, str]:
        """What the switches told before and after, by file name: the number of the end, and the source."""
        found = {}
        for index, old, new in zip(self._counted, self._before, self._after, strict=True):
            port = self._link.ends[index].endpoint.interface.port
            lines = [f"# port {port}: before the traffic, and after it (- where it does not count that)"]
            for name, value in asdict(old).items():
                told = ["-" if count is None else str(count) for count in (value, getattr(new, name))]
                lines.append(f"{name}: {told[0]} {told[1]}")
            found[f"{index}-switch.txt"] = "\n".join([*lines, ""])
        return found


def _switch(link: Link, end: End) -> ManagedSwitch:
    return link.switches[end.endpoint.interface.port.switch]


def _difference(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None else new - old


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    return Deadline(seconds).wait_until(condition, interval_s=0.1)
