"""Options for the runs of pytest that tests start, and skipped tests, which CI does not accept."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TypeVar

import pytest

from tests.support.inner_run import WITHOUT_HYPOTHESIS

# .ci/run sets it to ``fails``.
SKIPPED = "PINET_SKIPPED"
# Beginnings of the reasons for which CI may skip a test. Each needs something that a new Debian cannot have.
MAY_BE_MISSING = (
    "actionlint is not installed",  # no package of Debian or PyPI has it
)

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_configure(config: pytest.Config) -> None:
    """Keep Hypothesis out of the runs that tests start, but not out of the workers of this run."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ["PYTEST_ADDOPTS"] = WITHOUT_HYPOTHESIS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a test that is skipped fails."""
    return _not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """In CI, a module that is skipped fails."""
    return _not_skipped((yield))


def _not_skipped(report: Report) -> Report:
    """Make a skip a failure, unless its reason is listed. Otherwise a test that never runs stays unnoticed."""
    if os.environ.get(SKIPPED) == "fails" and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(MAY_BE_MISSING):
            report.outcome = "failed"
            report.longrepr = f"{SKIPPED}=fails, and this test was skipped: {reason}"
    return report


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """Yield pytest's fixture, which has removed the options for the runs that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", WITHOUT_HYPOTHESIS)
        yield pytester
