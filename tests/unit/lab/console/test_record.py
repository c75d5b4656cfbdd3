"""Lines, times, file, memory and excerpts of a console."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_pinet.execution import deadline
from pytest_pinet.lab.console import record as console_record
from pytest_pinet.lab.console.drivers import EchoedAnswers
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind

START = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)


def ticking() -> Iterator[datetime]:
    now = START
    while True:
        yield now
        now += timedelta(seconds=1)


@pytest.fixture
def record() -> ConsoleRecord:
    clock = ticking()
    return ConsoleRecord("pi1", lambda: next(clock))


def test_the_file_has_each_line_with_its_time(record: ConsoleRecord, tmp_path: Path) -> None:
    file = tmp_path / "console" / "pi1.log"
    record.assign("pi1", file)
    record.begin()
    record.feed(b"[    0.000000] Booting\r\n[    0.1] half a l")
    record.feed(b"ine\r\npi1 login: ")
    record.note("power off")
    assert file.read_text().splitlines() == [
        "2026-03-01T12:00:00.250Z -- console open",
        "2026-03-01T12:00:01.250Z [    0.000000] Booting",
        "2026-03-01T12:00:02.250Z [    0.1] half a line",
        "2026-03-01T12:00:03.250Z pi1 login:",
        "2026-03-01T12:00:04.250Z -- power off",
    ]
    record.feed(b"last words")
    record.end()
    # The next holder of the node appends to the file.
    record.note("power on")
    lines = [line.partition(" ")[2] for line in file.read_text().splitlines()]
    assert lines[5:] == ["last words", "-- console closed", "-- power on"]


def test_without_a_file_the_last_lines_are_kept(record: ConsoleRecord) -> None:
    record.feed(b"".join(b"line %d\n" % number for number in range(console_record.KEPT_LINES + 10)))
    assert record.tail(2).splitlines()[1].endswith(f"line {console_record.KEPT_LINES + 9}")
    assert len(record.tail(10**6).splitlines()) == console_record.KEPT_LINES


def test_a_full_disk_is_reported_and_only_stops_the_file(record: ConsoleRecord) -> None:
    record.assign("pi1", Path("/dev/full"))
    record.feed(b"one\nKernel panic - not syncing: x\n")
    assert record.trouble is not None
    assert record.trouble.startswith("the console of pi1 is no longer recorded: [Errno 28]")
    assert [finding.kind for finding in record.findings] == [KernelEventKind.PANIC]


def test_noise_without_line_ends_does_not_grow(record: ConsoleRecord) -> None:
    for _ in range(100):
        record.feed(b"\xfe" * 1000)
    assert len(record._partial) <= console_record.LONGEST_LINE


def test_a_finding_names_node_kind_time_and_line(record: ConsoleRecord) -> None:
    record.feed(b"ok\n[ 9.1] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out\r\n")
    (finding,) = record.findings
    assert (finding.kind, finding.node) == (KernelEventKind.NETDEV_WATCHDOG, "pi1")
    assert str(finding) == (
        "at 2026-03-01T12:00:01.250Z: [9.1] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out"
    )
    assert record.take([KernelEventKind.PANIC]) == []
    assert record.take() == [finding]
    assert record.findings == ()


def test_our_own_notes_are_no_findings(record: ConsoleRecord) -> None:
    record.note("Kernel panic - not syncing")
    assert record.findings == ()


def test_an_unfinished_line_of_a_dying_kernel_is_a_finding(record: ConsoleRecord) -> None:
    record.feed(b"Kernel panic - not syncing: no li")
    record.idle()
    assert not record.findings
    record._last_data -= 1
    record.idle()
    assert [finding.line.text for finding in record.findings] == ["Kernel panic - not syncing: no li"]


def test_an_excerpt_is_the_50_lines_around(record: ConsoleRecord) -> None:
    record.feed(b"".join(b"before %d\n" % number for number in range(40)))
    record.feed(b"Kernel panic - not syncing: x\n")
    record.feed(b"".join(b"after %d\n" % number for number in range(40)))
    lines = [line.partition(" ")[2] for line in record.excerpt(record.findings[0]).splitlines()]
    assert len(lines) == 50
    assert (lines[0], lines[25], lines[-1]) == ("before 15", "Kernel panic - not syncing: x", "after 23")


class Clock:
    """Replaces the module ``time``. Sleeping takes no time, and the console prints a line every 0.2 s meanwhile."""

    def __init__(self, record: ConsoleRecord, lines: int) -> None:
        self.now = 0.0
        self._record = record
        self._lines = lines
        self._printed = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        while self._printed < min(self._lines, int(self.now / 0.2)):
            self._record.feed(b"Call trace %d\n" % self._printed)
            self._printed += 1


@pytest.mark.parametrize("lines", [0, 5])
def test_an_excerpt_waits_for_the_following_lines_until_the_console_is_silent(
    record: ConsoleRecord, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(record, lines)
    for module in (console_record, deadline):
        monkeypatch.setattr(module, "time", clock)
    record.feed(b"BUG: scheduling while atomic\n")
    excerpt = record.excerpt(record.findings[0])
    assert [line.partition(" ")[2] for line in excerpt.splitlines()] == [
        "BUG: scheduling while atomic", *(f"Call trace {number}" for number in range(lines))
    ]  # fmt: skip
    assert clock.now == pytest.approx(0.2 * lines + console_record.QUIET_S, abs=0.11)


def test_under_voltage_lasts_until_the_kernel_reports_its_end(record: ConsoleRecord) -> None:
    record.feed(b"hwmon hwmon1: Undervoltage detected!\n")
    assert record.under_voltage is not None
    record.feed(b"hwmon hwmon1: Voltage normalised\n")
    assert record.under_voltage is None
    assert [finding.kind for finding in record.findings] == [KernelEventKind.UNDER_VOLTAGE]
    record.feed(b"Under-voltage detected! (0x00050005)\n")
    record.restarted()
    assert record.under_voltage is None


def test_a_prompt_that_we_do_not_know_is_no_sign_of_a_boot() -> None:
    answers, output = EchoedAnswers(), b""
    for _ in range(5):
        answers.expect()
        before, output = output, output + b"\r\npi@pi1:~ $ "
        assert answers.explain(output, before)


def test_the_echo_of_a_newline_is_no_sign_of_a_boot() -> None:
    answers = EchoedAnswers()
    assert answers.explain(b"\r\n\r\n", b"\r\n")


def test_lines_of_a_boot_are_no_answers() -> None:
    answers = EchoedAnswers()
    # The first line after a newline may be an answer.
    answers.expect()
    assert answers.explain(b"[ OK ] one\r\n", b"")
    answers.expect()
    assert not answers.explain(b"[ OK ] one\r\n[ OK ] two\r\n", b"[ OK ] one\r\n")
    # Without a newline of ours, no output is an answer.
    assert not EchoedAnswers().explain(b"[ OK ] one\r\n", b"")
