"""Gives each test that was collected, and that ended without a result of its own, the verdict ``error``.

A test can die with its process, in a fixture, by a time limit or with the whole run. The run folder always has the
records of all tests that have not ended, so that they also count in a run that was killed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.session.exact_gate import exact_combination_of
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.result_builder import ResultBuilder
from pytest_pinet.session.run_recorder import RunRecorder

NOT_BEGUN = "not measured: the run ended before this test began"
NOT_ENDED = "the test did not end: its process died, or the run was stopped"
_PHASES = {"setup": "the set-up of the test", "call": "the test", "teardown": "the teardown of the test"}


class UnendedTests:
    """Registered as a plugin. In an xdist worker it only writes what was collected, for the controller."""

    def __init__(self, config: pytest.Config, recorder: RunRecorder, results: ResultBuilder) -> None:
        self._is_worker = hasattr(config, "workerinput")
        self._recorder = recorder
        self._results = results

    @cached_property
    def _left(self) -> dict[str, ResultRecord]:
        """The record of each test that has not ended, by node ID. Only a run that measures has such tests."""
        return {one.test: one for one in self._recorder.folder.unended()} if self._recorder.has_folder else {}

    # Before xdist sends the IDs: no test begins before all workers have written.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._is_worker and not session.config.option.collectonly:
            self._write(session)

    # Not first: the recorder makes the run folder.
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        if not self._is_worker and self._recorder.has_folder:
            self._write(session)

    def _write(self, session: pytest.Session) -> None:
        found = [
            (item, case.combination if (case := case_of(item)) else exact_combination_of(item))
            for item in session.items
        ]
        records = [self._results.unended(item, one, NOT_BEGUN) for item, one in found if one is not None]
        with self._warning():
            self._recorder.folder.note_collected(records)

    def _note(self, test: str, record: ResultRecord | None) -> None:
        with self._warning():
            self._recorder.folder.note_unended(test, record)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """A full disk loses no result of a run that ends."""
        try:
            yield
        except ConfigError as error:
            self._recorder.warn(str(error))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self._is_worker and nodeid in self._left:
            now = datetime.now(UTC).isoformat()
            self._left[nodeid] = self._left[nodeid].replace(started=now, message=NOT_ENDED)
            self._note(nodeid, self._left[nodeid])

    # Last: the recorder has kept the results of the report.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep an error for a failure that no result of the test explains."""
        record = None if self._is_worker else self._left.get(report.nodeid)
        if record is None or not report.failed:
            return
        if not self._recorder.has_bad_result(report.nodeid):
            self._recorder.keep(record.replace(message=_why(report), seconds=report.duration))
        if isinstance(report.longrepr, str):
            # xdist reports a worker that died, and nothing more of its test.
            self.end(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if not self._is_worker:
            self.end(nodeid)

    def end(self, nodeid: str) -> None:
        """Note that a test has all its results."""
        if self._left.pop(nodeid, None) is not None:
            self._note(nodeid, None)

    # Before the recorder writes the results.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        for record in [] if self._is_worker else [*self._left.values()]:
            self._recorder.keep(record)
            self.end(record.test)
        return (yield)


def _why(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr) if crash is None else crash.message
    # An unknown fixture has no exception. xdist sends its text, and writes a text of its own for a worker that died.
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    if crash is None and not errors:
        return text
    text = errors[0] if crash is None else text
    return f"{_PHASES.get(report.when or '', 'the test')} failed: {first_paragraph(text)}"
