"""A gate at a terminal asks before it boots a build on a board without power control: yes, no, and the end of input."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.support.card_board import CardBoard
from tests.support.card_desk import desk_file, lock_of, obedient_board
from tests.support.gate_project import PINET
from tests.support.lock_board import LockBoard, lock_boards

pytestmark = pytest.mark.slow
TEST = """
import pytest

@pytest.mark.pinet(board="pi4b")
def test_rx(link, gate):
    gate.tcp(link, direction="rx")
"""
QUESTION = r"Boot builds there\? \[y/N\]"
REFUSED = "To boot builds there, add --yes"


@pytest.fixture
def board(tmp_path: Path) -> Iterator[CardBoard]:
    with obedient_board(tmp_path / "board") as made:
        yield made


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[LockBoard]:
    with lock_boards(tmp_path / "peers", "peer") as made:
        yield made["peer"]


def lab_file(folder: Path, board: CardBoard, peer: LockBoard) -> Path:
    """Add a peer to the lab file of the board."""
    file = desk_file(folder, board)
    text = file.read_text().replace("ports: [pi]", "ports: [pi, peer]")
    target = (
        f"  peer:\n    resources:\n      NetworkService: {{address: 127.0.0.1, port: {peer.port}, username: root}}\n"
        f"    drivers:\n      PiSSHDriver: {{keyfile: {peer.folder / 'key'}}}\n      PiStrategy: {{}}\n"
    )
    node = "    peer: {board: pi5, boot_timeout: 6 s, interfaces: {onboard: {port: cable/peer}}}\n"
    file.write_text(text.replace("pinet:\n", f"{target}pinet:\n") + node)
    return file


@pytest.mark.parametrize(
    ("answer", "boots"),
    [
        pytest.param("no\r", False, id="no"),
        pytest.param("\x04", False, id="end-of-input"),
        pytest.param("y\r", True, id="yes"),
    ],
)
def test_only_a_yes_boots_a_build(board: CardBoard, peer: LockBoard, tmp_path: Path, answer: str, boots: bool) -> None:
    file = lab_file(tmp_path, board, peer)
    (tmp_path / "test_change.py").write_text(TEST)
    (tmp_path / "build.yaml").write_text("name: same\ncmdline: same=1\n")
    before = len(board.booted_by)
    # Against accepted baselines, the build under test is booted first.
    gate = pexpect.spawn(
        PINET,
        ["gate", "build.yaml", "--against=accepted", f"--lab={file}", "-p", "no:cacheprovider", "test_change.py"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "200"},
        encoding="utf-8",
        timeout=60,
        dimensions=(40, 200),
    )
    try:
        gate.expect(QUESTION)
        assert "pi has neither power control nor a hardware watchdog (/dev/watchdog)" in gate.before
        assert len(board.booted_by) == before
        gate.send(answer)
        gate.expect(pexpect.EOF)
        text = gate.before
        gate.wait()
    finally:
        gate.close(force=True)
    assert not lock_of(board).exists()
    assert (REFUSED in text) == (not boots), text
    # After the boots no link opens: the board has the NICs of this machine.
    assert gate.exitstatus in ((2, 3) if boots else (4,)), text
    assert any(name.startswith("pytest-pinet/") for name in board.booted_by[before:]) == boots
