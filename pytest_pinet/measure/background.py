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
from pytest_pinet.execution.shell import Completed, Process, last_line
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.processes import (
    LISTENING,
    PORTS,
    PortTaken,
    await_listening,
    guarded,
    is_listening,
    on_a_free_port,
    running,
)

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
        self._client: Process | None = None
        self.way = way
        self.text = ""

    def start(self, stack: ExitStack) -> None:
        """Start the traffic, and wait until the first interval is complete. ``stack`` ends it."""
        on_a_free_port(PORTS, self._sender.shell, lambda port: self._start(port, stack))

    def _start(self, port: int, stack: ExitStack) -> None:
        traffic, server, client = self._traffic, self._sender, self._receiver
        wait = f"while kill -0 $p 2>/dev/null && ! {is_listening(port)}; do sleep 0.02; done; echo '{LISTENING}'; "
        serve = ["iperf3", "-s", "-1", "-p", str(port), "-B", server.ip]
        serving = stack.enter_context(running(server.shell, guarded(serve, "", 0, wait), "iperf3", lambda _: None))
        if not await_listening(serving, server.shell, "iperf3", port):
            raise PortTaken
        ask = ["iperf3", "-c", server.ip, "-B", client.ip, "-p", str(port), "-R", "-P", str(traffic.streams)]
        # Text that appears at once, a line each second, in a fixed unit.
        ask += ["-t", str(AT_MOST_S), "-i", "1", "-f", "k", "--forceflush"]
        ask += ["-u"] if traffic.udp else []
        ask += ["-b", f"{traffic.bitrate.bps:.0f}"] if traffic.bitrate is not None else []
        self._client = stack.enter_context(running(client.shell, guarded(ask, "", 0), "iperf3", self._keep))
        if not Deadline(BEGIN_TIMEOUT_S).wait_until(self._has_begun):
            raise TrafficError(
                f"the background traffic from {self._sender} to {self._receiver} did not begin within "
                f"{BEGIN_TIMEOUT_S:.0f} s",
                f"look at the load of {self._sender.shell.name} and {self._receiver.shell.name}",
            )

    def _has_begun(self) -> bool:
        assert self._client is not None
        self.text += "".join(f"{line}\n" for line in self._client.lines())
        self.require_alive()
        return bool(_RATE.search(self.text))

    def require_alive(self) -> None:
        """Raise InvalidMeasurement if the traffic has ended."""
        client = self._client
        if client is not None and client.poll() is not None:
            done = client.stop()
            raise InvalidMeasurement(
                f"the background traffic from {self._sender} to {self._receiver} ended before the measurement: "
                f"{last_line(done.stderr, done.stdout) or f'exit {done.returncode}'}",
                "look at the link, and at what ended iperf3",
            )

    def _keep(self, done: Completed) -> None:
        self.text = done.stdout + done.stderr

    @property
    def goodput_bps(self) -> float:
        """The mean of all intervals at the receiver."""
        found = _RATE.findall(self.text)
        sums = [rate for name, rate in found if name == "SUM"]
        # The first interval ended before the measurement began.
        rates = sums or [rate for _, rate in found]
        return 1e3 * fmean(map(float, rates[1:] or rates)) if rates else 0.0
