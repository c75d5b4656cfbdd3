"""Compares the counters of NICs and switch ports, and counts our own connections to the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from pytest_pinet.evidence.collecting import LooksDuring
from pytest_pinet.evidence.interface import CountedDevice, Crossing, Moved
from pytest_pinet.evidence.octet_check import CableEnd, check_octets, factor, settled
from pytest_pinet.evidence.sockets import COMMAND, ManagementReading, parse_octets, read_octets
from pytest_pinet.judge.oracle import PacketSizes
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.lab.switch.switchport import Capability
from pytest_pinet.model.connection import MeasuredFlow
from pytest_pinet.model.evidence import ManagementTraffic, PortCounters
from pytest_pinet.model.record.result import CableRecord
from pytest_pinet.model.traffic import Traffic

# The second reading is this long before the end of the traffic: then the tools send their reports, which is no traffic
# beside the measured traffic.
BEFORE_END_S = 1.0


class ManagementCounter:
    """Reads the octets at the affected ends before the traffic of a connection, and once near its end.

    The second reading is a command during the traffic. If an end has a virtual clock, each command during the traffic
    costs it instructions; the traffic tool then reads at the end of the traffic, before reports travel.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._ends = {index: end for index, end in enumerate(link.ends) if end.carries_management}
        self._by_tool = bool(link.virtual_ends)
        self._before: dict[int, ManagementReading | None] = {}
        self._late: dict[int, ManagementReading | None] = {}
        self._looks = LooksDuring([partial(self._read, self._late, index) for index in self._ends])
        self._printed: dict[int, list[str]] = {}
        self._counted: set[int] = set()

    def before(self) -> None:
        """Read right before the traffic of a connection."""
        self._late.clear()
        for index in self._ends:
            self._read(self._before, index)

    @property
    def at_end(self) -> Mapping[str, str]:
        """The words with which the traffic tool reads at the end of the traffic, by the name of the shell."""
        return {end.shell.name: COMMAND for end in self._ends.values()} if self._by_tool else {}

    def watching(self, watch: Callable[[], None] | None, traffic_s: float) -> Callable[[], None] | None:
        """Return a function to call repeatedly during the traffic; it calls ``watch``, and reads once."""
        if not self._ends or self._by_tool:
            return watch
        return self._looks.watching(watch, max(traffic_s / 2, traffic_s - BEFORE_END_S))

    def after(
        self, flows: Sequence[MeasuredFlow], printed: Mapping[str, str] | None = None
    ) -> dict[int, ManagementTraffic]:
        """Return what was counted at each end; nothing for an end that could not be read.

        ``printed`` is what the tool read at the end of the traffic, by the name of the shell.
        """
        self._looks.join()
        for index, end in self._ends.items():
            if (text := (printed or {}).get(end.shell.name)) is not None:
                self._add(self._late, index, text)
        found = {}
        for index in self._ends:
            old, new = self._before.get(index), self._late.get(index)
            if old is None or new is None or new.uptime_s <= old.uptime_s:
                continue
            seconds, octets = new.uptime_s - old.uptime_s, new.octets_since(old)
            moved = self._traffic_bps(index, flows)
            share = octets * 8 / seconds / moved if moved else None
            found[index] = ManagementTraffic(octets, seconds, share)
        self._counted |= found.keys()
        return found

    def _traffic_bps(self, index: int, flows: Sequence[MeasuredFlow]) -> float:
        """Return the rate of the flows through an end, in both directions. Values are converted to full rate."""
        rates = [
            flow.flow.goodput.bps * self._link.scale
            for flow in flows
            if index in self._link.facts.crossed(flow.sender, flow.receiver)
        ]
        return sum(rates)

    def _read(self, readings: dict[int, ManagementReading | None], index: int) -> None:
        self._add(readings, index, read_octets(self._ends[index].shell))

    def _add(self, readings: dict[int, ManagementReading | None], index: int, text: str) -> None:
        self._printed.setdefault(index, []).append(text)
        readings[index] = parse_octets(text)

    @property
    def uncounted(self) -> list[str]:
        """A note for each affected end that could not be counted."""
        late, never = "there was no second reading near the end of the traffic", "this needs ss of iproute2"
        return [
            f"ssh, or an NFS root, of {self._link.ends[index].endpoint} uses the interface under test, but its octets "
            f"were not counted ({late if any(map(parse_octets, texts)) else never})"
            for index, texts in self._printed.items()
            if index not in self._counted
        ]

    def raw(self) -> dict[str, str]:
        """Return all output of the nodes, by file name."""
        return {f"{index}-management.txt": "\n".join(texts) for index, texts in self._printed.items()}


# The most bytes that a TCP flow of up to IN_FLIGHT_STREAMS connections may have on the wire and in queues when its
# receiver stops. A receiver that is slower than its sender has a full window; Linux lets it grow to half of its
# tcp_rmem (6 MB).
IN_FLIGHT_BYTES = 3_200_000
IN_FLIGHT_STREAMS = 10


class CounterCheck:
    """Reads all counters on construction. ``check`` reads them again and compares them with the bytes of the flows."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._crossing = Crossing([CountedDevice(end.shell, end.device, str(end)) for end in link.ends])
        # Ends whose switch has counters.
        self._counted = [i for i, e in enumerate(link.ends) if Capability.COUNTERS in _switch(link, e).capabilities]
        self._latency_s = max((_switch(link, link.ends[i]).counter_latency_s for i in self._counted), default=0.0)
        self._before = settled(self._read, self._latency_s) if self._counted else []
        self._after = self._before

    def _read(self) -> list[PortCounters]:
        """Return the port counters of all counted ends, with one request per switch."""
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
        """Accept the current carrier states: a link was taken down on purpose."""
        self._crossing.accept_carriers()

    @property
    def carrier_changes(self) -> list[int | None]:
        """The carrier changes of each end when they were last accepted; None if the end does not count them."""
        return [state.carrier_changes for state in self._crossing.before]

    @property
    def duplexes(self) -> list[str | None]:
        """The duplex of each end at the latest reading; None if its driver does not report it."""
        return [state.duplex for state in self._crossing.after]

    def rebase(self) -> None:
        """Count from now on. Earlier events are already reported, and the counters may have restarted."""
        self._crossing.rebase()
        if self._counted:
            self._before = self._after = settled(self._read, self._latency_s)

    def check(self, flows: Sequence[MeasuredFlow], traffic: Traffic) -> None:
        """Compare counters with payload. Raises TrafficError after a lost link, InvalidMeasurement if they disagree."""
        moved, sent = self._moved(flows), self._moved(flows, max(1, math.ceil(traffic.streams / IN_FLIGHT_STREAMS)))
        self._crossing.check(moved)
        # Background traffic moves octets that no flow has.
        if not self._counted or traffic.setup.background is not None:
            return
        path = self._link.path
        headers = PacketSizes.of(path, traffic).headers
        segment = traffic.packet_bytes(path.mtu - headers) or path.mtu
        cables = [
            CableEnd(str(end.endpoint), f"port {end.endpoint.interface.port}", moved[i], sent[i])
            for i, end in ((i, self._link.ends[i]) for i in self._counted)
        ]
        wire_factor = factor(path.mtu, headers, segment)
        self._after = check_octets(cables, self._before, self._read, wire_factor, self._latency_s)

    def _moved(self, flows: Sequence[MeasuredFlow], sent: int = 0) -> list[Moved]:
        """Return the payload through each end: received bytes, or with ``sent`` the sent bytes if they are known.

        The bytes on their way at the end are at most ``sent`` times IN_FLIGHT_BYTES per TCP flow. Counters count real
        bytes, so the values are not converted to full rate.
        """
        totals = [Moved(0, 0) for _ in self._link.ends]
        for measured in flows:
            received = round((measured.flow.received_bytes + measured.flow.head_bytes) * self._link.scale)
            payload = received
            if sent and measured.flow.sent_bytes is not None:
                on_its_way = max(0, round(measured.flow.sent_bytes * self._link.scale) - received)
                # UDP really sent its bytes. Bytes handed to a TCP socket may never have left it.
                payload += on_its_way if measured.flow.packets is not None else min(on_its_way, sent * IN_FLIGHT_BYTES)
            crossed = self._link.facts.crossed(measured.sender, measured.receiver)
            for position, end in enumerate(crossed):
                old = totals[end]
                if position % 2 == 0:
                    totals[end] = replace(old, sent=old.sent + payload)
                else:
                    totals[end] = replace(old, received=old.received + payload)
        return totals

    def records(self) -> list[CableRecord]:
        """Return the differences of the counters at each side of each cable."""
        ports = dict(zip(self._counted, zip(self._before, self._after, strict=True), strict=True))
        found: list[CableRecord] = []
        for index, end in enumerate(self._link.ends):
            old, new = self._crossing.before[index], self._crossing.after[index]
            received, sent = new.bytes_since(old)
            losses = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
            lost = {name: _difference(getattr(old, name), getattr(new, name)) for name in losses}
            switch = None
            if index in ports:
                before, after = ports[index]
                names = ("rx_octets", "tx_octets", "rx_errors", "tx_errors", "rx_discards", "tx_discards")
                switch = {n: _difference(getattr(before, n), getattr(after, n)) for n in names}
            node = {"rx_bytes": received, "tx_bytes": sent, **lost}
            port = str(end.endpoint.interface.port)
            found.append(CableRecord(end=str(end.endpoint), port=port, node=node, switch=switch))
        return found

    def raw(self) -> dict[str, str]:
        """Return the switch counters before and after as text, by file name (number of the end, and source)."""
        found = {}
        for index, old, new in zip(self._counted, self._before, self._after, strict=True):
            port = self._link.ends[index].endpoint.interface.port
            lines = [f"# port {port}: before and after the traffic (-: the switch does not count this)"]
            for name, value in asdict(old).items():
                counts = ["-" if count is None else str(count) for count in (value, getattr(new, name))]
                lines.append(f"{name}: {' '.join(counts)}")
            found[f"{index}-switch.txt"] = "\n".join([*lines, ""])
        return found


def _switch(link: Link, end: End) -> ManagedSwitch:
    return link.switches[end.endpoint.interface.port.switch]


def _difference(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None else new - old
