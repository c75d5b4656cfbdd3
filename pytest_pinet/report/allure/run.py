"""Writes the files of the whole run, in the process that reports, at the end of the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.report.allure.run_files import RUN_FILE, RunFacts, write_global_error, write_run_files


class AllureRun:
    """Writes the files of the whole run next to the Allure results.

    ``record`` returns the run's record when the run is over, ``facts`` what the history knows about the run. ``warn``
    shows a message to the user.
    """

    def __init__(
        self,
        config: pytest.Config,
        directory: Path,
        record: Callable[[], RunRecord | None],
        facts: Callable[[RunRecord], RunFacts],
        warn: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._record = record
        self._facts = facts
        self._warn = warn
        self._errors: list[str] = []
        if getattr(config.option, "clean_alluredir", False) and getattr(config.option, "numprocesses", None):
            # In allure-pytest each worker would empty the folder again; our plugin prevents it.
            warn(f"--clean-alluredir emptied {directory} once, before the workers began")
        elif (directory / RUN_FILE).exists():
            why = "Allure takes two results of a test for retries, and shows one of them"
            warn(f"{directory} holds an earlier run: {why}; add --clean-alluredir, or name another folder")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep collection errors: a file that cannot be collected leaves no result."""
        if report.failed:
            self._errors.append(f"{report.nodeid or 'the tests'} could not be collected\n{report.longreprtext}")

    # Last, because the record must be complete.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        record = self._record()
        if session.config.option.collectonly:
            return
        ended_by = sys.exc_info()[1]
        if isinstance(ended_by, pytest.UsageError):
            self._errors.append(f"pytest could not begin\n{ended_by}")
        try:
            for error in self._errors:
                write_global_error(self._directory, error)
            if record is not None:
                write_run_files(self._directory, record, self._facts(record), os.environ)
        except ConfigError as error:
            self._warn(str(error))
