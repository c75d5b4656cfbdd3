"""Traffic in the background of a measurement: iperf3 between the first two ends, from before it until after it.

The receiver prints its goodput each second. So the traffic needs no planned end, and its goodput is that of the time
of the measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from statistics import fmean

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import last_line
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.exchange import Exchange, exchanging

# The traffic ends by itself after this time, even if the runner hangs.
AT_MOST_S = 6 * 3600
BEGIN_TIMEOUT_S = 10.0
RAW = "background.txt"
# A line of the receiver: "[  5]   1.00-2.00   sec  11.2 MBytes  94371 Kbits/sec"; several streams have sums.
_RATE = re.compile(r"^\[ *(SUM|\d+)\] +[\d.]+-[\d.]+ +sec +\S+ \S+ +([\d.]+) Kbits/sec", re.MULTILINE)


@contextmanager
def background(link: Link, traffic: Traffic | None, raw: MutableMapping[str, str]) -> Iterator[list[str]]:
    """Run this traffic until the block ends, and yield a list that then has a note with its goodput.

    ``raw`` gets the output. Raises TrafficError if the traffic does not begin, and InvalidMeasurement if it ended
    before the block.
    """
    notes: list[str] = []
    if traffic is None:
        yield notes
        return
    sent = replace(traffic, bitrate=None if traffic.bitrate is None else Bitrate(traffic.bitrate.bps * link.scale))
    flows = [_Flow(link, sent, way) for way in traffic.direction.parts]
    try:
        with ExitStack() as stack:
            for flow in flows:
                flow.start(stack)
            yield notes
            for flow in flows:
                flow.require_alive()
    finally:
        raw[RAW] = "".join(f"# {flow.way}\n{flow.text}" for flow in flows)
    rates = [f"{flow.way} {Bitrate(flow.goodput_bps / link.scale)}" for flow in flows]
    notes.append(f"in the background ran {traffic.key}: {', '.join(rates)}")


class _Flow:
    """One direction of the traffic. The client runs at the receiver."""

    def __init__(self, link: Link, traffic: Traffic, way: Direction) -> None:
        dut, peer = link.ends[0], link.ends[1]
        self._sender, self._receiver = (dut, peer) if way is Direction.TX else (peer, dut)
        self._traffic = traffic.towards(way)
        self._exchange: Exchange | None = None
        self.way = way

    def start(self, stack: ExitStack) -> None:
        """Start the traffic, and wait until the first interval is complete. ``stack`` ends it."""
        server, client = (tool_of_end(end, "iperf3") for end in (self._sender, self._receiver))
        self._exchange = found = stack.enter_context(exchanging(server, client, self._commands, AT_MOST_S))
        seen: list[str] = []

        def has_begun() -> bool:
            seen.extend(found.client.lines())
            self.require_alive()
            return any(map(_RATE.search, seen))

        if not Deadline(BEGIN_TIMEOUT_S).wait_until(has_begun):
            raise TrafficError(
                f"the background traffic from {self._sender} to {self._receiver} did not begin within "
                f"{BEGIN_TIMEOUT_S:.0f} s",
                f"look at the load of {self._sender.shell.name} and {self._receiver.shell.name}",
            )

    def _commands(self, port: int) -> tuple[list[str], list[str]]:
        traffic, server = self._traffic, self._sender.ip
        ask = ["iperf3", "-c", server, "-B", self._receiver.ip, "-p", str(port), "-R", "-P", str(traffic.streams)]
        # Text that appears at once, a line each second, in a fixed unit.
        ask += ["-t", str(AT_MOST_S), "-i", "1", "-f", "k", "--forceflush"]
        ask += ["-u"] if traffic.udp else []
        ask += ["-b", f"{traffic.bitrate.bps:.0f}"] if traffic.bitrate is not None else []
        return ["iperf3", "-s", "-1", "-p", str(port), "-B", server], ask

    def require_alive(self) -> None:
        """Raise InvalidMeasurement if the traffic has ended."""
        assert self._exchange is not None
        if self._exchange.client.poll() is not None:
            done = self._exchange.client.stop()
            raise InvalidMeasurement(
                f"the background traffic from {self._sender} to {self._receiver} ended before the measurement: "
                f"{last_line(done.stderr, done.stdout) or f'exit {done.returncode}'}",
                "look at the link, and at what ended iperf3",
            )

    @property
    def text(self) -> str:
        """All output, after the end; empty if the traffic did not begin."""
        return "" if self._exchange is None else self._exchange.text

    @property
    def goodput_bps(self) -> float:
        """The mean of all intervals at the receiver."""
        assert self._exchange is not None
        found = _RATE.findall(self._exchange.done.stdout)
        sums = [rate for name, rate in found if name == "SUM"]
        # The first interval ended before the measurement began.
        rates = sums or [rate for _, rate in found]
        return 1e3 * fmean(map(float, rates[1:] or rates)) if rates else 0.0
