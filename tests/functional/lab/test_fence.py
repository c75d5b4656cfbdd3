"""A suspended run whose board was taken over writes nothing more there: SIGSTOP of a real process, over a real sshd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.lab import board_locks
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.places import open_places
from tests.support.card_board import CardBoard
from tests.support.card_desk import desk_file, lock_of, obedient_board
from tests.support.lock_board import elsewhere
from tests.support.waiting import wait_until

BEAT_S, DEAD_S = 0.3, 2.0
# Deploys a build, and suspends itself just before the first command that contains a text.
_RUN = """
import os, signal, sys

from pytest_pinet.builds.load import load_build
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LabError
from pytest_pinet.lab import board_locks as locks
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.ssh import SshShell

lab, build, text = sys.argv[1:]
locks.BEAT_S = 0.3
send, waiting = SshShell._run, [text]

def suspend_and_send(self, command, *rest):
    if waiting and waiting[0] in command:
        waiting.clear()
        os.kill(os.getpid(), signal.SIGSTOP)
    return send(self, command, *rest)

SshShell._run = suspend_and_send
session = LabAccess(load(lab), Identity.of_this_process(), 20.0, print)
try:
    (node,) = session.pool.get([session.lab.nodes["pi"]], 20.0)
    node.deployment.start(load_build(build))
    print("the build runs")
except LabError as error:
    print(f"{type(error).__name__}: {error.message}")
print("closed:", session.close())
"""
STEPS = {
    "journal": "/pytest-pinet/journal",
    "upload": "tar -xof -",
    "copy": "cp /boot/firmware/kernel8.img",
    "arm": "vcmailbox 0x00038064 4 0 1",
    "try": "|| reboot; }",
    "plain": "true; reboot; }",
}


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CardBoard]:
    monkeypatch.setattr(board_locks, "BEAT_S", BEAT_S)
    monkeypatch.setattr(board_locks, "DEAD_S", DEAD_S)
    # A proof of a trial boot is kept in the cache.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with obedient_board(tmp_path / "board") as made:
        yield made


def is_suspended(process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# One step in each run of the tests. All take two minutes.
@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step == "try" else pytest.mark.slow) for step in STEPS]
)
def test_a_suspended_run_changes_nothing_on_a_board_that_another_run_holds(
    board: CardBoard, tmp_path: Path, step: str
) -> None:
    before = files(board)
    file = desk_file(tmp_path, board)
    (tmp_path / "build.yaml").write_text("name: same\ncmdline: same=1\n")
    argv = [sys.executable, "-c", _RUN, str(file), str(tmp_path / "build.yaml"), STEPS[step]]
    run = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    other = elsewhere(Identity.of_this_process())
    lab = load(file)
    places = open_places(lab, Targets(lab), other)
    leases = Leases(places, lambda _: None, lambda _: None)
    try:
        wait_until("the step", lambda: is_suspended(run), 60.0)
        leases.acquire(["pi"], 60.0)
        found, boots, armed = files(board), list(board.booted_by), (board.folder / "tryboot").exists()
        os.kill(run.pid, signal.SIGCONT)
        said, _ = run.communicate(timeout=60)
        assert "LeaseError: the lock on pi was lost during the test, and is held by " in said
        assert f"({other})" in said
        assert "the build runs" not in said
        assert files(board) == found
        assert (board.folder / "tryboot").exists() == armed
        assert board.booted_by == boots
        assert str(other) in lock_of(board).read_text()
    finally:
        run.kill()
        run.communicate()
        leases.release(leases.held)
        places.close()
    # The next user finds and removes what the suspended run had written before.
    session = LabAccess(lab, Identity.of_this_process(), 20.0, lambda _: None)
    try:
        (node,) = session.pool.get([lab.nodes["pi"]], 20.0)
        assert "same=1" not in node.shell.run("cat /proc/cmdline").stdout
    finally:
        session.close()
    assert files(board) == before


def files(board: CardBoard) -> dict[str, bytes]:
    return {name: data for name, data in board.files().items() if "pinet-lease" not in name}
