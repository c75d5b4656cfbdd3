"""Nodes out of service, in one process and among the workers of a run."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.lab.node.node_pool import LONGEST_REASON, Quarantine


def test_without_a_folder_the_quarantine_holds_for_one_process() -> None:
    quarantine = Quarantine(None)
    assert quarantine.reason("pi1") is None
    quarantine.add("pi1", "no answer")
    assert quarantine.reason("pi1") == "no answer"
    assert Quarantine(None).reason("pi1") is None


def test_workers_share_the_quarantine_and_the_first_reason_stays(tmp_path: Path) -> None:
    one, two = (Quarantine(tmp_path / "quarantine") for _ in range(2))
    assert two.reason("pi1") is None
    one.add("pi1", "no answer\n")
    assert two.reason("pi1") == "no answer"
    two.add("pi1", "another")
    assert Quarantine(tmp_path / "quarantine").reason("pi1") == "no answer"
    assert two.reason("pi2") is None
    assert [path.name for path in (tmp_path / "quarantine").iterdir()] == ["pi1"]


def test_with_an_unwritable_folder_the_quarantine_holds_for_one_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    quarantine = Quarantine(tmp_path / "file")
    quarantine.add("pi1", "x" * 1000)
    assert quarantine.reason("pi1") == "x" * LONGEST_REASON
