"""The lifetime of an observer, and longer runs; on this machine's loopback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.evidence import observer as observing
from pytest_pinet.evidence.observer import Observer
from tests.support.local_shell import LocalProcess, LocalShell


class Remembering(LocalShell):
    """This machine, with all started processes."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: list[LocalProcess] = []

    def spawn(self, command: str) -> LocalProcess:
        self.spawned.append(super().spawn(command))
        return self.spawned[-1]


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_one_that_lives_long_enough_is_left_alone() -> None:
    shell = Remembering()
    with Observer(shell, "lo", "p", 60) as observer:
        assert observer.alive
        observer.ensure(60)
        assert len(shell.spawned) == 1
    assert not observer.alive


def test_one_that_was_killed_is_started_again_and_tells_of_the_next_run() -> None:
    shell = Remembering()
    with Observer(shell, "lo", "p", 60) as observer:
        until(lambda: observer.rate() is not None)
        seen = len(observer.text.splitlines())
        os.killpg(shell.spawned[0].pid, signal.SIGKILL)
        until(lambda: not observer.alive)
        observer.ensure(5)
        assert observer.alive
        until(lambda: observer.rate() is not None)
        assert observer.events(time.monotonic() - 0.1) == ()
        # Its earlier output is still evidence.
        assert len(observer.text.splitlines()) > seen
    assert [process.poll() is not None for process in shell.spawned] == [True, True]


def test_one_that_would_die_of_old_age_during_the_run_is_started_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "LIFETIME_S", 3.0)
    shell = Remembering()
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
    shell = Remembering()
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
        until(lambda: observer.rate() is not None)


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
        until(lambda: observer.rate() is not None)
        rate = observer.mean_rate(time.monotonic() - 5.0, 1.0)
    assert rate == pytest.approx(80e6, rel=0.01)
