"""Parts of the suite everyday on a board whose clock counts instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.emulated_gate import NEEDS, card_or_skip, gate_text
from tests.support.gate_project import GateLab, Project

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]


def test_both_ways_at_once_and_a_first_second_have_values(tmp_path: Path) -> None:
    """iperf3 gives what such a board received the time of its peer."""
    file, folder = tmp_path / "emulated.yaml", tmp_path / "project"
    file.write_text(gate_text())
    folder.mkdir()
    with card_or_skip():
        project = Project(folder, GateLab(file))
    words = ("--pyargs", "pytest_pinet.suites.test_everyday", "-k", "test_both_ways or test_idle")
    try:
        done = project.pytest(*words, "--pinet-profile=standard", "--pinet-nic=e1000e", timeout_s=1200)
    finally:
        project.lab.down()
    results = project.results["results"]
    assert len(results) == 2, done.stdout.str()
    assert {one["verdict"] for one in results} <= {"pass", "marginal"}, done.stdout.str()
    assert all(way["goodput_bps"] for one in results for way in one["directions"].values())
