"""Packets: how many small datagrams cross the link for each second, and what limits them, by the counters of both ends.

iperf3 only sends. The value comes from the kernel's counters of the device under test, and both ends are counted in the
same window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.evidence.node_state import busy_share, times_of_cpus
from pytest_pinet.execution.shell import last_line
from pytest_pinet.execution.undo import at_once
from pytest_pinet.judge.oracle import udp_headers
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import USUAL_S, Probe
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.model.figures import PACKETS, Sample
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic.exchange import exchanging
from pytest_pinet.traffic.processes import LIFETIME_S
from pytest_pinet.traffic.tool import LARGEST_DATAGRAM, Watch, check_whole

LEAST_SIZE = 18
# Before the window, the flow has to start.
START_S = 2
# On the wire beside IP: Ethernet with its checksum, preamble and gap.
BESIDE_IP = 18 + 20
LEAST_FRAME = 64 + 20
# So near to the wire, the wire limits. If fewer of the sent packets arrive, the receiver limits.
AT_WIRE, ARRIVES = 0.95, 0.98
# A core that is busier has no time to send more.
BUSY = 0.95
_COUNTERS = ("tx_packets", "rx_packets", "rx_missed_errors", "rx_dropped")


@dataclass(frozen=True)
class Counts:
    """What one end counted: each second, except ``busiest``, the largest share of time that a CPU was not idle."""

    sent: float
    received: float
    dropped: float
    unread: float
    busiest: float


@dataclass(frozen=True)
class Packets(Probe):
    """Datagrams of ``size`` bytes, as many as the sender can send. ``direction`` is tx or rx."""

    direction: Direction = Direction.TX
    seconds: int = USUAL_S
    size: int = 64

    figures: ClassVar = (PACKETS,)

    def __post_init__(self) -> None:
        check_whole("duration", self.seconds, 1, 3600)
        check_whole("size", self.size, LEAST_SIZE, LARGEST_DATAGRAM[self.setup.family])
        if self.direction is Direction.BIDIR:
            raise ConfigError("direction='bidir': packets are counted in one direction; expected 'tx' or 'rx'")

    @property
    def name(self) -> str:
        return f"packets-iperf3-{self.direction}-s{self.size}"

    def once(self, link: Link, watch: Watch | None) -> Sample:
        sends, receives = (link.dut, link.peer) if self.direction is Direction.TX else (link.peer, link.dut)
        client, server = tool_of_end(sends, "iperf3"), tool_of_end(receives, "iperf3")
        lasts_s = START_S + self.seconds + round(LIFETIME_S)

        def commands(port: int) -> tuple[list[str], list[str]]:
            ask = ["iperf3", "-c", receives.ip, "-p", str(port), "-u", "-b", "0", "-l", str(self.size)]
            return ["iperf3", "-s", "-1", "-B", receives.ip, "-p", str(port)], [*ask, "-t", str(lasts_s)]

        with exchanging(server, client, commands, lasts_s) as found:
            sent, received = at_once(lambda end: _count(end, START_S, self.seconds), (sends, receives))
            if found.client.poll() is not None:
                raise TrafficError(
                    f"iperf3 on {client.shell.name} ended while packets were counted",
                    f"look at iperf3 of {client.shell.name}, and at the firewall of the link",
                )
        own = sent.sent if self.direction is Direction.TX else received.received
        limit, text = self.limited_by(sent, received, self._wire(link))
        excluded = "" if self.is_own(limit) else text
        notes = () if excluded else (text,)
        raw = f"{sent}\n{received}\n{text}\n{found.text}"
        return Sample({PACKETS.name: own}, raw, excluded, notes, tool=client.version)

    def _wire(self, link: Link) -> float:
        """Return how many of these packets the wire carries in a second."""
        octets = self.size + udp_headers(self.setup.family) + BESIDE_IP
        return link.path.speed_mbps * 1e6 * link.scale / 8 / max(octets, LEAST_FRAME)

    def is_own(self, limit: str) -> bool:
        """Return whether the value is that of the device under test or of the wire.

        What it sends is its own. What it receives is that of its peer if all arrives, also if no program reads it.
        """
        return self.direction is Direction.TX or limit in ("wire", "receiver")

    def limited_by(self, sent: Counts, received: Counts, wire: float) -> tuple[str, str]:
        """Return what limits, ``wire``, ``receiver``, ``program``, ``sender`` or nothing, and a sentence."""
        if received.received >= AT_WIRE * wire:
            return "wire", f"the wire limits: it carries {wire:.0f} packets of this size for each second"
        if received.received < ARRIVES * sent.sent or received.dropped > (1 - ARRIVES) * sent.sent:
            lost = max(1 - received.received / sent.sent, 0.0) if sent.sent else 0.0
            return (
                "receiver",
                f"the receiving NIC or driver limits: {lost * 100:.1f} % of the packets did not arrive",
            )
        if sent.busiest >= BUSY:
            return "sender", f"the sender limits: one of its CPUs was busy {sent.busiest * 100:.0f} % of the time"
        if received.unread > (1 - ARRIVES) * received.received:
            left = received.unread / max(received.received, 1.0)
            return "program", f"the receiving program limits: it did not read {left * 100:.1f} % of what arrived"
        return "", "perhaps the sender limits: all packets arrived, and none of its CPUs was busy all the time"


def _count(end: End, after_s: int, seconds: int) -> Counts:
    """Count at one end in a window that begins ``after_s`` from now. Raises TrafficError."""
    files = " ".join(f"/sys/class/net/{end.device}/statistics/{name}" for name in _COUNTERS)
    read = (
        f"read -r up x </proc/uptime && echo $up && cat {files} && "
        "while read -r a b c d e; do echo softnet $b; done </proc/net/softnet_stat && "
        "grep '^Udp: [0-9]' /proc/net/snmp && grep '^cpu[0-9]' /proc/stat && echo end"
    )
    done = end.shell.run(f"r() {{ {read}; }}; sleep {after_s}; r; sleep {seconds}; r", after_s + seconds + LIFETIME_S)
    both = [part.split("\n") for part in done.stdout.split("\nend\n") if part.strip()]
    if done.returncode or len(both) != 2:
        why = last_line(done.stderr, done.stdout)
        raise TrafficError(f"the counters of {end} could not be read: {why}", f"look at {end.shell.name}")
    return _rates(*(_read(lines) for lines in both))


# The uptime, the sums of packets as in ``Counts``, and the ticks of each CPU.
_Reading = tuple[float, tuple[int, int, int, int], dict[int, list[int]]]


def _read(lines: list[str]) -> _Reading:
    sent, received, missed, dropped = (int(line) for line in lines[1:5])
    words = [line.split() for line in lines[5:]]
    softnet = sum(int(own[1], 16) for own in words if own[0] == "softnet")
    # The fifth number of UDP is RcvbufErrors.
    unread = next(int(own[5]) for own in words if own[0] == "Udp:")
    return float(lines[0]), (sent, received, missed + dropped + softnet, unread), times_of_cpus(lines)


def _rates(before: _Reading, after: _Reading) -> Counts:
    seconds = max(after[0] - before[0], 0.01)
    sent, received, dropped, unread = ((new - old) / seconds for old, new in zip(before[1], after[1], strict=True))
    busy = [busy_share(ticks, after[2][cpu]) or 0.0 for cpu, ticks in before[2].items()]
    return Counts(sent, received, dropped, unread, max(busy, default=0.0))
