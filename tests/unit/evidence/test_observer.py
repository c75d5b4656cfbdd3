"""The lifetime of an observer, and longer runs; on this machine's loopback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pytest_pinet.evidence import observer as observing
from pytest_pinet.evidence.observer import CarrierReading, Observer, carrier_events, parse_reading
from pytest_pinet.model.measurement import Event, EventKind
from tests.support.local_shell import LocalProcess, LocalShell, RecordingShell
from tests.support.waiting import wait_until


def test_one_that_lives_long_enough_is_left_alone() -> None:
    shell = RecordingShell()
    with Observer(shell, "lo", "p", 60) as observer:
        assert observer.alive
        observer.ensure(60)
        assert len(shell.spawned) == 1
    assert not observer.alive


def test_one_that_was_killed_is_started_again_and_tells_of_the_next_run() -> None:
    shell = RecordingShell()
    with Observer(shell, "lo", "p", 60) as observer:
        wait_until("a rate", lambda: observer.rate() is not None)
        seen = len(observer.text.splitlines())
        os.killpg(shell.spawned[0].pid, signal.SIGKILL)
        wait_until("its end", lambda: not observer.alive)
        observer.ensure(5)
        assert observer.alive
        wait_until("a rate", lambda: observer.rate() is not None)
        assert observer.events(time.monotonic() - 0.1) == ()
        # Its earlier output is still evidence.
        assert len(observer.text.splitlines()) > seen
    assert [process.poll() is not None for process in shell.spawned] == [True, True]


def test_one_that_would_die_of_old_age_during_the_run_is_started_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "LIFETIME_S", 3.0)
    shell = RecordingShell()
    with Observer(shell, "lo", "p", 1) as observer:
        observer.ensure(30)
        assert len(shell.spawned) == 2
        assert shell.spawned[0].poll() is not None
        assert "sleep 33" in " ".join(_command_lines(shell.spawned[1]))
        observer.ensure(30)
        assert len(shell.spawned) == 2


def _command_lines(process: LocalProcess) -> list[str]:
    done = LocalShell().run(f"ps -o args= -g {process.pid}")
    return done.stdout.splitlines()


def test_no_observer_is_started_after_its_context() -> None:
    shell = RecordingShell()
    observer = Observer(shell, "lo", "p", 1)
    observer.ensure(5)
    with observer:
        pass
    observer.ensure(5)
    assert len(shell.spawned) == 1


def test_over_the_interface_under_test_it_prints_once_a_second() -> None:
    command = observing.command("lo", 3, batched=True)
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE) as process:
        output = process.stdout
        assert output is not None
        packets = list(iter(lambda: os.read(output.fileno(), 65536), b""))
    seconds = [sample.partition(b".")[0] for sample in b"".join(packets).replace(b";", b"\n").splitlines()]
    # The first state at once, then one packet for each second of the node's clock, with several samples.
    assert len(packets) <= 1 + len(set(seconds))
    assert len(seconds) > 2 * len(packets)


def test_its_batches_still_give_a_rate() -> None:
    with Observer(LocalShell(), "lo", "p", 60, batched=True) as observer:
        wait_until("a rate", lambda: observer.rate() is not None)


def test_the_mean_rate_counts_neither_the_set_up_of_the_connection_nor_its_slow_start() -> None:
    class Recorded(LocalShell):
        """A device that receives 1 MB in each tenth of a second, after one second without traffic and a slow start."""

        def spawn(self, command: str) -> LocalProcess:
            now = float(Path("/proc/uptime").read_text().split()[0]) - 4.0
            received, lines = 0, []
            for tenth, grown in enumerate([0] * 10 + [200_000] * 5 + [1_000_000] * 25):
                received += grown
                lines.append(f"{now + tenth / 10:.2f} {received} 0 1 2 up 1000")
            return super().spawn(f"printf '%s\\n' {shlex.quote(chr(10).join(lines))}; sleep 60")

    with Observer(Recorded(), "eth0", "p", 60) as observer:
        wait_until("a rate", lambda: observer.rate() is not None)
        rate = observer.mean_rate(time.monotonic() - 5.0, 1.0)
    assert rate == pytest.approx(80e6, rel=0.01)


MIDNIGHT = datetime(2026, 11, 21)


def wall(uptime_s: float) -> datetime:
    return MIDNIGHT + timedelta(hours=14, minutes=3, seconds=uptime_s - 100)


def line(tenth: int, carrier: str = "1", changes: int = 1, speed: str = "1000", rx: int | None = None) -> str:
    return f"{100 + tenth / 10:.2f} {tenth * 1000 if rx is None else rx} {tenth} {carrier} {changes} up {speed}"


def events(*lines: str) -> tuple[Event, ...]:
    readings = [reading for one in lines if (reading := parse_reading(one)) is not None]
    assert len(readings) == len(lines)
    return carrier_events(readings, "sw1/p5", 99.0, wall)


def test_a_line_is_read() -> None:
    assert parse_reading("12.34 1000 2000 1 3 up 1000") == CarrierReading(12.34, 1000, 2000, True, 3, 1000)
    assert parse_reading("12.34 1000 2000 0 3 lowerlayerdown -") == CarrierReading(12.34, 1000, 2000, False, 3, None)
    # A device that is down reports no carrier. Some drivers report -1 as their speed.
    assert parse_reading("12.34 1000 2000 - - down -1") == CarrierReading(12.34, 1000, 2000, False, None, None)


@pytest.mark.parametrize(
    "odd",
    [
        *("", "hello", "12.34 1000 2000 1 3 up", "1.0 - - 1 1 up 1000", "1.0 1 2 1 1 up 1000 9"),
        *(f"{uptime} 1 2 1 1 up 1000" for uptime in ("x", "nan", "-1.0", "1e9", "9" * 50, "\u0661.0")),
    ],
)
def test_other_lines_give_no_reading(odd: str) -> None:
    assert parse_reading(odd) is None


def test_a_link_that_stays_up_has_no_events() -> None:
    assert events(*(line(i) for i in range(50))) == ()
    assert events() == ()


def test_the_text_of_a_drop_has_duration_time_and_port() -> None:
    lines = [line(i) for i in range(70)] + [line(i, "0", 2, "-") for i in range(70, 91)]
    (event,) = events(*lines, *(line(i, "1", 3) for i in range(91, 100)))
    assert event.text == "link dropped for 2.1 s at 14:03:07, sw1/p5"
    assert event.kind is EventKind.LINK_DOWN
    assert event.start_s == pytest.approx(8.0)
    assert event.seconds == pytest.approx(2.1)


def test_the_text_of_a_link_that_comes_back_slower_names_both_speeds() -> None:
    (event,) = events(line(0), line(1, "0", 2, "-"), line(2, "0", 2, "-"), line(3, "1", 3, "100"))
    assert event.text.endswith("sw1/p5; it came back at 100 Mbit/s instead of 1000")


def test_a_blink_between_two_lines_is_known_by_its_count() -> None:
    (event,) = events(line(0), line(1), line(2, changes=3), line(3, changes=3))
    assert event.text == "link dropped for less than 0.1 s at 14:03:00, sw1/p5"
    (event,) = events(line(0), line(1, changes=7))
    assert "link dropped 3 times for less than" in event.text
    assert event.times == 3


def test_a_link_that_stays_down_or_was_down_is_reported() -> None:
    (event,) = events(line(0), line(10), *(line(i, "0", 2) for i in range(11, 31)))
    assert event.text == "link dropped at 14:03:01, sw1/p5, and stayed down for the last 1.9 s"
    (event,) = events(line(0, "0"), line(5, "1", 2))
    assert event.seconds == pytest.approx(0.5)


def test_counters_that_begin_anew_are_a_restart() -> None:
    (event,) = events(line(5), line(6, rx=10), line(7))
    assert event.kind is EventKind.RESTART
    assert event.text == "the counters of sw1/p5 restarted at 14:03:00: the driver was restarted"


NARROW = 1 << 32


def test_a_32_bit_counter_that_wraps_is_not_a_restart() -> None:
    # 12.5 MB in a tenth of a second is 1 Gbit/s. The count doubles if the driver updates its counters late.
    assert events(line(5, rx=NARROW - 10_000_000), line(6, rx=2_500_000), line(7, rx=15_000_000)) == ()
    assert events(line(5, rx=NARROW - 10_000_000), line(6, rx=15_000_000)) == ()
    assert events(line(5, rx=NARROW - 1, speed="-"), line(6, rx=0, speed="-")) == ()


@pytest.mark.parametrize(
    ("before", "after", "speed"),
    [
        # Far from the wrap; more than the link carries; more than 32 bits hold.
        (NARROW // 2, 10, "1000"),
        (NARROW - 10_000_000, 40_000_000, "100"),
        (NARROW + 5, 10, "1000"),
    ],
)
def test_a_counter_that_falls_otherwise_began_anew(before: int, after: int, speed: str) -> None:
    (event,) = events(line(5, rx=before, speed=speed), line(6, rx=after, speed=speed))
    assert event.kind is EventKind.RESTART


def test_fewer_carrier_changes_than_before_are_those_of_another_device() -> None:
    (event, *_) = events(line(5, rx=NARROW - 5, changes=7), line(6, rx=100, changes=1))
    assert event.kind is EventKind.RESTART


def test_bytes_between_two_readings_go_over_the_end_of_32_bits() -> None:
    first, last = (parse_reading(line(tenth, rx=rx)) for tenth, rx in ((0, NARROW - 1_000_000), (5, 4_000_000)))
    assert first is not None
    assert last is not None
    assert last.received_since(first) == 5_000_000
    assert first.received_since(first) == 0
    restarted = parse_reading(line(5, rx=4_000_000_000))
    assert restarted is not None
    assert last.received_since(restarted) is None


def test_two_drops_are_two_events_in_their_order() -> None:
    lines = [line(0), line(1, "0", 2), line(2, "1", 3), line(3, "1", 3), line(4, "0", 4), line(6, "1", 5)]
    found = events(*lines)
    assert [round(event.seconds, 2) for event in found] == [0.1, 0.2]
    assert found[0].start_s < found[1].start_s
