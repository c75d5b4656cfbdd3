"""``pytest -n`` uses our scheduler if the user selects none."""

from __future__ import annotations

import re

import pytest

from tests.support.gate_project import NewProject, Project

QUICK = "duration=1, warmup=0.2, bitrate='20 Mbit/s', min='10 Mbit/s'"
TESTS = f"""
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board=["pi3b", "pi5"], nic="onboard")
def test_rate(link, gate, direction):
    gate.tcp(link, direction=direction, {QUICK})

@pytest.mark.parametrize("number", range(4))
def test_plain(number):
    pass
"""


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project({"test_workers.py": TESTS})


@pytest.mark.smoke
def test_combinations_with_the_same_nodes_stay_on_one_worker_and_others_go_side_by_side(project: Project) -> None:
    output = project.pytest("-n", "2", "-v")
    output.assert_outcomes(passed=8)
    output.stdout.fnmatch_lines(["scheduling tests via PlannedScheduling"])
    found = re.findall(r"\[(gw\d)\].*PASSED test_workers\.py::test_rate\[(\w+):", output.stdout.str())
    workers = {board: {worker for worker, other in found if other == board} for board in ("pi3b", "pi5")}
    assert len(found) == 4
    assert {len(names) for names in workers.values()} == {1}
    assert workers["pi3b"] != workers["pi5"]


def test_a_choice_of_the_user_stands(project: Project) -> None:
    output = project.pytest("-n", "1", "-v", "--dist", "load", "-k", "plain")
    output.assert_outcomes(passed=4)
    output.stdout.fnmatch_lines(["scheduling tests via LoadScheduling"])
