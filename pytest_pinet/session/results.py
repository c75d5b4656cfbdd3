"""Completes the records of results with what only the session knows; a test that did not end has one, too."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property

import pytest

from pytest_pinet.errors import BLAMING, BuildError, ConfigError, InvalidMeasurement, PinetError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.record.result import CombinationRecord, ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.failure import DETAILS, failure_details, failure_text
from pytest_pinet.report.result_record import result_record, with_tool
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.session.exact_gate import exact_combination_of
from pytest_pinet.session.hook_calls import FACTS_KEY
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.run_recorder import RunRecorder
from pytest_pinet.session.settings import settings

SUITES = "pytest_pinet.suites."
# What the processes of the latest measurement printed, until it is written to files.
RAW_KEY: pytest.StashKey[dict[str, str]] = pytest.StashKey()


def evidence_of(error: BaseException) -> str:
    """Return the output of tools that an error and its cause carry."""
    both = (error, error.__cause__)
    return "\n".join(
        text for one in both for text in (getattr(one, "evidence", ""), *getattr(one, "__notes__", ())) if text
    )


class ResultBuilder:
    """The only place of this package that changes records."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    def with_files(self, item: pytest.Item, record: ResultRecord, raw: Mapping[str, str]) -> ResultRecord:
        """Write what the processes of a measurement printed to files, and name the files in the record."""
        files = self._recorder.folder.write_raw(record.id, raw)
        # An error that follows has its own files.
        item.stash[RAW_KEY] = {}
        return record.replace(files=files)

    def finished(self, item: pytest.Item, record: ResultRecord) -> ResultRecord:
        """Add the test, the command that repeats it, facts of hooks, the tool, the scale and the final message."""
        tool, parameters = record.tool, record.parameters
        lab = self._recorder.lab
        if not record.has_no_rate and lab is not None:
            tool = lab.http_tool if record.http is not None else lab.traffic_tool
            parameters = parameters and with_tool(parameters, tool)
        record = record.replace(
            test=item.nodeid,
            rerun=self._rerun_command(item),
            facts=item.stash.get(FACTS_KEY, None) or None,
            tool=tool,
            parameters=parameters,
            scale=self._recorder.scale,
        )
        if record.verdict in (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE):
            shown = self._recorder.shown_folder
            files = self._recorder.folder.add_raw(record.files, DETAILS, f"{failure_details(record, shown)}\n")
            return record.replace(message=failure_text(record, shown), files=files)
        return record

    def of_error(
        self, item: pytest.Item, combination: Combination | CombinationRecord, error: PinetError
    ) -> ResultRecord:
        """Return the record of a test that an error ended. The record has no values."""
        verdict = Verdict.INVALID if isinstance(error, InvalidMeasurement) else Verdict.ERROR
        if isinstance(error, BLAMING):
            verdict = Verdict.FAIL
        finding = error.kind if isinstance(error, BuildError) else None
        started = datetime.now(UTC).isoformat()
        record = self._without_values(item, combination, verdict, str(error))
        return record.replace(started=started, console_excerpt=error.excerpt, finding=finding)

    def unended(self, item: pytest.Item, combination: Combination | CombinationRecord, message: str) -> ResultRecord:
        """Return the record that a test has until it ends."""
        return self._without_values(item, combination, Verdict.ERROR, message).replace(died=True)

    def _without_values(
        self, item: pytest.Item, combination: Combination | CombinationRecord, verdict: Verdict, message: str
    ) -> ResultRecord:
        judged = MeasurementJudgement(verdict, message)
        rerun = self._rerun_command(item)
        return result_record(combination, "", judged, message=message, test=item.nodeid, rerun=rerun)

    def with_evidence(self, item: pytest.Item, record: ResultRecord, error: PinetError) -> ResultRecord:
        """Write the console excerpt and all output before the error to files, and name the files in the record."""
        texts = {"console.txt": record.console_excerpt, "evidence.txt": evidence_of(error)}
        files = {name: text for name, text in texts.items() if text} | item.stash.get(RAW_KEY, {})
        if files:
            files[DETAILS] = f"{failure_details(record, self._recorder.shown_folder)}\n"
            try:
                return record.replace(files=self._recorder.folder.write_raw(record.id, files))
            except ConfigError as trouble:
                self._recorder.warn(str(trouble))
        return record

    def _rerun_command(self, item: pytest.Item) -> str:
        """Return the command that repeats this test, from the folder in which this run was started."""
        config, lab = self._recorder.config, self._recorder.lab
        rootpath, invoked = config.rootpath, config.invocation_params.dir
        node = [item.nodeid if rootpath == invoked else os.path.relpath(rootpath / item.nodeid, invoked)]
        module = getattr(getattr(item, "module", None), "__name__", "")
        if module.startswith(SUITES):
            # The ids of tests outside of the rootdir depend on the words of the command line.
            node = ["--pyargs", f"{module}::{item.nodeid.partition('::')[2]}"]
        # With "=", or pytest takes the lab file for a test path when it looks for its root.
        found = settings(config)
        # An exact gate has no lab, but perhaps a file with its boards.
        files = [lab.file] if lab is not None else found.labs_on_command_line if found["exact"] else ()
        return shlex.join(["pytest", *node, *(f"--pinet-lab={file}" for file in files), *found.repeated()])


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
