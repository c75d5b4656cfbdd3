"""This machine as an end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Completed, Process, Shell
from tests.support.local_shell import LocalProcess, LocalShell

SHELL = LocalShell()


def gone(process: LocalProcess) -> bool:
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_it_is_a_shell() -> None:
    shell: Shell = SHELL
    process: Process = shell.spawn("true")
    assert process.wait(20) == Completed(0, "", "")
    assert shell.name == "runner"


def test_a_command_line_runs_to_its_end() -> None:
    assert SHELL.run("echo out; echo err >&2; exit 3") == Completed(3, "out\n", "err\n")


def test_its_environment_can_be_replaced() -> None:
    assert LocalShell(env={"PATH": "/nonexistent"}).run("ls").returncode == 127


def test_a_killed_command_has_a_shells_exit_status() -> None:
    assert SHELL.run("kill -9 $$").returncode == 137


def test_a_process_that_takes_too_long_is_stopped_and_named() -> None:
    with pytest.raises(SshError, match=r"runner did not finish 'sleep 60' within 0\.2 s"):
        SHELL.run("sleep 60", timeout_s=0.2)


def test_a_megabyte_of_output_blocks_nothing() -> None:
    assert len(SHELL.run("head -c 1000000 /dev/zero | tr '\\0' x").stdout) == 1_000_000


def test_lines_come_as_they_are_complete(tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = SHELL.spawn(f"echo one; printf tw; until [ -e {go} ]; do sleep 0.02; done; echo o; printf three")
    seen: list[str] = []
    while not seen:
        seen += process.lines()
    assert seen == ["one"]
    go.touch()
    assert process.wait(20).stdout == "one\ntwo\nthree"
    assert process.lines() == ["two"]
    assert process.lines() == []


def test_waiting_has_a_deadline_and_the_command_goes_on() -> None:
    process = SHELL.spawn("sleep 60")
    try:
        with pytest.raises(TimeoutError):
            process.wait(0.05)
        assert process.poll() is None
    finally:
        process.stop()


@pytest.mark.parametrize(
    "command",
    ["sleep 60", "sleep 60 & sleep 60 & wait", "trap '' TERM; sleep 60; sleep 60", "sleep 60 & kill -STOP $$; wait"],
)
def test_stopping_ends_all_that_was_started(command: str) -> None:
    process = SHELL.spawn(f"echo started; {command}")
    assert until(lambda: "started" in process.lines())
    assert process.stop().stdout == "started\n"
    assert process.poll() is not None
    assert until(lambda: gone(process))


def test_stopping_what_has_ended_is_harmless_and_keeps_its_status() -> None:
    process = SHELL.spawn("echo done; exit 4")
    process.wait(20)
    assert process.stop() == process.stop() == Completed(4, "done\n", "")
