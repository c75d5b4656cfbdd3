"""Options for the runs of pytest that tests start, and the smoke tests that CI must not lose."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from tests.support.inner_run import WITHOUT_HYPOTHESIS

# .ci/run sets it to ``fails``.
SKIPPED_SMOKE = "PINET_SKIPPED_SMOKE"
# What CI cannot install: Debian's index can be without the build scripts of its newest kernel for days, and nothing
# installs Allure 2.
MAY_BE_MISSING = ("Debian's packages of kernel ", "no Allure 2")


def pytest_configure(config: pytest.Config) -> None:
    """Keep Hypothesis out of the runs that tests start, but not out of the workers of this run."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ["PYTEST_ADDOPTS"] = WITHOUT_HYPOTHESIS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a smoke test that is skipped fails: without it, a family of features is not tested at all."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and item.get_closest_marker("smoke") is not None:
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if os.environ.get(SKIPPED_SMOKE) == "fails" and not reason.startswith(MAY_BE_MISSING):
            report.outcome = "failed"
            report.longrepr = f"{SKIPPED_SMOKE}=fails, and this smoke test was skipped: {reason}"
    return report


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """Yield pytest's fixture, which has removed the options for the runs that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", WITHOUT_HYPOTHESIS)
        yield pytester
