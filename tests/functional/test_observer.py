"""The observer on a real device of a namespace: rates, carrier changes with their time and length, and its own end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from shaped_bench import ShapedLink, shaped_link

from pytest_pinet.evidence.observer import Observer, command
from pytest_pinet.model.events import EventKind
from pytest_pinet.traffic.local import LocalProcess, LocalShell

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(scope="module")
def link() -> Iterator[ShapedLink]:
    with shaped_link("100mbit") as link:
        yield link


def members(group: int) -> list[str]:
    """What still runs of a process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            comm, rest = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if int(rest.split()[2]) == group and rest.split()[0] != "Z":
            found.append(comm.partition("(")[2])
    return found


class Remembering(LocalShell):
    """The runner, with the process that was spawned last."""

    last: LocalProcess

    def spawn(self, command: str) -> LocalProcess:
        self.last = super().spawn(command)
        return self.last


def wait_for_rate(observer: Observer) -> float:
    deadline = time.monotonic() + 5
    while (rate := observer.rate()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return rate


@needs_root
def test_it_tells_the_receive_rate_while_traffic_runs(link: ShapedLink) -> None:
    # At most 500 packets a second of 1442 bytes with their headers: 5.8 Mbit/s.
    ping = f"ping -q -i 0.002 -s 1400 -w 2 {link.peer_address} >/dev/null"
    traffic = link.dut.spawn(ping)
    with Observer(link.peer, "eth0", "sw1/p5", 3) as observer:
        wait_for_rate(observer)
        time.sleep(1.0)
        rate = observer.rate()
    counted = int(link.peer.run("cat /sys/class/net/eth0/statistics/rx_packets").stdout)
    traffic.stop()
    assert counted > 100
    assert rate is not None
    assert 1e6 < rate < 6.5e6
    assert observer.events(0.0) == ()
    assert len(observer.text.splitlines()) >= 8


@needs_root
def test_a_link_that_drops_is_told_with_time_and_length(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 5) as observer:
        started = time.monotonic()
        wait_for_rate(observer)
        time.sleep(0.5)
        dropped, wall = time.monotonic(), datetime.now()
        link.carrier(False)
        time.sleep(1.3)
        link.carrier(True)
        came_back = time.monotonic()
        time.sleep(0.5)
        (event,) = observer.events(started)
    assert event.kind is EventKind.LINK_DOWN
    assert event.start_s == pytest.approx(dropped - started, abs=0.25)
    assert event.seconds == pytest.approx(came_back - dropped, abs=0.25)
    said = re.fullmatch(r"link dropped for (\d\.\d) s at (\d\d:\d\d:\d\d), sw1/p5", event.text)
    assert said is not None
    assert float(said.group(1)) == pytest.approx(event.seconds, abs=0.051)
    assert said.group(2) in {f"{wall + timedelta(seconds=s):%H:%M:%S}" for s in (-0.3, 0, 0.3)}


@needs_root
def test_a_blink_between_two_looks_is_told(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 5) as observer:
        started = time.monotonic()
        wait_for_rate(observer)
        link.carrier(False)
        link.carrier(True)
        time.sleep(0.5)
        events = observer.events(started)
    assert [event.kind for event in events] == [EventKind.LINK_DOWN]
    assert "sw1/p5" in events[0].text
    assert events[0].seconds <= 0.25


@needs_root
@pytest.mark.slow
def test_what_happens_between_two_runs_is_no_event_of_either(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 5) as observer:
        first = time.monotonic()
        wait_for_rate(observer)
        time.sleep(0.3)
        first_end = time.monotonic()
        time.sleep(0.3)
        link.carrier(False)
        time.sleep(0.3)
        link.carrier(True)
        time.sleep(0.4)
        second = time.monotonic()
        time.sleep(0.3)
        assert observer.events(first, first_end) == ()
        assert observer.events(second) == ()
        assert len(observer.events(first)) == 1


def carrier_changes(link: ShapedLink) -> int:
    return int(link.dut.run("cat /sys/class/net/eth0/carrier_changes").stdout)


@needs_root
def test_a_blink_on_purpose_right_before_a_run_is_none_of_its_events(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 5) as observer:
        wait_for_rate(observer)
        link.carrier(False)
        link.carrier(True)
        observer.accept(carrier_changes(link))
        started = time.monotonic()
        wait_for_rate(observer)
        time.sleep(0.5)
        assert observer.events(started) == ()
        # One that nobody asked for is told as before.
        observer.accept(carrier_changes(link))
        link.carrier(False)
        link.carrier(True)
        time.sleep(0.5)
        assert [event.kind for event in observer.events(started)] == [EventKind.LINK_DOWN]


@needs_root
def test_a_link_that_stays_down_is_told(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 5) as observer:
        started = time.monotonic()
        wait_for_rate(observer)
        link.carrier(False)
        time.sleep(0.8)
    link.carrier(True)
    (event,) = observer.events(started)
    assert "stayed down for the last 0." in event.text
    assert event.seconds == pytest.approx(0.7, abs=0.25)


def test_nobody_there_is_no_error() -> None:
    with Observer(LocalShell(), "eth77", "sw1/p5", 2) as observer:
        time.sleep(0.2)
        assert observer.rate() is None
    assert observer.events(time.monotonic()) == ()
    with Observer(LocalShell(env={"PATH": "/nonexistent"}), "lo", "sw1/p5", 2) as observer:
        assert observer.rate() is None


@pytest.mark.slow
def test_a_rate_is_not_shown_on_when_the_end_went_silent() -> None:
    shell = Remembering()
    with Observer(shell, "lo", "sw1/p5", 5) as observer:
        wait_for_rate(observer)
        os.killpg(shell.last.pid, signal.SIGSTOP)
        time.sleep(2.3)
        assert observer.rate() is None
        os.killpg(shell.last.pid, signal.SIGCONT)
    assert members(shell.last.pid) == []


def test_it_ends_with_its_context() -> None:
    shell = Remembering()
    with Observer(shell, "lo", "sw1/p5", 60) as observer:
        wait_for_rate(observer)
        assert members(shell.last.pid)
    assert members(shell.last.pid) == []


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", ["bash", "dash"])
def test_it_dies_of_old_age(interpreter: str, tmp_path: Path) -> None:
    for name in ("sleep", "sh", *(["bash"] if interpreter == "bash" else [])):
        (tmp_path / name).symlink_to(f"/bin/{'dash' if name == 'sh' else name}")
    shell = Remembering(env={"PATH": str(tmp_path)})
    process = shell.spawn(command("lo", 2))
    time.sleep(1.0)
    assert ("bash" in members(process.pid)) == (interpreter == "bash")
    deadline = time.monotonic() + 4
    while members(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lines = process.stop().stdout.splitlines()
    # Up to a second less, since its end is a whole second of the end's clock.
    ticks = 10 if interpreter == "bash" else 5
    assert 0.8 * ticks <= len(lines) <= 2 * ticks + 1
    assert {len(line.split()) for line in lines} == {7}


def test_it_ends_at_once_when_its_life_is_taken() -> None:
    # Without its sleep a read returns at once, and a script that does not notice would use up a core.
    process = LocalShell().spawn(f"sleep() {{ command sleep 0.5; }}; {command('lo', 30)}")
    time.sleep(1.5)
    lines = process.lines()
    assert process.poll() == 0
    assert len(lines) <= 10


RUNNER = """
import time
from pytest_pinet.evidence.observer import LIFETIME_S, Observer
from pytest_pinet.evidence import observer
from pytest_pinet.traffic.local import LocalShell
observer.LIFETIME_S = 1.0
class Telling(LocalShell):
    def spawn(self, command):
        process = super().spawn(command)
        print(process.pid, flush=True)
        return process
with Observer(Telling(), "lo", "p", 1):
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_runner_that_is_killed_leaves_it_to_its_deadline() -> None:
    with subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        group = int(runner.stdout.readline())
        runner.kill()
        runner.wait(5)
    deadline = time.monotonic() + 4
    while members(group):
        assert time.monotonic() < deadline
        time.sleep(0.05)
