"""The script of a watched board runs in a shell of this machine: samples, messages of the kernel, and its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.evidence.vitals import REBOOT, STALL, Sign, parse
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.watch.watching import WatchedBoard
from tests.support.waiting import wait_until

STALLED = "macb 1f00100000.ethernet eth0: TX stall detected on queue 0 (tail=1 head=9); re-kicking TSTART"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedBoard]:
    """Yield this machine as a board. Its kernel's log has one message of before the watch, and one of later."""
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    log = "".join(f"[{uptime_s + by:.6f}] {STALLED}\\n" for by in (-1000, 1000))
    dmesg = tmp_path / "dmesg"
    dmesg.write_text(
        "#!/bin/sh\n"
        f'case "$*" in --help) echo --follow;; -w) printf "{log}"; exec sleep 600;; esac\n'
    )  # fmt: skip
    dmesg.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = WatchedBoard("dut", SshShell("dut", ["sh", "-c"]), {"lo": "sw"})
    yield found
    found.stop()


def test_only_messages_since_the_watch_began_count(board: WatchedBoard) -> None:
    signs: list[Sign] = []

    def seen() -> bool:
        signs.extend(board.poll(time.time(), []))
        return bool(signs)

    wait_until("the message", seen)
    assert [(sign.kind, STALLED in sign.text) for sign in signs] == [(STALL, True)]
    assert board.reads_log
    assert len(board.boot.split()) == 2


def test_a_board_whose_samples_stay_away_is_silent_once(board: WatchedBoard) -> None:
    def heard() -> bool:
        board.poll(time.time(), [])
        return board.heard_s is not None

    assert board.silence(time.time() + 1000) == []
    wait_until("a sample", heard)
    assert board.silence(time.time()) == []
    (silent,) = board.silence(time.time() + 1000)
    assert (silent.at_s, silent.over) == (board.heard_s, False)
    assert board.silence(time.time() + 1000) == []


def test_hours_count_while_samples_come_and_traffic_is_a_hundred_packets_a_second() -> None:
    board = WatchedBoard("dut", SshShell("dut", ["sh", "-c"]), {"eth0": "sw", "eth1": "sw"})
    packets = 0
    for second in range(21):
        packets += 1000 if second > 10 else 1
        lines = (f"{second} {device} {packets} 1 1 2 0 -" for device in board.links)
        board.add([sample for line in lines for sample in parse(line)], 100.0 + second)
    assert (board.watched_s, board.loaded_s) == (20, 10)
    # A gap is no watched time.
    board.add(parse(f"300 eth0 {packets} 1 1 2 0 -"), 400.0)
    assert board.watched_s == 20


def test_messages_of_a_later_boot_have_the_time_of_this_boot(board: WatchedBoard) -> None:
    board.boot = "an earlier boot"
    board.add(parse("900000 lo 1 1 1 2 0 -"), time.time() - 100)
    signs: list[Sign] = []

    def seen() -> bool:
        signs.extend(board.poll(time.time(), []))
        return len(signs) == 3

    wait_until("the boot and both messages of its log", seen)
    assert [sign.kind for sign in signs] == [REBOOT, STALL, STALL]
    assert signs[1].at_s == pytest.approx(time.time() - 1000, abs=60)
