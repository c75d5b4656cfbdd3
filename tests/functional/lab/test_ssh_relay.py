"""A board reaches its peer over our ssh connection to it, by a real sshd."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.lab.relay import PROGRAM, SOCKET, PeerRelay, feed
from pytest_pinet.lab.ssh import SshConnection, SshShell, ssh_words
from tests.support.local_shell import LocalShell
from tests.support.ports import free_port
from tests.support.sshd_settings import sshd_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists(), reason="needs root and sshd"),
]
STARTS_WITHIN_S = 60.0


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def board(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SshShell]:
    port = free_port()
    settings = sshd_settings(tmp_path, "127.0.0.1", port) + getattr(request, "param", "")
    (tmp_path / "sshd_config").write_text(settings)
    Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen(
        ["/usr/sbin/sshd", "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not listens(port) and time.monotonic() < deadline:
            time.sleep(0.05)
        words = ssh_words(f"root@127.0.0.1:{port}", str(tmp_path / "key"))
        connection = SshConnection("board", "127.0.0.1", words, STARTS_WITHIN_S)
        try:
            yield connection.shell
        finally:
            connection.close()
    finally:
        process.terminate()
        process.wait()


def test_the_board_runs_a_command_on_the_peer(board: SshShell, tmp_path: Path) -> None:
    relay = PeerRelay(LocalShell("peer"))
    folder = tmp_path / "board"
    folder.mkdir()
    assert feed(board, f"cat >{folder}/ssh && chmod 755 {folder}/ssh", PROGRAM).returncode == 0
    board.forward_socket(f"{folder}/{SOCKET}", relay.path)
    try:
        done = board.run(f"{folder}/ssh -q peer 'echo from the peer; exit 5'", 60)
        assert (done.returncode, done.stdout) == (5, "from the peer\n"), done.stderr
    finally:
        board.forward_socket(f"{folder}/{SOCKET}", relay.path, undo=True)
        relay.close()
    assert board.run(f"{folder}/ssh -q peer true", 60).returncode != 0


@pytest.mark.parametrize("board", ["AllowStreamLocalForwarding no\n"], indirect=True)
def test_a_board_that_forbids_it_is_named(board: SshShell, tmp_path: Path) -> None:
    with pytest.raises(SshError, match=r"ssh to board forwards no socket: .*") as caught:
        board.forward_socket(f"{tmp_path}/{SOCKET}", tmp_path / "none")
    assert "AllowStreamLocalForwarding" in str(caught.value.act)
