"""Which limit applies: the report names it. And errors that no limit can hide."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate_project import LAB_FILE, PINET, GateLab, NewProject, Project, lab_text

pytestmark = pytest.mark.slow

# A set bitrate fixes the goodput, so one second is enough.
TESTS = """
import pytest

SLOW = dict(duration=1, warmup=0.5, bitrate="20 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_lab_file(link, gate):
    gate.tcp(link, duration=1)

@pytest.mark.pinet(board="pi3b", nic="onboard", min="10 Mbit/s")
def test_marker(link, gate):
    gate.tcp(link, direction="tx", **SLOW)

@pytest.mark.pinet(board="pi3b", nic="onboard", min="10 Mbit/s")
def test_call(link, gate):
    gate.tcp(link, direction="tx", min="15 Mbit/s", **SLOW)

@pytest.mark.pinet(board="pi3b", nic="onboard", min="10 Mbit/s")
def test_command_line(link, gate):
    gate.tcp(link, direction="rx", duration=1)

@pytest.mark.pinet(board="pi3b", nic="onboard", min={"bidir": "10 Mbit/s"})
def test_bidir(link, gate):
    values = gate.tcp(link, direction="bidir", **SLOW)
    assert values["tx"].bps > 15e6
    assert values["rx"].bps > 15e6
"""


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Iterator[tuple[Project, pytest.RunResult]]:
    project = new_project({"test_limits.py": TESTS})
    gate_lab.switch_power(True, "pi3b-1", "cm4-1")
    gate_lab.await_boot("pi3b-1", "cm4-1")
    gate_lab.degrade("pi3b-1:onboard", "--rate", "0.4", "--direction", "rx")
    yield project, project.pytest("--pinet-min", "pi3b:onboard=rx=60 Mbit/s")
    gate_lab.restore()
    gate_lab.switch_power(False, "pi3b-1", "cm4-1")


def directions(run: tuple[Project, pytest.RunResult], test: str) -> dict[str, dict[str, Any]]:
    results = run[0].results["results"]
    found: dict[str, dict[str, Any]] = next(r["directions"] for r in results if f"::{test}[" in r["test"])
    return found


def test_the_lab_file_holds_where_nothing_else_is_said(
    run: tuple[Project, pytest.RunResult], gate_lab: GateLab
) -> None:
    line = next(n for n, t in enumerate(LAB_FILE.read_text().splitlines(), 1) if "{min: 94%}" in t)
    limit = directions(run, "test_lab_file")["tx"]["limit"]
    assert (limit["words"], limit["source"]) == ("94% of 94.1 Mbit/s", f"{gate_lab.file}:{line}")


@pytest.mark.parametrize(
    ("test", "direction", "verdict", "words", "source"),
    [
        ("test_marker", "tx", "pass", "10.0 Mbit/s", "min='10 Mbit/s' of the marker"),
        ("test_call", "tx", "pass", "15.0 Mbit/s", "min='15 Mbit/s' of the call"),
        ("test_command_line", "rx", "fail", "60.0 Mbit/s", "--pinet-min pi3b:onboard=rx=60 Mbit/s"),
    ],
)
def test_the_limit_that_won_is_named(
    run: tuple[Project, pytest.RunResult], test: str, direction: str, verdict: str, words: str, source: str
) -> None:
    figures = directions(run, test)[direction]
    limit = figures["limit"]
    assert (figures["verdict"], limit["words"], limit["source"]) == (verdict, words, source)
    assert limit["number"] == float(words.split()[0]) * 1e6


def test_only_the_figure_below_its_limit_fails(run: tuple[Project, pytest.RunResult]) -> None:
    run[1].assert_outcomes(passed=4, failed=1)
    run[1].stdout.fnmatch_lines(["rx 3?.? Mbit/s is * % below the limit 60.0 Mbit/s*"])


def test_the_command_that_repeats_a_failure_has_its_limit(run: tuple[Project, pytest.RunResult]) -> None:
    failed = next(r for r in run[0].results["results"] if r["verdict"] == "fail")
    assert failed["rerun"].endswith("'--pinet-min=pi3b:onboard=rx=60 Mbit/s'")


def test_a_bidirectional_run_gives_both_directions(run: tuple[Project, pytest.RunResult]) -> None:
    figures = directions(run, "test_bidir")
    assert sorted(figures) == ["rx", "tx"]
    for direction in figures.values():
        assert direction["goodput_bps"] == pytest.approx(20e6, rel=0.2)
        assert direction["limit"]["source"] == "min={'bidir': '10 Mbit/s'} of the marker"


def test_what_failed_ends_a_run_that_is_to_end_and_can_be_repeated_alone(run: tuple[Project, pytest.RunResult]) -> None:
    project = run[0]
    for options in (("-x", "-k", "command_line or bidir"), ("--lf",)):
        project.pytest(*options, "--pinet-min", "pi3b:onboard=rx=60 Mbit/s")
        assert project.verdicts == {"test_command_line[pi3b:onboard/pair]": "fail"}


SHARED = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", topology="incast:3")
def test_incast(link, gate):
    gate.tcp(link, duration=1, share="50%")
"""


def test_a_share_that_is_too_small_fails_and_names_the_flow(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_it.py": SHARED})
    gate_lab.degrade("pi4b-2:onboard", "--rate", "0.03", "--direction", "tx")
    try:
        done = project.pytest()
    finally:
        gate_lab.restore("pi4b-2:onboard")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["pi4b-2:onboard>pi4b-1:onboard got * % of its fair share, below the limit 50%*"])
    assert project.verdicts == {"test_incast[pi4b:onboard/incast:3]": "fail"}


# A lab that is not running, and whose file claims a slower bus for a gigabit adapter.
WRONG_BUS = "  nics:\n    tester: {driver: r8152, bus: usb2, speeds_mbps: [1000]}\n\n  nodes:"
INVALID = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="tester", min="10 Mbit/s")
def test_too_fast(link, gate):
    gate.tcp(link, duration=1)

@pytest.mark.pinet(board="pi3b", nic="onboard", min="10 Mbit/s")
def test_slow(link, gate):
    gate.tcp(link, duration=1, warmup=0.5, bitrate="20 Mbit/s")
"""


def status(file: Path) -> dict[str, Any]:
    argv = [PINET, "lab", "status", "--lab", str(file), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(argv, capture_output=True, timeout=20, check=False).stdout)
    return found


@pytest.fixture(scope="module")
def too_fast(new_project: NewProject) -> tuple[Project, pytest.RunResult, dict[str, Any]]:
    """Return the run, and the output of `pinet lab status` after it."""
    project = new_project({"test_invalid.py": INVALID})
    text = lab_text().replace("\n  nodes:", f"\n{WRONG_BUS}", 1)
    text = text.replace("usb: {nic: rtl8153,", "usb: {nic: tester,", 1)
    own = [line for line in text.splitlines() if "nic: rtl8153, direction" not in line]
    project.write("wrong.yaml", "\n".join(own))
    file = project.path / "wrong.yaml"
    assert status(file) == {"up": False}
    output = project.pytest("-v", lab_file=file)
    return project, output, status(file)


def test_a_figure_above_the_physical_limit_is_invalid_and_not_a_pass(
    too_fast: tuple[Project, pytest.RunResult, dict[str, Any]],
) -> None:
    project, output, _ = too_fast
    output.assert_outcomes(errors=1, passed=1)
    assert list(project.verdicts.values()) == ["invalid", "pass"]
    figures = project.results["results"][0]["directions"]["tx"]
    assert figures["goodput_bps"] > 1.5 * figures["oracle_bps"]
    output.stdout.fnmatch_lines(
        [
            "*= INVALID =*",
            "_* test_too_fast*",
            "tx * Mbit/s is above the physical limit 426.0 Mbit/s (usb2 bus, 426.0*",
            "pi4b:tester/pair * tx * 10.0 * INVALID",
        ]
    )


def test_a_lab_that_was_not_up_is_started_and_stopped(
    too_fast: tuple[Project, pytest.RunResult, dict[str, Any]],
) -> None:
    _, output, afterwards = too_fast
    assert output.ret == pytest.ExitCode.TESTS_FAILED
    assert afterwards == {"up": False}


def test_a_lab_that_was_up_stays_up(run: tuple[Project, pytest.RunResult], gate_lab: GateLab) -> None:
    assert gate_lab.status()["nodes"]
