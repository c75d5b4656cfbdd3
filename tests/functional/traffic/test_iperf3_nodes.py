"""Missing programs or other versions on a node: reported before traffic, or worked around."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.errors import (
    ConfigError,
    SshError,
    TrafficError,
    UnsupportedError,
)
from pytest_pinet.execution.shell import Completed, Process, Shell
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import processes
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.iperf3_ends import DUT, PEER, TCP, Ends
from tests.support.local_shell import LocalProcess, LocalShell
from tests.support.waiting import wait_until


@pytest.mark.parametrize("missing", ["dut-1", "peer-1"])
def test_a_missing_iperf3_names_the_end_and_the_remedy(ends: Ends, missing: str) -> None:
    bare = LocalShell(missing, env={"PATH": "/nonexistent"})
    dut, peer = (bare, ends.peer) if missing == "dut-1" else (ends.dut, bare)
    with pytest.raises(TrafficError, match=f"{missing} has no iperf3\n  -> on {missing}: install the package iperf3"):
        Iperf3().measure(TrafficJob(dut, peer, DUT, PEER, TCP))


@pytest.mark.parametrize(("gone", "package"), [("iperf3", "iperf3"), ("timeout", "coreutils")])
def test_a_program_that_went_missing_since_is_named(ends: Ends, tmp_path: Path, gone: str, package: str) -> None:
    iperf3 = Iperf3()
    iperf3.measure(TrafficJob(ends.dut, ends.peer, DUT, PEER, TCP))
    ends.dut._env = _tools(tmp_path, *{"iperf3", "timeout", "grep", "sleep"} - {gone})
    with pytest.raises(
        TrafficError, match=rf"dut-1 has no {gone} \(.*\)\n  -> on dut-1: install the package {package}"
    ):
        iperf3.measure(TrafficJob(ends.dut, ends.peer, DUT, PEER, TCP))


# The answers of busybox 1.35 and 1.30 to unknown options.
BUSYBOX = """for word in %s; do
    [ "$1" = $word ] && { echo "timeout: unrecognized option '$1'" >&2; exit 1; }
done
exec /usr/bin/timeout --foreground "$@"
"""


@pytest.mark.parametrize(
    ("unknown", "line"),
    [
        ("--foreground", "LC_ALL=C timeout -k 1 21 iperf3"),
        ("--foreground -k", "LC_ALL=C timeout 21 iperf3"),
        (None, "LC_ALL=C iperf3"),
    ],
)
def test_an_end_with_a_limited_timeout_command_or_none_can_measure(
    ends: Ends, tmp_path: Path, unknown: str | None, line: str
) -> None:
    ends.peer._env = _tools(tmp_path, "iperf3", "grep", "sleep", "cat", "true")
    if unknown is not None:
        _script(tmp_path / "timeout", BUSYBOX % unknown)
    measurement = ends.measure(TCP)
    assert measurement.raw["client.cmd"].startswith(f"{line} -c")
    assert measurement.raw["server.cmd"].startswith("LC_ALL=C timeout --foreground -k 1 26 iperf3 -s")
    assert measurement.raw["client.err"] == ""


def _script(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _tool(folder: Path, script: str) -> dict[str, str]:
    _script(folder / "iperf3", script)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def _tools(folder: Path, *names: str) -> dict[str, str]:
    """Return an environment with these programs only."""
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return {"PATH": str(folder)}


def test_an_old_iperf3_is_refused_before_traffic(ends: Ends, tmp_path: Path) -> None:
    ends.peer._env = _tool(tmp_path, "echo 'iperf 3.9 (cJSON 1.7.13)'")
    with pytest.raises(UnsupportedError, match=r"peer-1: iperf3 3\.9 is older than 3\.12"):
        ends.measure(replace(TCP, direction=Direction.BIDIR))
    assert len(ends.spawned["dut-1"]) == len(ends.spawned["peer-1"]) == 1  # the version queries


def test_something_else_called_iperf3_is_refused(ends: Ends, tmp_path: Path) -> None:
    ends.peer._env = _tool(tmp_path, "echo hello")
    with pytest.raises(TrafficError, match=r"'iperf3 --version' on peer-1 gives no version \(exit status 0\)"):
        ends.measure(TCP)


def test_a_server_that_never_listens_is_reported(ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CONNECT_TIMEOUT_S", 0.5)
    ends.dut._env = _tool(tmp_path, "[ $1 = --version ] && exec /usr/bin/iperf3 --version\nexec sleep 60")
    with pytest.raises(TrafficError, match=r"server on dut-1 runs, but does not listen on port \d+ after 0\.5 s"):
        ends.measure(TCP)


def test_the_version_is_read_once_per_session(ends: Ends) -> None:
    iperf3 = Iperf3()
    for _ in range(2):
        iperf3.measure(TrafficJob(ends.dut, ends.peer, DUT, PEER, TCP))
    # Each run starts iperf3 and reads its sockets once.
    assert len(ends.spawned["dut-1"]) == 1 + 2 * 2


def test_an_unknown_congestion_control_is_unsupported(ends: Ends) -> None:
    with pytest.raises(UnsupportedError, match="does not have the requested congestion control"):
        ends.measure(replace(TCP, congestion="nosuch"))


def test_a_clamped_window_is_reported(ends: Ends) -> None:
    most = int(Path("/proc/sys/net/core/wmem_max").read_text())
    if most > 2**28:
        pytest.skip("net.core.wmem_max is too large to exceed")
    (sentence, _) = ends.measure(replace(TCP, window=most * 3 // 2)).unmet
    assert sentence.startswith(f"window={most * 3 // 2} bytes was not effective on ")
    assert sentence.endswith(f"-1: the kernel gave {most} (raise net.core.wmem_max)")
    with pytest.raises(UnsupportedError, match="refuses the requested window"):
        ends.measure(replace(TCP, window=most * 3))


def test_mistakes_are_reported_before_anything_runs(ends: Ends) -> None:
    with pytest.raises(ConfigError, match="udp needs a bitrate"):
        ends.measure(Traffic(Direction.TX, udp=True))
    assert ends.spawned == {"dut-1": [], "peer-1": []}


SHELL = LocalShell()


def gone(process: LocalProcess) -> bool:
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


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
    wait_until("the start", lambda: "started" in process.lines())
    assert process.stop().stdout == "started\n"
    assert process.poll() is not None
    wait_until("the end", lambda: gone(process))


def test_stopping_what_has_ended_is_harmless_and_keeps_its_status() -> None:
    process = SHELL.spawn("echo done; exit 4")
    process.wait(20)
    assert process.stop() == process.stop() == Completed(4, "done\n", "")
