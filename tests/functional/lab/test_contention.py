"""Contention domains: one measurement at a time, in order of arrival, even if a process dies."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Timer
from typing import IO

import pytest

from pytest_pinet.errors import LeaseError
from pytest_pinet.lab import contention
from pytest_pinet.lab.contention import exclusive
from pytest_pinet.lab.labgrid.identity import Identity

# Acquires the domains, reports it, and releases them on command.
MEASURER = """
import sys
from pytest_pinet.lab.contention import exclusive
from pytest_pinet.lab.labgrid.identity import Identity
key, domains, run = sys.argv[1:]
identity = Identity.of_this_process("gw1", run)
print("waiting", flush=True)
with exclusive(key, domains.split(), 30, lambda text: print(text, flush=True), identity):
    print("measuring", flush=True)
    sys.stdin.readline()
print("done", flush=True)
"""
RUN = "d0d6a11e"
Measurer = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def key(tmp_path: Path) -> str:
    """Return the key of a lab that no other process uses."""
    return str(tmp_path)


@pytest.fixture
def measurer(key: str) -> Iterator[Measurer]:
    started: list[subprocess.Popen[str]] = []

    def start(domains: str, run: str = "0", **environment: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", MEASURER, key, domains, run]
        pipe, env = subprocess.PIPE, {**os.environ, **environment}
        started.append(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=env))
        assert says(started[-1]) == "waiting"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for domain in ("bus", "uplink"):
        for ticket in contention._Queue.of(key, domain).tickets():
            ticket.unlink()


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def let_go(process: subprocess.Popen[str]) -> None:
    process.communicate("go\n", timeout=60)


def test_measurements_of_a_domain_run_in_order_of_arrival(measurer: Measurer) -> None:
    first = measurer("bus")
    assert says(first) == "measuring"
    later = []
    for _ in range(3):
        later.append(measurer("bus"))
        assert says(later[-1]).startswith(f"waiting for contention domain bus: held by process {first.pid} since ")
    let_go(first)
    for number, process in enumerate(later):
        while (line := says(process)) != "measuring":
            assert line.startswith("waiting for contention domain bus: held by process ")
        waiting = later[number + 1 :]
        assert all(other.poll() is None for other in waiting)
        let_go(process)


def test_separate_domains_measure_at_the_same_time(measurer: Measurer) -> None:
    one, other = measurer("bus"), measurer("uplink")
    assert [says(one), says(other)] == ["measuring", "measuring"]
    let_go(one)
    let_go(other)


def test_a_private_tmpdir_uses_the_same_queue(measurer: Measurer, tmp_path: Path) -> None:
    holder = measurer("bus")
    assert says(holder) == "measuring"
    assert f"held by process {holder.pid}" in says(measurer("bus", TMPDIR=str(tmp_path)))


def test_several_domains_in_any_order_do_not_wait_for_each_other(measurer: Measurer) -> None:
    one, other = measurer("bus uplink"), measurer("uplink bus")
    assert says(one) == "measuring"
    let_go(one)
    while says(other) != "measuring":
        pass
    let_go(other)


def test_a_killed_process_loses_its_turn_at_once(measurer: Measurer, key: str) -> None:
    holder = measurer("bus")
    assert says(holder) == "measuring"
    queued = measurer("bus")
    assert "held by process" in says(queued)
    for process in (holder, queued):
        process.kill()
        process.communicate()
    # A living holder would make this an error.
    with exclusive(key, ["bus"], 10, lambda text: None):
        pass
    # No tickets are left, neither theirs nor ours.
    assert contention._Queue.of(key, "bus").tickets() == []


def test_waiting_ends_and_names_the_holder(measurer: Measurer, key: str) -> None:
    holder = measurer("bus")
    assert says(holder) == "measuring"
    with (
        pytest.raises(
            LeaseError,
            match=rf"waited \d s for contention domain bus, held by process {holder.pid} since \d\d:\d\d:\d\d: another",
        ),
        exclusive(key, ["bus"], 0.2, lambda text: None),
    ):
        pass
    # Neither a worker of another run helps, nor a process outside of any run.
    for run in ("other", "0"):
        with (
            pytest.raises(LeaseError, match="another measurement runs in it"),
            exclusive(key, ["bus"], 0.2, lambda text: None, Identity.of_this_process("gw0", run)),
        ):
            pass
    let_go(holder)


def test_a_worker_of_the_same_run_may_measure_for_longer_than_we_wait_for_others(measurer: Measurer, key: str) -> None:
    holder = measurer("bus", RUN)
    assert says(holder) == "measuring"
    assert holder.stdin is not None
    told_to_go = Event()

    def tell() -> None:
        told_to_go.set()
        print("go", file=holder.stdin, flush=True)

    timer = Timer(1.0, tell)
    timer.start()
    with exclusive(key, ["bus"], 0.2, lambda text: None, Identity.of_this_process("gw0", RUN)):
        assert told_to_go.is_set()
    timer.join()


def test_a_hanging_worker_of_the_same_run_is_an_error(
    measurer: Measurer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contention, "SIBLING_S", 0.6)
    holder = measurer("bus", RUN)
    assert says(holder) == "measuring"
    started = time.monotonic()
    with (
        pytest.raises(
            LeaseError,
            match=rf"waited \d s for contention domain bus, held by process {holder.pid} since \S+, "
            "a worker of this run\n  -> check whether a test of that worker hangs",
        ),
        exclusive(key, ["bus"], 0.2, lambda text: None, Identity.of_this_process("gw0", RUN)),
    ):
        pass
    assert time.monotonic() - started > 0.5


def test_a_ticket_that_vanishes_while_it_is_read_is_no_error(
    measurer: Measurer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = measurer("bus")
    assert says(holder) == "measuring"
    flock = fcntl.flock
    seen = []

    def ends_meanwhile(file: IO[str] | int, operation: int) -> None:
        try:
            flock(file, operation)
        except BlockingIOError:
            seen.append(file)
            let_go(holder)
            raise

    monkeypatch.setattr(fcntl, "flock", ends_meanwhile)
    with exclusive(key, ["bus"], 10, lambda text: None):
        assert seen


def test_an_unusable_queue_folder_is_an_error_and_not_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "pinet").symlink_to(tmp_path)
    monkeypatch.setattr(contention, "queue_folder", lambda: tmp_path / "pinet")
    with (
        pytest.raises(LeaseError, match=r"cannot queue for contention domain bus: \S+/pinet: Not a directory"),
        exclusive("lab", ["bus"], 1, lambda text: None),
    ):
        pass
    assert tmp_path.stat().st_mode & 0o7777 == 0o700
