"""Options for the runs of pytest that tests start."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.inner_run import WITHOUT_HYPOTHESIS


def pytest_configure(config: pytest.Config) -> None:
    """Keep Hypothesis out of the runs that tests start, but not out of the workers of this run."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ["PYTEST_ADDOPTS"] = WITHOUT_HYPOTHESIS


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """Yield pytest's fixture, which has removed the options for the runs that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", WITHOUT_HYPOTHESIS)
        yield pytester
