"""The script of a watched board runs in a shell of this machine: samples, messages of the kernel, and its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.evidence.vitals import STALL, Sign
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.watch.board import WatchedBoard
from tests.support.gate_project import wait_until

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
    found = WatchedBoard("dut", SshShell("dut", ["sh", "-c"]), ["lo"])
    yield found
    found.stop()


def test_only_messages_since_the_watch_began_count(board: WatchedBoard) -> None:
    signs: list[Sign] = []

    def seen() -> bool:
        signs.extend(board.poll(time.time(), {}))
        return bool(signs)

    wait_until("the message", seen)
    assert [(sign.kind, STALLED in sign.text) for sign in signs] == [(STALL, True)]
    assert board.reads_log
    assert board.heard_s is not None
    assert len(board.boot.split()) == 2


def test_a_board_whose_samples_stay_away_is_silent_once(board: WatchedBoard) -> None:
    def heard() -> bool:
        board.poll(time.time(), {})
        return board.heard_s is not None

    assert board.silence(time.time() + 1000) == []
    wait_until("a sample", heard)
    assert board.silence(time.time()) == []
    (silent,) = board.silence(time.time() + 1000)
    assert (silent.at_s, silent.over) == (board.heard_s, False)
    assert board.silence(time.time() + 1000) == []
