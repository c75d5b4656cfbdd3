"""Calls that return, that fail, and that never end."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest

from pytest_pinet.execution.deadline import call_within


def test_a_call_in_time_returns_its_result_or_error() -> None:
    assert call_within(5, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        call_within(5, lambda: 1 // 0)


def test_a_call_that_never_ends_raises_timeout() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        call_within(0.1, release.wait)
    release.set()


def test_only_the_command_that_never_ends_is_killed() -> None:
    statuses: list[int] = []
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(TimeoutError):
            call_within(0.3, lambda: statuses.append(subprocess.run(["sleep", "60"], check=False).returncode))
        deadline = time.monotonic() + 50
        while not statuses:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert statuses == [-9]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
