"""This machine as an end, with real processes and without ssh."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Completed, Spool

TERM_S = 1.5  # for a stopped command to end by itself; must be longer than ``timeout -k 1`` inside it
KILL_S = 2.0
ORPHAN_S = 0.2


class LocalProcess:
    """A command line in its own session and process group.

    Ctrl-C on the terminal does not reach it. ``stop`` reaches all its processes.
    """

    def __init__(self, command: str, env: Mapping[str, str] | None) -> None:
        assert "poweroff" not in command, "this would switch off the machine that runs the tests"
        self._stdout, self._stderr = Spool(), Spool()
        self._seen = 0
        self._popen = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=self._stdout.fileno,
            stderr=self._stderr.fileno,
            start_new_session=True,
            env=None if env is None else dict(env),
        )

    @property
    def pid(self) -> int:
        """Return the process group."""
        return self._popen.pid

    def poll(self) -> int | None:
        status = self._popen.poll()
        return 128 - status if status is not None and status < 0 else status

    def wait(self, timeout_s: float) -> Completed:
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the command still runs after {timeout_s:g} s") from None
        return self._completed()

    def stop(self) -> Completed:
        if self._popen.poll() is None or self._group_lives():
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a suspended process handles SIGTERM only after it continues
            if not self._gone_within(TERM_S):
                self._signal(signal.SIGKILL)
                self._popen.wait(KILL_S)
        return self._completed()

    def lines(self) -> list[str]:
        fresh = self._stdout.read(self._seen)
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._seen += len(complete)
        return complete.decode(errors="replace").splitlines()

    def _completed(self) -> Completed:
        status = self.poll()
        return Completed(
            returncode=137 if status is None else status,
            stdout=self._stdout.read().decode(errors="replace"),
            stderr=self._stderr.read().decode(errors="replace"),
        )

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._popen.pid, number)
        except ProcessLookupError:
            return

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._popen.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _gone_within(self, seconds: float) -> bool:
        """Return whether all processes ended in time. After the leader has ended, the others get only ORPHAN_S."""
        deadline = time.monotonic() + seconds
        leader_gone = False
        while time.monotonic() < deadline:
            if self._popen.poll() is not None:
                if not self._group_lives():
                    return True
                if not leader_gone:
                    leader_gone, deadline = True, min(deadline, time.monotonic() + ORPHAN_S)
            time.sleep(0.005)
        return False


class LocalShell:
    """Runs command lines on this machine. ``env`` replaces the environment of the commands."""

    def __init__(self, name: str = "runner", env: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._env = env

    @property
    def name(self) -> str:
        return self._name

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        process = self.spawn(command)
        try:
            return process.wait(timeout_s)
        except TimeoutError:
            raise SshError(
                f"{self._name} did not finish {command!r} within {timeout_s:g} s", f"look at the load of {self._name}"
            ) from None
        finally:
            process.stop()

    def spawn(self, command: str) -> LocalProcess:
        try:
            return LocalProcess(command, self._env)
        except OSError as error:
            raise SshError(
                f"{self._name} cannot start a process: {error}", f"free resources on {self._name}"
            ) from error


class RecordingShell(LocalShell):
    """Keeps the processes that it starts."""

    def __init__(self, name: str = "runner", env: Mapping[str, str] | None = None) -> None:
        super().__init__(name, env)
        self.spawned: list[LocalProcess] = []

    def spawn(self, command: str) -> LocalProcess:
        self.spawned.append(super().spawn(command))
        return self.spawned[-1]
