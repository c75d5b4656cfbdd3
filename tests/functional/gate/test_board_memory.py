"""What a run finds out about boards outlives it: another runner of the same history sees it until a user clears it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.doctor_command import CommandAnswer, pinet
from tests.support.gate_project import GateLab, Project

pytestmark = pytest.mark.slow

TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="6 Mbit/s")
def test_rate(link, gate):
    gate.tcp(link, direction="tx")
"""
# The tests are about what boards remember. Programs of the machine that runs them would make low values invalid.
CONFTEST = """
from pytest_pinet.evidence import other_work

other_work._read_here = lambda: None
"""
# The doctor clears no board with a busy processor. All nodes share the processors of the test machine.
ON_A_BUSY_MACHINE = """
from pytest_pinet.cli import main
from pytest_pinet.doctor import disturbances

disturbances.BUSY_SHARE = 1.0
main()
"""
BROKEN = "pi3b-1"
Runner = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture
def runner(tmp_path_factory: pytest.TempPathFactory, gate_lab: GateLab, store: Path) -> Callable[[str], Runner]:
    """Make a runner: a folder of its own with a lab file without launcher, whose values count as measured.

    The links have a tenth of their rate, which a busy machine can carry, too.
    """

    def make(name: str) -> Runner:
        project = Project(tmp_path_factory.mktemp(name), gate_lab)
        project.write("test_it.py", TEST)
        project.write("conftest.py", CONFTEST)
        (project.path / "bench.yaml").write_text(gate_lab.text_without_launcher())

        def run() -> list[dict[str, Any]]:
            project.pytest(
                f"--pinet-history={store}",
                lab_file=project.path / "bench.yaml",
                **gate_lab.environment,  # type: ignore[arg-type]
            )
            found = project.results
            return [*found["results"], *found["skipped"]]

        return run

    return make


@pytest.fixture
def doctor(tmp_path: Path, gate_lab: GateLab, store: Path) -> Callable[..., CommandAnswer]:
    file = tmp_path / "bench.yaml"
    file.write_text(gate_lab.text_without_launcher())
    words = ("doctor", "--lab", str(file), "--history", str(store), "--json", BROKEN)
    program = (sys.executable, "-c", ON_A_BUSY_MACHINE)
    return lambda *more: pinet(gate_lab, *words, *more, program=program)


def of_earlier_runs(answer: CommandAnswer) -> list[tuple[object, object]]:
    return [(one["node"], one["status"]) for one in answer.findings if one["check"] == "earlier runs"]


def suspicions(result: dict[str, Any]) -> list[str]:
    return [note for note in result["notes"] if f"{BROKEN} is suspected since " in note]


def test_a_suspicion_reaches_another_runner_until_the_doctor_clears_it(
    runner: Callable[[str], Runner], doctor: Callable[..., CommandAnswer], gate_lab: GateLab
) -> None:
    one, other = runner("one"), runner("other")
    gate_lab.degrade(f"{BROKEN}:onboard", "--rate", "0.4", "--direction", "tx")
    try:
        (first,) = one()
        assert (first["verdict"], first["second_board"]["verdict"], suspicions(first)) == ("fail", "pass", [])
        (second,) = other()
        (note,) = suspicions(second)
        assert "failed on pi3b-1:onboard, but not on pi3b-2:onboard, of the same kind" in note
    finally:
        gate_lab.restore()
    assert of_earlier_runs(doctor()) == [(BROKEN, "unknown")]
    cleared = doctor("--clear")
    assert f"{BROKEN} is no longer suspected" in cleared.errors
    assert of_earlier_runs(cleared) == []


def test_a_board_out_of_service_is_skipped_by_another_runner_until_the_doctor_clears_it(
    runner: Callable[[str], Runner], doctor: Callable[..., CommandAnswer], gate_lab: GateLab
) -> None:
    one, other = runner("one"), runner("other")
    gate_lab.switch_power(False, BROKEN)
    gate_lab.degrade(BROKEN, "--panic", "boot")
    try:
        (first,) = one()
        assert first["verdict"] == "error"
        (second,) = other()
        assert f"{BROKEN} is skipped for the rest of this run: out of service since " in second["reason"]
        # The doctor does not put back a board that is broken.
        answer = doctor("--clear")
        assert (BROKEN, "wrong") in of_earlier_runs(answer)
    finally:
        gate_lab.restore()
    cleared = doctor("--clear")
    assert f"{BROKEN} is back in service" in cleared.errors
    assert of_earlier_runs(cleared) == []
    (third,) = other()
    assert third["verdict"] == "pass"
