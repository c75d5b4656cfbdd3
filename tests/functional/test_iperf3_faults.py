"""Traffic over a real shaped cable that is pulled, and ends that die: events and evidence, never a figure of them."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shaped_bench import NodeShell, ShapedLink, shaped_link

from pytest_pinet.errors import LabError, TrafficError
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.judge.preconditions import socket_trouble
from pytest_pinet.model.events import EventKind
from pytest_pinet.model.measurement import Flow, Measurement
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

RATES = re.compile(r"(received|sent) \(Mbit/s\) from 0\.0 s on, every 0\.1 s: ([\d. ]+)")


@pytest.fixture
def link() -> Iterator[ShapedLink]:
    with shaped_link("200mbit") as link:
        yield link


def measure(link: ShapedLink, traffic: Traffic, on_progress: Callable[[float], None] | None = None) -> Measurement:
    return Iperf3().measure(
        link.dut, link.peer, link.dut_address, link.peer_address, traffic, on_progress=on_progress, grace_s=2.0
    )


def tx(duration_s: float = 2.0) -> Traffic:
    return Traffic(Direction.TX, duration_s=duration_s, warmup_s=None)


def once(after_s: float, act: Callable[[], None]) -> Callable[[float], None]:
    """A progress callback that acts once."""
    done: list[float] = []

    def tell(elapsed_s: float) -> None:
        if elapsed_s >= after_s and not done:
            done.append(elapsed_s)
            act()

    return tell


def iperf3_of(shell: NodeShell) -> int:
    """The process of iperf3 in this end's namespace."""
    inode = os.stat(f"/run/netns/{shell.namespace}").st_ino  # noqa: PTH116
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text() == "iperf3\n" and (folder / "ns/net").stat().st_ino == inode:
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"no iperf3 runs on {shell.name}")


def counted_mbps(flow: Flow) -> list[float]:
    return [s.bps / 1e6 for s in flow.counted]


def test_a_quiet_link_has_no_events_and_a_short_warmup(link: ShapedLink) -> None:
    flow = measure(link, tx()).flows[Direction.TX]
    assert flow.events == ()
    assert sum(s.seconds for s in flow.samples if s.warmup) < 0.9
    assert flow.goodput.bps / 1e6 == pytest.approx(190, rel=0.03)
    assert len(flow.samples) >= 29


def test_a_link_that_dropped_is_an_event_with_its_time_and_length(link: ShapedLink) -> None:
    pulled: list[float] = []

    def pull() -> None:
        pulled.append(time.monotonic())
        link.carrier(False)
        threading.Timer(1.0, link.carrier, (True,)).start()

    with Observer(link.dut, "eth0", "sw1/p5", 8) as observer:
        started = time.monotonic()
        flow = measure(link, tx(6), once(1.5, pull)).flows[Direction.TX]
        (drop,) = observer.events(started)
    (stall,) = flow.events
    assert stall.kind is EventKind.STALL
    # TCP tries again at growing distances, so that it may stand still for longer than the link.
    assert 0.8 < stall.seconds < 3.5
    assert stall.start_s == pytest.approx(pulled[0] - started, abs=0.6)
    assert drop.kind is EventKind.LINK_DOWN
    assert drop.seconds == pytest.approx(1.0, abs=0.25)
    assert drop.start_s == pytest.approx(pulled[0] - started, abs=0.25)
    assert re.fullmatch(r"link dropped for [01]\.\d s at \d\d:\d\d:\d\d, sw1/p5", drop.text)


def test_a_link_that_is_lost_for_good_gives_no_figure_and_keeps_what_was_moved(link: ShapedLink) -> None:
    with pytest.raises(TrafficError) as caught:
        measure(link, tx(2), once(0.9, lambda: link.carrier(False)))
    assert partial_of(caught.value, "received")[0] > 0


def partial_of(error: LabError, verb: str) -> list[float]:
    """The rates that the evidence tells."""
    text = error.evidence if isinstance(error, TrafficError) else "".join(getattr(error, "__notes__", []))
    found = [rates for word, rates in RATES.findall(text) if word == verb]
    assert found, text
    return [float(rate) for rate in found[0].split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("role", ["dut", "peer"])
def test_an_end_that_is_killed_gives_no_figure_and_keeps_what_was_moved(
    link: ShapedLink, role: str, number: signal.Signals
) -> None:
    shell: NodeShell = getattr(link, role)
    with pytest.raises(TrafficError) as caught:
        measure(link, tx(5), once(1.0, lambda: os.kill(iperf3_of(shell), number)))
    # The device under test sends: what a killed process knew is gone, and the other end tells its side.
    killed, other = ("sent", "received") if role == "dut" else ("received", "sent")
    rates = partial_of(caught.value, other if number is signal.SIGKILL else killed)
    assert 8 <= len(rates) <= 30
    assert sum(rates[2:8]) / 6 == pytest.approx(190, rel=0.2)


@pytest.mark.parametrize("role", ["dut", "peer"])
def test_an_end_that_is_frozen_gives_no_figure_and_keeps_what_was_moved(link: ShapedLink, role: str) -> None:
    shell: NodeShell = getattr(link, role)
    with pytest.raises(TrafficError, match=r"iperf3 still runs|went away") as caught:
        measure(link, tx(2), once(1.0, lambda: os.kill(iperf3_of(shell), signal.SIGSTOP)))
    assert len(partial_of(caught.value, "received")) >= 8


def test_the_kernel_tells_the_mss_and_a_small_one_is_noticed(link: ShapedLink) -> None:
    flow = measure(link, Traffic(Direction.TX, duration_s=1, warmup_s=0, mss=1000)).flows[Direction.TX]
    assert flow.sockets is not None
    assert flow.sockets.mss == 988
    assert socket_trouble(flow.sockets, 1500, timestamps=True, mss=1000) == []
    (sentence,) = socket_trouble(flow.sockets, 1500, timestamps=True)
    assert sentence.startswith("segments carried 988 bytes, though MTU 1500 allows 1448\n  -> ")
    assert flow.sockets.rtt_s is not None
    assert flow.rtt_s == pytest.approx(flow.sockets.rtt_s, rel=2)
