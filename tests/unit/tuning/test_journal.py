"""The journal of a dead process on a node, and how the next process undoes its changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.execution.shell import as_root
from pytest_pinet.tuning.journal import JournalEntry, replay
from tests.support.tuning_node import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def keep(bench: Bench, what: str, script: str) -> JournalEntry:
    entry = JournalEntry.new(what, script, str(bench.journal))
    assert bench.shell.run(as_root(entry.kept())).returncode == 0
    return entry


def test_after_the_replay_the_journal_is_empty(bench: Bench) -> None:
    assert replay(bench.shell, str(bench.journal)).done == ()


def test_the_latest_change_is_taken_back_first(bench: Bench, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for number in range(3):
        keep(bench, f"mtu={number} of node:usb", f'echo "it\'s {number}" >> {log}')
    found = replay(bench.shell, str(bench.journal))
    assert found.done == ("mtu=2 of node:usb", "mtu=1 of node:usb", "mtu=0 of node:usb")
    assert log.read_text().splitlines() == ["it's 2", "it's 1", "it's 0"]
    assert bench.entries == []


def test_an_undo_that_fails_is_reported_and_kept(bench: Bench) -> None:
    keep(bench, "eee=off of node:usb", "echo 'netlink error: No such device' >&2; exit 1")
    keep(bench, "mtu=9000 of node:usb", "true")
    found = replay(bench.shell, str(bench.journal))
    assert found.done == ("mtu=9000 of node:usb",)
    assert found.failed == ("eee=off of node:usb (No such device)",)
    assert len(bench.entries) == 1


def test_whoever_may_not_take_it_back_says_so(bench: Bench) -> None:
    keep(bench, "mtu=9000 of node:usb", "true")
    bench.command("sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n")
    bench.command("id", "#!/bin/sh\necho 1000\n")
    found = replay(bench.shell, str(bench.journal))
    assert found.failed == (f"the entries of {bench.journal} (a password is required)",)
    assert len(bench.entries) == 1


def test_an_entry_is_there_as_a_whole_or_not_at_all(bench: Bench) -> None:
    bench.journal.mkdir()
    (bench.journal / "00000000000000001-0000.new").write_text("# mtu=9000\nip li")
    assert replay(bench.shell, str(bench.journal)).failed == ()
    assert bench.entries == []


def test_whoever_logs_in_next_may_read_it_whatever_root_s_umask(bench: Bench) -> None:
    entry = JournalEntry.new("mtu=9000 of node:usb", "true", str(bench.journal / "tunings"))
    assert bench.shell.run(f"umask 077; {entry.kept()}").returncode == 0
    assert [path.stat().st_mode & 0o777 for path in (bench.journal, bench.journal / "tunings")] == [0o755, 0o755]


def test_an_interruption_before_the_change_leaves_nothing_to_undo(bench: Bench) -> None:
    entry = JournalEntry.new("mtu=9000 of node:usb", "exit 1", str(bench.journal))
    assert bench.shell.run(as_root(entry.undone())).returncode == 0


def test_a_change_that_was_not_undone_is_in_the_journal(bench: Bench) -> None:
    bench.cpus("0-3")
    file = bench.device_file("queues/rx-0/rps_cpus", "2")
    congestion = bench.file("/proc/sys/net/ipv4/tcp_congestion_control", "cubic")
    bench.apply("rps", "all")
    bench.apply("congestion", "bbr")
    found = replay(bench.shell, str(bench.journal))
    assert found.done == ("congestion=bbr of node", "rps=all of node:onboard")
    assert (file.read_text().strip(), congestion.read_text().strip()) == ("2", "cubic")
