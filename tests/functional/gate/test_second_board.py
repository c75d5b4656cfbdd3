"""A regression is measured on a second board of the same kind, if one is free; the result and the summary say so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_project import GateLab, Project

TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="60 Mbit/s")
def test_rate(link, gate):
    gate.tcp(link, direction="tx")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, full_rate_lab: GateLab) -> Project:
    """Return a project whose lab file names no launcher: its values count as measured."""
    project = Project(tmp_path_factory.mktemp("second-board"), full_rate_lab)
    project.write("test_it.py", TEST)
    (project.path / "bench.yaml").write_text(full_rate_lab.text_without_launcher())
    return project


def run(project: Project, *degraded: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    """Run the test while these interfaces are slow. Return its output and its one result."""
    lab = project.lab
    for end in degraded:
        lab.degrade(end, "--rate", "0.4", "--direction", "tx")
    try:
        output = project.pytest(lab_file=project.path / "bench.yaml", **lab.environment)  # type: ignore[arg-type]
    finally:
        lab.restore()
    (result,) = project.results["results"]
    return output, result


@pytest.mark.slow
def test_a_second_board_that_passes_points_at_the_first_board(project: Project) -> None:
    output, result = run(project, "pi3b-1:onboard")
    output.assert_outcomes(failed=1)
    second = result["second_board"]
    assert (result["verdict"], second["end"], second["verdict"]) == ("fail", "pi3b-2:onboard", "pass")
    assert second["text"].endswith("look at pi3b-1:onboard, its cable and port sw1/p1")
    output.stdout.fnmatch_lines(["*on a second board: 0 confirmed, 1 not confirmed*"])


@pytest.mark.slow
def test_a_second_board_that_fails_confirms_the_regression(project: Project) -> None:
    output, result = run(project, "pi3b-1:onboard", "pi3b-2:onboard")
    output.assert_outcomes(failed=1)
    assert (result["verdict"], result["second_board"]["verdict"]) == ("fail", "fail")
    assert result["second_board"]["text"].startswith("confirmed on a second board: pi3b-2:onboard fails, too (tx ")
    output.stdout.fnmatch_lines(["*on a second board: 1 confirmed, 0 not confirmed*"])
