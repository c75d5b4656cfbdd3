"""Latency: round trips of probes at a fixed rate, on an idle link or beside other traffic."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Process, Shell
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.model.figures import LATE, P50, P90, P99, Figure, Sample
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic import sockperf
from pytest_pinet.traffic.exchange import exchange
from pytest_pinet.traffic.processes import CONNECT_TIMEOUT_S, POLL_S
from pytest_pinet.traffic.tool import LARGEST_DATAGRAM, Watch, check_whole

RATES = (10, 100_000)
# With fewer probes than this share, the sender paused, and a pause hides late answers.
LEAST_SENT = 0.8
# The load begins before the probes, and would last for so long after them: it is stopped.
LOAD_AFTER_S = 30
LOAD_ENDED = "the load ended before the probes"
# The load shows its first second, plus time to start.
FLOW_S = 5.0
_FLOWS = re.compile(r"sec .* [1-9][\d.]* [KMG]?Bytes ")


@dataclass(frozen=True)
class Latency(Probe):
    """Probes of ``size`` bytes over UDP, ``rate`` each second, from the device under test to its peer and back.

    ``after_s``: a later answer is late, a lost one is late, too; None counts no late ones. ``load`` is the direction of
    a TCP stream beside the probes; None is an idle link.
    """

    seconds: int = 5
    size: int = 64
    rate: int = 1000
    after_s: float | None = None
    load: Direction | None = None

    def __post_init__(self) -> None:
        check_whole("duration", self.seconds, 1, 3600)
        check_whole("size", self.size, 14, LARGEST_DATAGRAM[self.setup.family])
        check_whole("rate", self.rate, *RATES)
        if self.after_s is not None and self.after_s <= 0:
            raise ConfigError("after=0: expected a duration such as '2 ms', longer than 0 s")

    @property
    def name(self) -> str:
        after = "" if self.after_s is None else f"-a{self.after_s * 1e3:g}ms"
        load = "" if self.load is None else f"-load-{self.load}"
        return f"latency-sockperf-s{self.size}-r{self.rate}{after}{load}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (P50, P90, P99) if self.after_s is None else (P50, P90, P99, LATE)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure once. Raises LabError."""
        if self.load is None:
            return self._probe(link, watch)
        client, server = (tool_of_end(end, "iperf3") for end in (link.dut, link.peer))
        lasts_s = self.seconds + LOAD_AFTER_S
        ways = {Direction.TX: [], Direction.RX: ["-R"], Direction.BIDIR: ["--bidir"]}[self.load]
        found: list[Sample] = []

        def probes(load: Process) -> None:
            _await_flow(load, client.shell)
            sample = self._probe(link, watch)
            found.append(replace(sample, excluded=sample.excluded if load.poll() is None else LOAD_ENDED))

        _, load_text = exchange(
            server,
            client,
            lambda port: (
                ["iperf3", "-s", "-1", "-B", link.peer.ip, "-p", str(port)],
                ["iperf3", "-c", link.peer.ip, "-p", str(port), "-t", str(lasts_s), "-i", "1", "--forceflush", *ways],
            ),
            lasts_s,
            watch,
            during=probes,
        )
        return replace(found[-1], raw=f"{found[-1].raw}\n{load_text}")

    def _probe(self, link: Link, watch: Watch | None) -> Sample:
        client, server = (tool_of_end(end, "sockperf") for end in (link.dut, link.peer))
        own, address = link.dut.ip, link.peer.ip
        trips, raw = sockperf.ask(
            server,
            client,
            lambda port: (
                sockperf.server_argv(address, port, udp=True),
                sockperf.under_load_argv(own, address, port, self.seconds, self.size, self.rate),
            ),
            self.seconds,
            watch,
            True,
            sockperf.trips,
            self.setup.family,
        )
        excluded = ""
        if trips.sent < LEAST_SENT * self.rate * trips.seconds:
            each = trips.sent / trips.seconds
            excluded = f"the sender limits: it sent {each:.0f} of {self.rate} probes for each second"
        return Sample(self.values(trips), raw, excluded, tool=client.version)

    def values(self, trips: sockperf.Trips) -> dict[str, float]:
        """Return the percentiles (s) and the share of late probes. A lost probe is later than all others."""
        lost = max(trips.sent - len(trips.rtts), 0)
        ranked = sorted(trips.rtts) + [max(self.seconds, *trips.rtts)] * lost
        shares = {P50: 0.5, P90: 0.9, P99: 0.99}
        found = {one.name: ranked[math.ceil(share * len(ranked)) - 1] for one, share in shares.items()}
        if self.after_s is not None:
            late = lost + sum(rtt > self.after_s for rtt in trips.rtts)
            found[LATE.name] = late / len(ranked)
        return found


def _await_flow(load: Process, client: Shell) -> None:
    """Wait until a stream of iperf3 has carried data. Raises TrafficError."""
    seen: list[str] = []

    def flows() -> bool:
        seen.extend(load.lines())
        return load.poll() is not None or any(_FLOWS.search(line) for line in seen)

    if not Deadline(CONNECT_TIMEOUT_S + FLOW_S).wait_until(flows, POLL_S) or load.poll() is not None:
        raise TrafficError(
            f"the load of iperf3 from {client.name} did not begin: {seen[-1] if seen else 'it printed nothing'}",
            f"look at iperf3 of {client.name}, and at the firewall of the link",
        )
