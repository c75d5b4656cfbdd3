"""The pytest plugin of the runner: collects the statements, and reports the outcome of one run of a statement."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

# A stored failure message is cut to this length.
MESSAGE_LENGTH = 300


@dataclass(frozen=True)
class Outcome:
    """The outcome of one process: ``passed``, ``failed`` or ``skipped``, and its runs and failures."""

    name: str
    runs: int
    failures: int
    message: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the output files and the number of the run."""
    group = parser.getgroup("soak")
    group.addoption("--soak-statements", type=Path, help="collect only, and write all statements to this file")
    group.addoption("--soak-outcome", type=Path, help="write to this file what came of the run")
    group.addoption("--soak-number", type=int, default=0, help="how many runs of the statement there are already")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, also without a settings file, and the plugin."""
    text = "soak(sentence, runs=1, allowed=0, minutes=10): a statement, and how many of its runs may fail"
    config.addinivalue_line("markers", text)
    config.pluginmanager.register(SoakRun(config), "soak-run")


def statement_of(sentence: str, *, runs: int = 1, allowed: int = 0, minutes: float = 10) -> dict[str, Any]:
    """Return the arguments of the marker. Python itself checks them."""
    return {"statement": sentence, "runs": runs, "allowed": allowed, "minutes": minutes}


class SoakRun:
    """One call of pytest by the runner."""

    def __init__(self, config: pytest.Config) -> None:
        self._statements: Path | None = config.getoption("--soak-statements")
        self._outcome: Path | None = config.getoption("--soak-outcome")
        self._counts: tuple[int, int] | None = None
        self._phases: list[str] = []
        self._message = ""

    @pytest.fixture
    def soak_number(self, pytestconfig: pytest.Config) -> int:
        """Return the number of previous runs of this statement. A test can use it to vary its runs."""
        number: int = pytestconfig.getoption("--soak-number")
        return number

    @pytest.fixture
    def soak_count(self) -> Callable[[int, int, str], None]:
        """Call ``soak_count(runs, failures, values)`` where one process makes many runs of the statement.

        The page shows ``values`` if any run failed.
        """

        def count(runs: int, failures: int, values: str) -> None:
            if not 0 <= failures <= runs or runs < 1:
                raise ValueError(f"{failures} failures of {runs} runs")
            self._counts = (runs, failures)
            if failures:
                self._message = values[:MESSAGE_LENGTH]

        return count

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Write all statements. A sentence may contain the test's parameters."""
        if self._statements is None:
            return
        found = []
        for item in items:
            mark = item.get_closest_marker("soak")
            assert mark is not None, f"{item.nodeid} is no statement: it lacks @pytest.mark.soak"
            told = statement_of(*mark.args, **mark.kwargs)
            callspec = getattr(item, "callspec", None)
            told["statement"] = told["statement"].format(**(callspec.params if callspec else {}))
            module = item.getparent(pytest.Module)
            family = ((module and module.obj.__doc__) or item.nodeid.partition("::")[0]).strip().splitlines()[0]
            found.append({**told, "test": item.nodeid, "family": family.rstrip(".")})
        self._statements.write_text(json.dumps(found))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the outcome of each phase, and why the first one failed."""
        self._phases.append(report.outcome)
        if report.outcome == "passed" or self._message:
            return
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            self._message = report.longrepr[2].removeprefix("Skipped: ")
        else:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            self._message = " ".join(text.split())[:MESSAGE_LENGTH]

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the outcome of a complete run. An interrupted run has none."""
        if self._outcome is None or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        outcome = next((name for name in ("failed", "skipped") if name in self._phases), "passed")
        runs, failures = self._counts or (1, 0)
        if outcome == "failed":
            failures = max(failures, 1)
        self._outcome.write_text(json.dumps(asdict(Outcome(outcome, runs, failures, self._message))))
