"""Completes the results of allure-pytest in the process that runs the tests. Registered only with ``--alluredir``."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import allure_commons
import pytest
from allure_commons.model2 import Attachment, Label, Link, Parameter, StatusDetails, TestStepResult

from pytest_pinet.execution.trace import Recorder, Step
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import GOOD
from pytest_pinet.report.allure import content
from pytest_pinet.report.allure.identity import EXPECTED, Subject, status_of, tell_apart
from pytest_pinet.report.allure.run_files import write_stand_in
from pytest_pinet.report.result_record import attached_results
from pytest_pinet.report.trends import FigureSeries

# At most this much of the end of a node's console output is attached.
_CONSOLE_BYTES = 256 * 1024


@dataclass(eq=False)
class AllureResults:
    """Adds identity, measured values, steps and attachments to each result of a pinet test.

    ``subject_of`` returns what a test measures (None: not a pinet test), ``trends_of`` the history of its metrics,
    ``nodes_of`` its nodes, ``folder`` the run folder with the console logs. ``warn`` shows a message to the user.
    """

    directory: Path
    subject_of: Callable[[pytest.Item], Subject | None]
    trends_of: Callable[[Sequence[ResultRecord]], Sequence[FigureSeries]]
    nodes_of: Callable[[pytest.Item], Iterable[str]]
    folder: Callable[[], Path]
    warn: Callable[[str], None]
    _subjects: dict[str, Subject] = field(default_factory=dict, init=False)
    _item: pytest.Item | None = field(default=None, init=False)
    _results: list[ResultRecord] = field(default_factory=list, init=False)
    _expected: str | None = field(default=None, init=False)
    _recorder: Recorder | None = field(default=None, init=False)
    _stand_in: Path | None = field(default=None, init=False)
    _consoles: dict[str, tuple[Path, int]] = field(default_factory=dict, init=False)

    def start(self) -> Callable[[], None]:
        """Register with allure-pytest. Return the function that unregisters."""
        allure_commons.plugin_manager.register(self, f"pinet-{id(self)}")
        return lambda: allure_commons.plugin_manager.unregister(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Make the subjects of all collected tests distinct."""
        found = [(item.nodeid, subject) for item in items if (subject := self.subject_of(item)) is not None]
        told_apart = tell_apart([subject for _, subject in found])
        self._subjects = {nodeid: subject for (nodeid, _), subject in zip(found, told_apart, strict=True)}

    # Must be outside allure-pytest's own wrapper, which writes the result when it exits.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record the steps of a test. Write a stand-in result first, in case the process dies."""
        subject = self._subjects.get(item.nodeid)
        if subject is None:
            return (yield)
        self._item, self._results, self._expected = item, [], None
        self._recorder = Recorder()
        self._recorder.start()
        self._begin(subject, item)
        try:
            return (yield)
        finally:
            self._recorder.stop()
            self._item = None
            self._remove_stand_in()

    def _begin(self, subject: Subject, item: pytest.Item) -> None:
        try:
            self._stand_in = write_stand_in(self.directory, subject)
        except OSError as error:
            self.warn(f"cannot write {self.directory}: {error.strerror}; choose another folder with --alluredir")
        self._consoles = {}
        for node in self.nodes_of(item):
            path = self.folder() / "console" / f"{node}.log"
            self._consoles[node] = path, path.stat().st_size if path.exists() else 0

    def _remove_stand_in(self) -> None:
        if self._stand_in is not None:
            self._stand_in.unlink(missing_ok=True)
            self._stand_in = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the result records of each test phase."""
        if self._item is not None and report.nodeid == self._item.nodeid:
            again = attached_results(report)
            # The teardown brings a failure again, with what a second board had.
            measured = {(one.id, one.started) for one in again if one.second_board is not None}
            self._results = [one for one in self._results if (one.id, one.started) not in measured] + again
            if report.skipped and hasattr(report, "wasxfail"):
                # Older versions of pytest add "reason: ".
                self._expected = str(report.wasxfail).removeprefix("reason: ")

    # A wrapper, so that the stand-in is removed only after the real result exists.
    @allure_commons.hookimpl(wrapper=True, tryfirst=True)
    def report_result(self, result: Any) -> Generator[None, Any, Any]:
        """Complete a result before allure-pytest writes it."""
        item = self._item
        subject = self._subjects.get(item.nodeid) if item is not None else None
        if subject is not None:
            try:
                self._fill(result, subject)
            except Exception as error:
                # An incomplete report is better than an aborted run.
                self.warn(f"Allure result of {subject.combination}: {type(error).__name__}: {error}")
        done = yield
        if subject is not None:
            self._remove_stand_in()
        return done

    def _fill(self, result: Any, subject: Subject) -> None:
        results = self._results
        result.testCaseId = result.historyId = subject.id
        result.parameters = [
            Parameter(name=name, value=value, excluded=excluded or None)
            for name, value, excluded in content.parameters(subject, results)
        ]
        own = {"epic", "feature", "story"}
        kept = [label for label in result.labels if label.name not in own]
        result.labels = [*kept, *(Label(name=n, value=v) for n, v in content.labels(subject, results))]
        result.status, prefix = status_of(results, result.status, self._expected is not None)
        if prefix:
            _prefix(result, f"{prefix}: {self._expected}" if prefix == EXPECTED and self._expected else prefix, results)
        # A test without results keeps its pytest name.
        if results:
            result.name = content.title(subject, results)
        assert self._recorder is not None
        result.steps = [*map(_step, self._recorder.steps), *result.steps]
        trends = self.trends_of(results) if results else ()
        # A test that passes can be found in Allure by the loss of its metrics.
        states = sorted({series.level.loss.state for series in trends if series.level.loss is not None})
        result.labels.extend(Label(name="loss", value=state.value) for state in states)
        known = {loss.acknowledgement for series in trends if (loss := series.level.loss) is not None}
        result.links.extend(
            Link(type="issue", url=one.link, name=f"known loss, owner {one.owner}") for one in known if one is not None
        )
        html = content.description_html(results, trends)
        if html:
            result.descriptionHtml = html
        folder = self.folder() if results else None
        for name, kind, body in content.attachments(results, trends, folder, self._console_texts()):
            file_name = content.attachment_name(kind)
            allure_commons.plugin_manager.hook.report_attached_data(body=body, file_name=file_name)
            result.attachments.append(Attachment(name=name, source=file_name, type=kind))

    def _console_texts(self) -> Mapping[str, str]:
        """Return the console output of each node since the test began."""
        found = {}
        for node, (path, begin) in self._consoles.items():
            try:
                with path.open("rb") as file:
                    size = file.seek(0, 2)
                    file.seek(max(begin, size - _CONSOLE_BYTES))
                    text = file.read().decode("utf-8", "replace")
            except OSError:
                continue
            if text.strip():
                found[node] = text
        return found


def _prefix(result: Any, prefix: str, results: Sequence[ResultRecord]) -> None:
    """Put the prefix of the category before the message."""
    message = next((r.message for r in results if r.verdict not in GOOD), "")
    message = message.strip() or "the test passed without a measurement"
    trace = result.statusDetails.trace if result.statusDetails is not None else None
    result.statusDetails = StatusDetails(message=f"{prefix}: {message}", trace=trace)


def _step(step: Step) -> Any:
    """Convert a step to Allure's format: times in milliseconds, and a status of its own."""
    beneath = [_step(one) for one in step.steps]
    if step.left_out:
        at = _ms(step.ended)
        beneath.append(TestStepResult(name=f"... and {step.left_out} more", status="passed", start=at, stop=at))
    details = StatusDetails(message=step.error) if step.error else None
    return TestStepResult(
        name=step.title,
        status="broken" if step.error else "passed",
        statusDetails=details,
        start=_ms(step.started),
        stop=_ms(step.ended or step.started),
        steps=beneath,
    )


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
