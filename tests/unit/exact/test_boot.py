"""When a boot is over: programs that hang, in QEMU's place, are ended by the processor time that they use."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pytest_pinet.exact import boot
from pytest_pinet.exact.events import Events
from pytest_pinet.exact.lab_boards import exact_boards

BUSY = "echo begun; while :; do :; done"
HALTED = "echo begun; exec sleep 60"


def run(script: str, cpu_s: float) -> tuple[str, int | None]:
    with closing(Events(exact_boards()["e1000e"], ())) as events:
        return boot.run_until_end(["sh", "-c", script], {}, (), cpu_s, threading.Event(), events)


def test_a_program_that_computes_forever_ends_at_its_processor_time() -> None:
    assert run(BUSY, cpu_s=0.3) == ("begun\n", None)


def test_a_program_that_halts_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "HALTED_S", 0.5)
    assert run(HALTED, cpu_s=600.0) == ("begun\n", None)


def test_a_program_that_ends_leaves_its_exit_code() -> None:
    assert run("echo done; exit 3", cpu_s=600.0) == ("done\n", 3)
