"""The gate of this repository, as `make gate` runs it, on a healthy lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gate_project import NewProject

pytestmark = pytest.mark.smoke

GATE = Path(__file__).parents[3] / "pytest_pinet" / "suites" / "test_line_rate.py"


def test_every_nic_of_a_board_passes_each_way(new_project: NewProject) -> None:
    project = new_project({})
    # On a busy machine, links carry less than the limits of the suite. tests/soak/test_accuracy.py has their accuracy.
    options = ("-p", "no:cacheprovider", f"--pinet-run-dir={project.path}", "--pinet-board=pi4b", "--pinet-min=50%")
    output = project.pytest(str(GATE), *options, timeout_s=240)
    assert output.ret == 0
    assert set(project.verdicts.values()) <= {"pass", "marginal"}
    measured = [(result["combination"]["id"], *result["directions"]) for result in project.results["results"]]
    nics = ("onboard", "ax88179", "rtl8153")
    assert sorted(measured) == sorted((f"pi4b:{nic}/pair", way) for nic in nics for way in ("tx", "rx"))
    # An adapter carries less than its link, and a different rate in each direction.
    values = {
        (result["combination"]["id"], way): value["goodput_bps"]
        for result in project.results["results"]
        for way, value in result["directions"].items()
    }
    assert values["pi4b:ax88179/pair", "tx"] < 750e6 < values["pi4b:ax88179/pair", "rx"]
