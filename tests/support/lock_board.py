"""Boards that are leased by their lock files: a real sshd with its own /var/lib and /run, which can reboot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.lab.board_locks import BoardLocks
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lock_agent import Agent
from tests.support.ports import free_port
from tests.support.sshd_settings import sshd_settings, start_board
from tests.support.waiting import wait_until

_INIT = """
set -e
mount --make-rprivate /
mount --bind $BOARD/var /var/lib
mount -t tmpfs tmpfs /run
mkdir /run/sshd
exec /usr/sbin/sshd -D -e -f $BOARD/sshd_config
"""


class LockBoard:
    """A board in namespaces. ``/var/lib`` survives a reboot, ``/run`` does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "var").mkdir(parents=True)
        (folder / "sshd_config").write_text(sshd_settings(folder, "127.0.0.1", self.port))

    @property
    def lock(self) -> Path:
        """The lock file, as it is on the board."""
        return self.folder / "var/pinet-lease/lock"

    @property
    def login(self) -> str:
        return f"-p {self.port} root@127.0.0.1"

    def argv(self, *options: str) -> list[str]:
        """Return the command that runs a command line on the board."""
        options = ("LogLevel=ERROR", "BatchMode=yes", "ConnectTimeout=5", "StrictHostKeyChecking=no", *options)
        words = [word for option in (*options, "UserKnownHostsFile=/dev/null") for word in ("-o", option)]
        return ["ssh", "-xT", "-F", "none", *words, "-i", str(self.folder / "key"), *self.login.split(), "--"]

    def on(self) -> None:
        """Boot, and wait until ssh answers."""
        self._process = start_board(_INIT, self.folder, "BOARD")
        wait_until("sshd", lambda: subprocess.run([*self.argv(), "true"], check=False).returncode == 0)

    def off(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def lock_boards(folder: Path, *names: str) -> Iterator[dict[str, LockBoard]]:
    """Yield booted boards."""
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if shutil.which("sshd", path="/usr/sbin:/sbin") is None:
        pytest.skip("sshd is not installed")
    boards = {name: LockBoard(folder / name) for name in names}
    try:
        for board in boards.values():
            board.on()
        yield boards
    finally:
        for board in boards.values():
            board.off()


def elsewhere(identity: Identity) -> Identity:
    """Return the identity of this process as if it ran on another machine, whose processes cannot be seen here."""
    user = identity.user.split("-")
    return Identity("otherhost", "-".join([*user[:4], "0123abcd", *user[5:]]))


def locks(boards: dict[str, LockBoard], identity: Identity | None = None) -> BoardLocks:
    """Return the locks of these boards, for a process of this identity (None: this process)."""
    agents = {name: Agent(name, board.argv(), board.login) for name, board in boards.items()}
    return BoardLocks(identity or Identity.of_this_process(), agents)


# Leases boards many times, and writes a line to a file before and after each use. In the end it holds the rest.
_HOLDER = """
import json, random, sys, time
from pytest_pinet.lab import board_locks as locks
from pytest_pinet.lab.lock_agent import Agent
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lease import Leases

job = json.loads(sys.argv[1])
locks.BEAT_S = job["beat_s"]
identity = Identity.of_this_process(job["worker"])
if job["host"] != "here":
    user = identity.user.split("-")
    identity = Identity(job["host"], "-".join([*user[:4], "0123abcd", *user[5:]]))
keeper = locks.BoardLocks(identity, {name: Agent(name, *way) for name, way in job["ways"].items()})
leases = Leases(keeper, lambda places: None, lambda text: None)
with open(job["log"], "a", buffering=1) as log:
    for number in range(job["rounds"]):
        wanted = random.sample(list(job["ways"]), random.choice([1, 2]))
        leases.acquire(wanted, 60)
        for place in wanted:
            log.write(f"begin {place}\\n")
        leases.check(wanted)
        for place in wanted:
            log.write(f"end {place}\\n")
        leases.release(leases.held)
if job["hold"]:
    leases.acquire(job["hold"], 30)
    print("holding", flush=True)
    time.sleep(120)
keeper.close()
"""


def holder(
    boards: dict[str, LockBoard], log: Path, hold: tuple[str, ...] = (), rounds: int = 0, host: str = "here"
) -> subprocess.Popen[str]:
    """Start a process that leases the boards many times, and in the end holds some of them."""
    ways = {name: (board.argv(), board.login) for name, board in boards.items()}
    job = {"beat_s": 0.2, "worker": "w1", "host": host, "ways": ways, "log": str(log), "rounds": rounds, "hold": hold}
    command = [sys.executable, "-c", _HOLDER, json.dumps(job)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def await_holding(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "holding" in line, line + process.stdout.read()
