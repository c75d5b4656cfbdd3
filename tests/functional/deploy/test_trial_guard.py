"""The guard of a trial boot as a real process: it reboots the board only when the heartbeat of a lease stops."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy.trial import LOG, PATH, POLL_S, SILENCE_S, TrialGuard, read_guard, script
from pytest_pinet.lab.lock_agent import BEAT_FILE, FOLDER
from pytest_pinet.tuning.setting import BootLines
from tests.support.local_shell import LocalShell
from tests.support.waiting import wait_until


def local(folder: Path) -> str:
    """Return the guard with all of its paths in a folder. It reads a line of the pipe ``ticks`` instead of sleeping."""
    text = script(f"{folder}/init")
    names = {
        "/dev/kmsg": "kmsg",
        "/proc/sysrq-trigger": "sysrq",
        f"{FOLDER}/lock": "lock",
        BEAT_FILE: "beat",
        LOG: "log",
    }
    for path, name in {**names, "[ -c /dev/watchdog ]": "", "/dev/watchdog": "dog"}.items():
        assert path in text
        text = text.replace(path, f"{folder}/{name}" if name else f"[ -e {folder}/dog ]")
    text = text.replace("reboot -f", "exit 0").replace("sleep 3", "true")
    assert text.count(f"sleep {POLL_S}") == 1
    return text.replace(f"sleep {POLL_S}", f"read -r tick <{folder}/ticks")


class Ticks:
    """The pipe that replaces the time of a guard."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Open for reading, too, so that the pipe keeps its lines while no process reads it.
        self._pipe = os.open(path, os.O_RDWR)

    def add(self, polls: int) -> None:
        """Let the guard look this many times."""
        os.write(self._pipe, b"\n" * polls)

    def pass_by(self, polls: int) -> None:
        """Let the guard look this many times, and wait until it has begun the last look."""
        self.add(polls)
        wait_until("the guard", lambda: not self._left)

    @property
    def _left(self) -> int:
        return int.from_bytes(fcntl.ioctl(self._pipe, termios.FIONREAD, bytes(4)), sys.byteorder)

    def close(self) -> None:
        os.close(self._pipe)


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"]], ids=["dash", "busybox"])
@pytest.mark.parametrize("watchdog", [True, False], ids=["watchdog", "none"])
def test_a_heartbeat_that_stops_reboots(tmp_path: Path, shell: list[str], watchdog: bool) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    (tmp_path / "init").write_text("#!/bin/sh\necho init $*\n")
    (tmp_path / "init").chmod(0o755)
    (tmp_path / "guard").write_text(local(tmp_path))
    if watchdog:
        (tmp_path / "dog").write_text("")
    ticks = Ticks(tmp_path / "ticks")
    process = subprocess.Popen(
        [*shell, str(tmp_path / "guard"), "splash"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        # The init program gets the words of the kernel. It keeps the process id.
        assert process.wait(20) == 0
        # Without a lock there is no heartbeat to wait for.
        word = "watchdog yes" if watchdog else "watchdog none"
        wait_until("the guard", lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text().strip() == word)
        most = SILENCE_S // POLL_S
        ticks.pass_by(most + 2)
        assert not (tmp_path / "sysrq").exists()
        (tmp_path / "lock").write_text("owner\n")
        for count in range(most + 2):
            (tmp_path / "beat").write_text(f"{count}\n")
            ticks.pass_by(1)
        # The guard may have read the last beat with the last look or with the one before.
        ticks.pass_by(most - 2)
        assert not (tmp_path / "sysrq").exists()
        ticks.add(2)
        wait_until("the reboot", (tmp_path / "sysrq").exists, 20)
        assert (tmp_path / "sysrq").read_text() == "b\n"
        assert "no heartbeat" in (tmp_path / "kmsg").read_text()
        assert bool(watchdog) == bool((tmp_path / "dog").exists() and (tmp_path / "dog").read_text())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        ticks.close()
        assert process.stdout is not None
        assert process.stdout.readline() == "init splash\n"
        process.stdout.close()


def test_the_kernel_starts_the_guard_which_goes_on_with_the_init_of_the_board() -> None:
    guard = TrialGuard("/usr/lib/systemd/systemd", watchdog=True)
    assert guard.lines(BootLines(cmdline=("quiet",))).cmdline == ("quiet", "init=/etc/pytest-pinet-guard")
    assert script(guard.init).endswith('exec /usr/lib/systemd/systemd "$@"\n')


@pytest.mark.parametrize(
    ("cmdline", "guard", "init"),
    [
        pytest.param("root=/dev/mmcblk0p2 rootwait", "", "/sbin/init", id="none-is-named"),
        pytest.param("init=/a init=/usr/lib/systemd/systemd quiet", "", "/usr/lib/systemd/systemd", id="last-word"),
        pytest.param(f"init={PATH} pinet.build=1", script("/opt/my init"), "/opt/my init", id="in-a-trial"),
        pytest.param(f"init={PATH} pinet.build=1", "", "/sbin/init", id="in-a-trial-without-its-guard"),
    ],
)
def test_the_init_program_of_the_known_good_build_is_found(cmdline: str, guard: str, init: str, tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_text(f"{cmdline}\n")
    (tmp_path / "guard").write_text(guard)

    class Board(LocalShell):
        def run(self, command: str, timeout_s: float = 10.0) -> Completed:
            here = command.replace("/proc/cmdline", f"{tmp_path}/cmdline").replace(PATH, f"{tmp_path}/guard")
            return super().run(here, timeout_s)

    assert read_guard(Board(), 60.0).init == init
