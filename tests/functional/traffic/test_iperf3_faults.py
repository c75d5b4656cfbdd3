"""Traffic over a shaped cable that is unplugged, and ends that die: events and evidence, but no value.

The cable is slow, so that even a busy machine fills it.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from pytest_pinet.errors import LabError, TrafficError
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.judge.preconditions import socket_trouble
from pytest_pinet.model.measurement import EventKind, Measurement
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.shaped_link import NodeShell, ShapedLink, shaped_link

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

# TCP goodput on it: 1448 of 1538 bytes.
WIRE_MBPS = 20
GOODPUT_MBPS = 0.94 * WIRE_MBPS
RATES = re.compile(r"(received|sent) \(Mbit/s\) from 0\.0 s on, every 0\.1 s: ([\d. ]+)")


@pytest.fixture
def link() -> Iterator[ShapedLink]:
    with shaped_link(f"{WIRE_MBPS}mbit") as link:
        yield link


def measure(link: ShapedLink, traffic: Traffic, on_progress: Callable[[float], None] | None = None) -> Measurement:
    addresses = link.dut_address, link.peer_address
    job = TrafficJob(link.dut, link.peer, *addresses, traffic, on_progress=on_progress)
    return Iperf3(grace_s=2.0).measure(job)


def tx(duration_s: float = 2.0) -> Traffic:
    return Traffic(Direction.TX, duration_s=duration_s, warmup_s=None)


def once(after_s: float, act: Callable[[], None]) -> Callable[[float], None]:
    """Return a progress callback that acts once."""
    done: list[float] = []

    def tell(elapsed_s: float) -> None:
        if elapsed_s >= after_s and not done:
            done.append(elapsed_s)
            act()

    return tell


def iperf3_of(shell: NodeShell) -> int:
    """Return the iperf3 process in this end's namespace."""
    inode = os.stat(f"/run/netns/{shell.namespace}").st_ino  # noqa: PTH116
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text() == "iperf3\n" and (folder / "ns/net").stat().st_ino == inode:
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"no iperf3 runs on {shell.name}")


def test_a_link_gives_its_rate_and_the_warmup_is_part_of_the_traffic(link: ShapedLink) -> None:
    # iperf3 3.16 and later counts whole writes. At this rate, one of 128 KiB takes 50 ms: too coarse to see the start.
    flow = measure(link, replace(tx(), length=8192)).flows[Direction.TX]
    # A busy machine carries less, but never more.
    assert 0.6 * GOODPUT_MBPS < flow.goodput.bps / 1e6 < 1.1 * GOODPUT_MBPS
    assert 0 < sum(s.seconds for s in flow.samples if s.warmup) < sum(s.seconds for s in flow.samples) / 2
    assert len(flow.samples) >= 15


def test_a_link_that_dropped_is_an_event_with_its_time_and_length(link: ShapedLink) -> None:
    moments: list[float] = []

    def carrier(up: bool) -> None:
        moments.append(time.monotonic())
        link.carrier(up)
        moments.append(time.monotonic())

    plug_in = threading.Timer(1.5, carrier, (True,))

    def pull() -> None:
        carrier(False)
        plug_in.start()

    with Observer(link.dut, "eth0", "sw1/p5", 8) as observer:
        started = time.monotonic()
        flow = measure(link, tx(6), once(1.5, pull)).flows[Direction.TX]
        plug_in.join()
        (drop,) = observer.events(started)
    pulled_s, _, _, back_s = (moment - started for moment in moments)
    assert drop.kind is EventKind.LINK_DOWN
    assert 0.5 * (back_s - pulled_s) < drop.seconds < 1.5 * (back_s - pulled_s)
    assert pulled_s - 0.5 < drop.start_s < back_s
    assert re.fullmatch(r"link dropped for \d\.\d s at \d\d:\d\d:\d\d, sw1/p5", drop.text)
    # Traffic stalled at the same time. A busy machine may have additional shorter stalls.
    stall = max((event for event in flow.events if event.kind is EventKind.STALL), key=lambda event: event.seconds)
    # TCP retries at growing intervals, so traffic may stall for longer than the link.
    assert stall.seconds > 0.5 * (back_s - pulled_s)
    assert pulled_s - 1 < stall.start_s < back_s


def test_a_link_lost_for_good_gives_an_error_with_the_intervals_so_far(link: ShapedLink) -> None:
    with pytest.raises(TrafficError) as caught:
        measure(link, tx(2), once(0.9, lambda: link.carrier(False)))
    assert partial_of(caught.value, "received")[0] > 0


def partial_of(error: LabError, verb: str) -> list[float]:
    """Return the rates in the evidence."""
    text = error.evidence if isinstance(error, TrafficError) else "".join(getattr(error, "__notes__", []))
    found = [rates for word, rates in RATES.findall(text) if word == verb]
    assert found, text
    return [float(rate) for rate in found[0].split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("role", ["dut", "peer"])
def test_a_killed_end_gives_an_error_with_the_intervals_so_far(
    link: ShapedLink, role: str, number: signal.Signals
) -> None:
    shell: NodeShell = getattr(link, role)
    with pytest.raises(TrafficError) as caught:
        measure(link, tx(5), once(1.0, lambda: os.kill(iperf3_of(shell), number)))
    # The device under test sends. The data of the killed process is lost; the other end reports its side.
    killed, other = ("sent", "received") if role == "dut" else ("received", "sent")
    rates = partial_of(caught.value, other if number is signal.SIGKILL else killed)
    # One of five seconds, in steps of a tenth of a second.
    assert 5 <= len(rates) <= 40
    # The first step fills buffers. The last one ends with the process: a block in its only millisecond is 1 Gbit/s.
    assert median(rates) == pytest.approx(GOODPUT_MBPS, rel=0.4)


@pytest.mark.parametrize("role", ["dut", "peer"])
def test_a_frozen_end_gives_an_error_with_the_intervals_so_far(link: ShapedLink, role: str) -> None:
    shell: NodeShell = getattr(link, role)
    with pytest.raises(TrafficError, match=r"iperf3 still runs|ended during the traffic") as caught:
        measure(link, tx(2), once(1.0, lambda: os.kill(iperf3_of(shell), signal.SIGSTOP)))
    assert len(partial_of(caught.value, "received")) >= 5


def test_the_kernel_tells_the_mss_and_a_small_one_is_noticed(link: ShapedLink) -> None:
    flow = measure(link, Traffic(Direction.TX, duration_s=1, warmup_s=0, mss=1000)).flows[Direction.TX]
    assert flow.sockets is not None
    assert flow.sockets.mss == 988
    assert socket_trouble(flow.sockets, 1500, timestamps=True, mss=1000) == []
    (trouble,) = socket_trouble(flow.sockets, 1500, timestamps=True)
    assert trouble.text == "segments carried 988 bytes, though MTU 1500 allows 1448"
    assert flow.sockets.rtt_s is not None
    # On the same connection, but at other times.
    assert flow.rtt_s is not None
    assert 0.1 < flow.rtt_s / flow.sockets.rtt_s < 10
