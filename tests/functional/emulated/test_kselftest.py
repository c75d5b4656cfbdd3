"""A selftest of the kernel's own source runs on an emulated board; nothing of it stays there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulated_gate import NEEDS, card_or_skip, gate_text
from tests.support.gate_project import GateLab, Project
from tests.support.kselftests import TREE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    *NEEDS,
    pytest.mark.skipif(not TREE, reason="$KERNEL_TREE names no kernel tree"),
]
# Python starts within a minute on such a board.
TEST = """
import pytest

from tests.support.board_python import python_on

@pytest.mark.pinet(board="virt", nic="e1000e", topology="pair")
def test_ping(link, gate):
    board = link.dut.shell
    with python_on(board):
        before = board.run("ls -A /tmp /root").stdout
        found = gate.kselftest(link, "drivers/net:ping.py", timeout="20 min")
        assert board.run("ls -A /tmp /root").stdout == before
    assert "ping.test_v4" in found.passed
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[GateLab]:
    file = tmp_path / "emulated.yaml"
    file.write_text(gate_text())
    with card_or_skip():
        lab = GateLab(file)
    try:
        yield lab
    finally:
        lab.down()


def test_the_upstream_ping_test_runs_on_a_board(lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project", lab)
    project.write("test_it.py", TEST)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    )
    done = project.pytest(f"--pinet-kselftest={TREE}", timeout_s=1800)
    text = done.stdout.str()
    (result,) = project.results["results"]
    ktap = (project.path / ".pinet/latest" / result["files"][0]).read_text()
    assert result["verdict"] == "pass", f"{text}\n{ktap}"
    assert "ok 1 selftests: drivers/net: ping.py" in ktap
    assert {one["name"]: one["outcome"] for one in result["kselftest"]["results"]}["ping.test_v4"] == "pass"
    assert "could not undo" not in text
