"""The history after a run, with workers and without SQLAlchemy, and the commands that read it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_pinet.history.history import open_history
from pytest_pinet.model.verdict import Verdict
from tests.support.gate_project import PINET, NewProject, Project

QUICK = "duration=1, warmup=0.2, bitrate='20 Mbit/s', min='10 Mbit/s'"
TESTS = f"""
import pytest

@pytest.mark.pinet(board=["pi3b", "pi5"], nic="onboard")
def test_rate(link, gate):
    gate.tcp(link, {QUICK})
"""
# Other runs may measure on this host, and then this one waits.
LONGEST_S = 400
FIGURES = ["pi3b:onboard/pair/tcp-P1-b20M-tx", "pi5:onboard/pair/tcp-P1-b20M-tx"]


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project({"test_history.py": TESTS})


def pinet(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PINET, *words],
        cwd=project.path,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_runs_with_and_without_workers_make_one_history(project: Project) -> None:
    project.pytest("-n", "2", timeout_s=LONGEST_S).assert_outcomes(passed=2)
    output = project.pytest(timeout_s=LONGEST_S)
    output.assert_outcomes(passed=2)
    # Each result in the table, and its trend in a line below.
    output.stdout.fnmatch_lines_random(
        [
            "pi3b:onboard/pair *tx * pass",
            "pi5:onboard/pair *tx * pass",
            "trend of the last 16 runs, newest at the right*",
        ]
    )
    output.stdout.fnmatch_lines([f"{figure} *[[]??]*" for figure in FIGURES])
    summary = output.stdout.str().partition("pinet throughput")[2]
    assert [line for line in summary.splitlines()[1:] if len(line) > 80] == []
    with open_history(str(project.path / ".pinet" / "history.db")) as history:
        runs = history.runs()
        trends = [history.trend(figure.id) for figure in history.figures()]
    assert [run.verdicts for run in runs] == [{"pass": 2}, {"pass": 2}]
    assert len({run.session for run in runs}) == 2
    assert [trend.figure for trend in trends] == FIGURES
    for trend in trends:
        assert [point.verdict for point in trend.points] == [Verdict.PASS, Verdict.PASS]
        assert all(point.emulated and point.parameters and point.build["uname"] for point in trend.points)
        assert trend.points[0].parameters == trend.points[1].parameters
        assert all((Path(point.folder) / path).is_file() for point in trend.points for path in point.artefacts)
    # The same commands as a user runs them.
    assert pinet(project, "history", "import", ".pinet/latest").returncode == 4
    assert pinet(project, "history", "import", ".pinet/latest/results.json").stdout == "1 run read, 0 of them new\n"
    assert pinet(project, "history", "pi5:*").stdout.startswith(FIGURES[1])
    assert pinet(project, "compare", "latest~1", "latest", "--tolerance", "50").returncode == 0
    assert pinet(project, "summary", "--format", "md").stdout.startswith("## Throughput holds: all 2 measurements")
    assert pinet(project, "export", "--format", "openmetrics").stdout.endswith("# EOF\n")


@pytest.mark.slow
def test_a_history_that_cannot_be_written_costs_no_figure(project: Project) -> None:
    (project.path / "no").mkdir(exist_ok=True)
    (project.path / "no" / "sqlalchemy.py").write_text("raise ImportError('not here')\n")
    output = project.pytest("-k", "pi5", timeout_s=LONGEST_S, PYTHONPATH=str(project.path / "no"))
    output.assert_outcomes(passed=1, deselected=1)
    output.stdout.fnmatch_lines(
        ["pinet: history needs SQLAlchemy: pip install *", "this run is not in the history; later: *results.json"]
    )
    assert output.ret == 0
