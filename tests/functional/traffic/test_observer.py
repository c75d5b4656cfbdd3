"""The observer on a real device in a namespace: rates, carrier changes with time and duration, and its own end."""

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
from statistics import median

import pytest

from pytest_pinet.evidence.observer import STALE_S, Observer, command
from pytest_pinet.model.measurement import EventKind
from tests.support.iperf3_ends import group_members
from tests.support.local_shell import LocalShell, RecordingShell
from tests.support.shaped_link import ShapedLink, shaped_link
from tests.support.waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(scope="module")
def link() -> Iterator[ShapedLink]:
    with shaped_link("100mbit") as link:
        yield link


def wait_for_rate(observer: Observer) -> float:
    deadline = time.monotonic() + 20
    while (rate := observer.rate()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return rate


@needs_root
def test_it_tells_the_receive_rate_while_traffic_runs(link: ShapedLink) -> None:
    # At most 500 packets per second of 1442 bytes with headers: 5.8 Mbit/s.
    traffic = link.dut.spawn(f"ping -q -i 0.002 -s 1400 -w 60 {link.peer_address} >/dev/null")
    rates = []
    with Observer(link.peer, "eth0", "sw1/p5", 60) as observer:
        deadline = time.monotonic() + 20
        while len(observer.text.splitlines()) < 10:
            assert time.monotonic() < deadline
            rate = observer.rate()
            # A rate of readings that are close together has a large error: the uptime has steps of 0.01 s.
            times = [float(line.split()[0]) for line in observer.text.splitlines() if line[0].isdigit()]
            if rate is not None and times[-1] - times[0] >= 0.3:
                rates.append(rate)
            time.sleep(0.05)
    traffic.stop()
    # A busy machine sends fewer.
    assert 0.5e6 < median(rates) < 6.5e6
    assert observer.events(0.0) == ()


def counted(link: ShapedLink) -> int:
    """Return the retransmitted segments that the kernel of the device under test reports."""
    lines = link.dut.run("cat /proc/net/snmp").stdout.splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


@needs_root
def test_it_counts_the_retransmits_of_its_end(link: ShapedLink) -> None:
    before = counted(link)
    with Observer(link.dut, "eth0", "sw1/p5", 60) as observer:
        wait_until("the first count", lambda: observer.retransmits() is not None)
        # Nothing answers at this address of the link, so the kernel sends the first segment again.
        neighbour = "ip neigh replace {0} lladdr 02:00:00:00:00:77 dev eth0 nud permanent"
        address = f"{link.peer_address.rpartition('.')[0]}.77"
        link.dut.run(neighbour.format(address))
        client = link.dut.spawn(f"{sys.executable} -c 'import socket; socket.create_connection((\"{address}\", 9), 9)'")
        wait_until("a retransmit", lambda: counted(link) > before)
        wait_until("the observer to see it", lambda: observer.retransmits() == counted(link))
        client.stop()
    # The line of the count is no reading of the device, and breaks none.
    assert observer.rate() is not None
    assert observer.events(0.0) == ()


def look_on(observer: Observer, looks: int = 3) -> None:
    """Wait until the observer has made some more readings and so knows the current state."""
    observer.rate()
    seen, deadline = len(observer.text.splitlines()), time.monotonic() + 20
    while len(observer.text.splitlines()) < seen + looks:
        assert time.monotonic() < deadline
        observer.rate()
        time.sleep(0.02)


@needs_root
def test_a_dropped_link_is_reported_with_time_and_length(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 60) as observer:
        started = time.monotonic()
        wait_for_rate(observer)
        before, wall = time.monotonic(), datetime.now()
        link.carrier(False)
        time.sleep(1.5)
        link.carrier(True)
        came_back = time.monotonic()
        look_on(observer)
        (event,) = observer.events(started)
    assert event.kind is EventKind.LINK_DOWN
    # test_carrier.py tests the precision on recordings. Here both the observer and the change may be late.
    assert before - started - 0.5 < event.start_s < came_back - started
    assert 0.5 * 1.5 < event.seconds < came_back - before + 0.5
    said = re.fullmatch(r"link dropped for (\d\.\d) s at (\d\d:\d\d:\d\d), sw1/p5", event.text)
    assert said is not None, event.text
    assert float(said.group(1)) == pytest.approx(event.seconds, abs=0.051)
    assert said.group(2) in {f"{wall + timedelta(seconds=s):%H:%M:%S}" for s in range(-1, 4)}


@needs_root
def test_a_short_drop_between_two_readings_is_reported(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 5) as observer:
        started = time.monotonic()
        wait_for_rate(observer)
        before = time.monotonic()
        link.carrier(False)
        link.carrier(True)
        took = time.monotonic() - before
        look_on(observer)
        events = observer.events(started)
    assert [event.kind for event in events] == [EventKind.LINK_DOWN]
    assert "sw1/p5" in events[0].text
    # At most the actual duration and one reading on each side.
    assert events[0].seconds <= took + 1


@needs_root
def test_changes_between_two_runs_are_events_of_neither(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 60) as observer:
        first = time.monotonic()
        wait_for_rate(observer)
        # The time between them is longer than the observer needs for a reading.
        look_on(observer, 5)
        link.carrier(False)
        look_on(observer)
        link.carrier(True)
        look_on(observer, 5)
        second = time.monotonic()
        look_on(observer)
        assert observer.events(second) == ()
        assert len(observer.events(first)) == 1


def carrier_changes(link: ShapedLink) -> int:
    return int(link.dut.run("cat /sys/class/net/eth0/carrier_changes").stdout)


@needs_root
def test_an_expected_drop_right_before_a_run_is_not_its_event(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 60) as observer:
        wait_for_rate(observer)
        link.carrier(False)
        link.carrier(True)
        observer.accept(carrier_changes(link))
        started = time.monotonic()
        wait_for_rate(observer)
        look_on(observer)
        assert observer.events(started) == ()
        # An unexpected change is reported as before.
        observer.accept(carrier_changes(link))
        link.carrier(False)
        link.carrier(True)
        look_on(observer)
        assert [event.kind for event in observer.events(started)] == [EventKind.LINK_DOWN]


@needs_root
def test_a_link_that_stays_down_is_reported(link: ShapedLink) -> None:
    with Observer(link.dut, "eth0", "sw1/p5", 60) as observer:
        started = time.monotonic()
        wait_for_rate(observer)
        before = time.monotonic()
        link.carrier(False)
        look_on(observer, 8)
    took = time.monotonic() - before
    link.carrier(True)
    (event,) = observer.events(started)
    assert "stayed down for the last " in event.text
    assert 0 < event.seconds < took + 0.5


def test_an_end_that_does_not_answer_is_not_an_error() -> None:
    with Observer(LocalShell(), "eth77", "sw1/p5", 2) as observer:
        time.sleep(0.2)
        assert observer.rate() is None
    assert observer.events(time.monotonic()) == ()
    with Observer(LocalShell(env={"PATH": "/nonexistent"}), "lo", "sw1/p5", 2) as observer:
        assert observer.rate() is None


def test_a_rate_is_not_shown_on_when_the_end_went_silent() -> None:
    shell = RecordingShell()
    with Observer(shell, "lo", "sw1/p5", 60) as observer:
        wait_for_rate(observer)
        os.killpg(shell.spawned[-1].pid, signal.SIGSTOP)
        wait_until("the rate to be gone", lambda: observer.rate() is None, timeout_s=STALE_S + 20)
        os.killpg(shell.spawned[-1].pid, signal.SIGCONT)
    assert group_members(shell.spawned[-1].pid) == []


def test_it_ends_with_its_context() -> None:
    shell = RecordingShell()
    with Observer(shell, "lo", "sw1/p5", 60) as observer:
        wait_for_rate(observer)
        assert group_members(shell.spawned[-1].pid)
    assert group_members(shell.spawned[-1].pid) == []


@pytest.mark.parametrize("interpreter", ["bash", "dash"])
def test_it_dies_of_old_age(interpreter: str, tmp_path: Path) -> None:
    for name in ("sleep", "sh", *(["bash"] if interpreter == "bash" else [])):
        (tmp_path / name).symlink_to(f"/bin/{'dash' if name == 'sh' else name}")
    shell = RecordingShell(env={"PATH": str(tmp_path)})
    process = shell.spawn(command("lo", 2))
    lines: list[str] = []

    def told() -> bool:
        lines.extend(process.lines())
        return bool(lines)

    wait_until("its first line", told, timeout_s=20)
    assert bool(group_members(process.pid, "bash")) == (interpreter == "bash")
    wait_until("its end", lambda: not group_members(process.pid), timeout_s=30)
    lines = process.stop().stdout.splitlines()
    # Ten readings per second with bash, five without, for at most two seconds; fewer on a busy machine.
    assert 2 <= len(lines) <= (21 if interpreter == "bash" else 11)
    samples = [sample for line in lines for sample in line.split(";")]
    assert {len(sample.split()) for sample in samples if not sample.startswith("retransmits ")} == {7}


def test_it_ends_at_once_when_its_life_is_taken() -> None:
    # Without its sleep a read returns at once. A script that does not notice would use a whole core.
    process = LocalShell().spawn(f"sleep() {{ command sleep 0.5; }}; {command('lo', 60)}")
    wait_until("its end", lambda: process.poll() == 0, timeout_s=30)
    assert len(process.lines()) <= 10


RUNNER = """
import time
from pytest_pinet.evidence.observer import LIFETIME_S, Observer
from pytest_pinet.evidence import observer
from tests.support.local_shell import LocalShell
observer.LIFETIME_S = 1.0
class Telling(LocalShell):
    def spawn(self, command):
        process = super().spawn(command)
        print(process.pid, flush=True)
        return process
with Observer(Telling(), "lo", "p", 1):
    time.sleep(60)
"""


def test_a_runner_that_is_killed_leaves_it_to_its_deadline() -> None:
    with subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        group = int(runner.stdout.readline())
        runner.kill()
        runner.wait(5)
    wait_until("its end", lambda: not group_members(group), timeout_s=30)
