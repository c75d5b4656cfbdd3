"""A project whose tests end with a chosen verdict, without a lab. pytest, gate, reports and summary are real."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_pinet.lab.access import LabAccess
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.lab import Node
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.verdict import GOOD, Verdict
from pytest_pinet.report.result_record import result_record
from pytest_pinet.session.dry_run import PlannedLink
from pytest_pinet.session.fixtures import pinet_session
from pytest_pinet.session.hook_calls import GateCall, GateJob
from tests.support.change_session import LAB_FILE
from tests.support.gate_project import CI
from tests.support.report_records import direction

CONFTEST = """
from tests.support import verdict_project
def pytest_configure(): verdict_project.install()
def pytest_sessionstart(session): verdict_project.set_mode(session.config)
def pytest_unconfigure(config): verdict_project.remove()
"""
# The name of each test is its verdict.
TESTS = """
import pytest

pytestmark = pytest.mark.pinet(board="pi4b", nic="onboard")

def test_pass(link, gate):
    gate.tcp(link)

def test_marginal(link, gate):
    print("seen in the marginal test")
    gate.tcp(link)

def test_improved(link, gate):
    gate.tcp(link)

def test_fail(link, gate):
    gate.tcp(link)

def test_inconclusive(link, gate):
    print("seen in the inconclusive test")
    gate.tcp(link)

def test_invalid(link, gate):
    gate.tcp(link)
"""
_PATCHES = pytest.MonkeyPatch()


class NamedVerdicts:
    """Implements ``MeasuringMode``: each test gets the verdict that its name says, and a goodput if it is good."""

    def is_measuring(self, item: pytest.Item) -> bool:
        return True

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[PlannedLink]:
        return nullcontext(PlannedLink(case.combination))

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        return ()

    def measure(self, call: GateCall, job: GateJob) -> ResultRecord:
        assert isinstance(job, Traffic)
        verdict = Verdict(call.item.name.partition("[")[0].removeprefix("test_"))
        combination = call.link.combination
        text = f"the text of this {verdict} result"
        judged = MeasurementJudgement(verdict, text)
        record = result_record(combination, job.key, judged, started=datetime.now(UTC).isoformat(), message=text)
        return record.replace(directions={"tx": direction(941e6, verdict=verdict)}) if verdict in GOOD else record


def install() -> None:
    """There is no lab to start."""
    _PATCHES.setattr(LabAccess, "start", lambda self: None)


def set_mode(config: pytest.Config) -> None:
    pinet_session(config).measure_by(NamedVerdicts())


def remove() -> None:
    _PATCHES.undo()


class VerdictProject:
    """A folder with a lab file and the tests."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tests: str = TESTS) -> None:
        self._pytester = pytester
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        # The controller of these runs is not the worker that may run the test.
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
        monkeypatch.setenv("COLUMNS", "80")
        for name in CI:
            monkeypatch.delenv(name, raising=False)
        self.path: Path = pytester.path
        pytester.makeconftest(CONFTEST)
        pytester.makeini("[pytest]\n")
        pytester.makepyfile(test_it=tests)
        (pytester.path / "lab.yaml").write_text(LAB_FILE)

    def run(self, *options: str, subprocess: bool = False) -> pytest.RunResult:
        plugins = ("-p", "no:labgrid", "-p", "no:allure_pytest")
        words = (*plugins, "--pinet-history=off", "--pinet-lab=lab.yaml", *options)
        if subprocess:
            return self._pytester.runpytest_subprocess(*words, timeout=120)
        # In a checkout, pytest warns that it cannot rewrite the modules that this process has imported.
        return self._pytester.runpytest_inprocess(*words, "-Wignore:Module already imported")
