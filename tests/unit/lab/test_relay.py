"""``ssh`` and ``scp`` of a board reach its peer through the machine that runs pytest."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.lab.relay import PROGRAM, SOCKET, PeerRelay, feed
from tests.support.local_shell import LocalShell

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="commands on the peer run as root")


class Board:
    """A folder with the two programs, and the relay to the peer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("ssh", "scp"):
            shutil.copy(PROGRAM, folder / name)
            (folder / name).chmod(0o755)
        self.relay = PeerRelay(LocalShell("peer"))
        (folder / SOCKET).symlink_to(self.relay.path)

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        argv = [str(self.folder / name), *words]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, name: str, *words: str) -> tuple[int, str, str]:
        process = self.start(name, *words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    found = Board(tmp_path)
    try:
        yield found
    finally:
        found.relay.close()


def test_a_command_has_its_status_and_its_output(board: Board) -> None:
    assert board.run("ssh", "-q", "peer", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
    assert board.run("ssh", "-o", "ControlMaster=auto", "-q", "peer", "echo", "a", "b") == (0, "a b\n", "")


def test_a_file_is_copied_and_removed_at_the_end(board: Board, tmp_path: Path) -> None:
    (tmp_path / "helper").write_bytes(b"\x00\xffdata")
    (tmp_path / "helper").chmod(0o755)
    folder = Path("/tmp") / f"pinetrelay{os.getpid()}"
    board.run("ssh", "-q", "peer", f"mkdir {folder}")
    assert board.run("scp", str(tmp_path / "helper"), f"peer:{folder}/helper") == (0, "", "")
    assert (folder / "helper").read_bytes() == b"\x00\xffdata"
    assert (folder / "helper").stat().st_mode & 0o777 == 0o755
    board.relay.close()
    assert not folder.exists()


def test_a_command_ends_with_the_program_that_started_it(board: Board, tmp_path: Path) -> None:
    process = board.start("ssh", "-q", "peer", f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    process.communicate(timeout=30)
    pid = int((tmp_path / "pid").read_text())
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_closed_relay_is_reported(board: Board) -> None:
    board.relay.close()
    status, _, err = board.run("ssh", "-q", "peer", "true")
    assert status != 0
    assert "Error" in err


def test_bytes_are_fed_to_a_command(tmp_path: Path) -> None:
    assert feed(LocalShell("here"), f"cat >{tmp_path}/x", b"abc").returncode == 0
    assert (tmp_path / "x").read_bytes() == b"abc"
