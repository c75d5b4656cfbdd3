"""The one object that the plugin registers: it lives in every process that collects pinet tests."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pytest

from pytest_pinet.catalogue.published import of_published
from pytest_pinet.config import labfile
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import (
    BLAMING,
    BuildError,
    CapabilityError,
    ConfigError,
    Inconclusive,
    InvalidMeasurement,
    KernelError,
    LabError,
    PinetError,
    QuarantineError,
    UnsupportedError,
    mistake_in,
)
from pytest_pinet.execution.text import for_log
from pytest_pinet.judge.profile import DEFAULT_PROFILE, PROFILES, Profile
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.link import tuning_session
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.measure.boots import Boots
from pytest_pinet.measure.ping import Pings
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.record.result import CombinationRecord, ResultRecord
from pytest_pinet.model.traffic import HttpTraffic, Traffic
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.failure import error_text
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.progress import Progress
from pytest_pinet.report.result_record import attach_results
from pytest_pinet.scheduling.hooks import ControllerHooks, WorkerHooks
from pytest_pinet.session.arguments import check_axes, check_tunings, command_line_limits
from pytest_pinet.session.boards import confirm
from pytest_pinet.session.dry_run import DryRun
from pytest_pinet.session.exact_gate import (
    COMBINATION_KEY,
    ExactGate,
    ExactMode,
    exact_combination_of,
    exact_limits,
    limits_of,
)
from pytest_pinet.session.hook_calls import GateCall, GateJob
from pytest_pinet.session.option_table import profile_name
from pytest_pinet.session.parametrizer import Parametrizer, case_of
from pytest_pinet.session.plain_measuring import PlainMeasuring
from pytest_pinet.session.results import ResultBuilder, UnendedTests
from pytest_pinet.session.run_recorder import RunRecorder, heights_of
from pytest_pinet.session.settings import settings
from pytest_pinet.session.terminal import RunHeader, StatusWords
from pytest_pinet.tuning.registry import boot_part, read_tuning

# Set if the lab caused an error during a measurement: its nodes must be logged into again.
TROUBLE_KEY: pytest.StashKey[bool] = pytest.StashKey()
# What failed and may be measured on a second board, and the results with what that board had.
FAILED_KEY: pytest.StashKey[list[tuple[GateCall, Traffic, ResultRecord]]] = pytest.StashKey()
CONFIRMED_KEY: pytest.StashKey[list[ResultRecord]] = pytest.StashKey()
RESULTS_KEY: pytest.StashKey[list[ResultRecord]] = pytest.StashKey()


class MeasuringMode(Protocol):
    """Opens links and measures for a session. ``session.mode`` holds the mode of the run."""

    def is_measuring(self, item: pytest.Item) -> bool:
        """Return whether this run of the test sends traffic. If not, no node is touched."""

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Any]:
        """Open the link of a test."""

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        """Return the nodes that stay booted and leased for the next test."""

    def measure(self, call: GateCall, job: GateJob) -> ResultRecord:
        """Measure and judge. The record lacks what only the session knows, such as the command that repeats the test.

        Raises PinetError, or ends the test with ``pytest.skip``.
        """


class PinetSession:
    """Opens links for tests, measures through its ``mode``, and reports errors by their kind. Raises ConfigError."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        # labgrid's SerialLoggingReporter raises this warning for a console that has not printed anything yet.
        harmless = "unhandled exception during event notification"
        config.addinivalue_line("filterwarnings", f"ignore:{harmless}:UserWarning")
        # pytest applies that line during tests only, and builds under test boot outside of tests.
        warnings.filterwarnings("ignore", harmless, UserWarning)
        found = settings(config)
        # An exact gate uses no board of a lab.
        self.lab = labfile.load(found["lab"]) if found["lab"] and not found["exact"] else None
        of_options = {"min": Metric.GOODPUT, "tolerance": Metric.TOLERANCE, "cost-tolerance": Metric.COST_TOLERANCE}
        self.limits = tuple(
            limit
            for name, metric in of_options.items()
            for limit in command_line_limits(found[name], self.lab, metric, found.origin(name))
        )
        self.axes = {axis: found[axis] for axis in ("board", "nic", "topology", "tuning")}
        check_tunings(self.axes["tuning"], found.origin("tuning"))
        if self.lab is not None:
            check_axes(self.axes, self.lab, found.origin)
        self.is_worker = hasattr(config, "workerinput")
        worker: str = config.workerinput["workerid"] if self.is_worker else "main"  # type: ignore[attr-defined]
        self.progress = Progress(
            config.pluginmanager.get_plugin("terminalreporter"),
            config.pluginmanager.get_plugin("capturemanager"),
            config.get_verbosity() if not self.is_worker else -1,
            heights=heights_of(config),
        )
        identity = Identity.of_this_process(worker, os.environ.get("PYTEST_XDIST_TESTRUNUID", "0"))
        timeout_s = config.getoption("--pinet-acquire-timeout")
        # The recorder makes the folder, and gets the access.
        self.access = LabAccess(self.lab, identity, timeout_s, self.progress.show, lambda: self.recorder.folder.path)
        self.dry_run = DryRun(self.lab) if config.getoption("--pinet-dry-run") else None
        self.recorder = RunRecorder(config, self.lab, self.access, self.dry_run)
        config.pluginmanager.register(self.recorder, "pinet-run-recorder")
        if not self.is_worker:
            config.pluginmanager.register(StatusWords(config), "pinet-status-words")
        if self.lab is not None and self.is_worker:
            boards_whole = bool(config.getoption("--pinet-build"))
            hooks = WorkerHooks(config, self.lab, case_of, boards_whole, self.access, self.recorder)
            config.pluginmanager.register(hooks, "pinet-xdist-worker")
        self.parametrizer = Parametrizer(config, self.lab, self.axes, self.recorder.hooks)
        config.pluginmanager.register(self.parametrizer, "pinet-parametrizer")
        if directory := config.getoption("allure_report_dir", None):
            from pytest_pinet.session.allure import attach

            attach(config, directory, self.recorder, self.lab)
        self.results = ResultBuilder(self.recorder)
        self.unended = UnendedTests(config, self.recorder, self.results)
        config.pluginmanager.register(self.unended, "pinet-unended-tests")
        self.plain = PlainMeasuring(self.recorder, self.results, self.progress)
        if self.lab is not None and not self.is_worker:
            self._register_header(self.lab)
        self.mode: MeasuringMode = self.dry_run or self.plain
        self.exact: ExactMode | None = None
        tolerances = [limit for limit in self.limits if limit.metric is Metric.TOLERANCE]
        self._exact_limits = exact_limits(found["instructions"], found.origin("instructions"), tolerances)

    def measure_by(self, mode: MeasuringMode) -> None:
        self.mode = mode

    def judge_exactly(self, exact: ExactMode) -> None:
        self.exact = exact

    def _register_header(self, lab: LabOfFile) -> None:
        """Register what prints the header: here, or in the controller of workers."""
        config, runs = self.config, self.recorder
        header = RunHeader(config, lab, self.plain.references, self.profile, lambda: runs.runs)
        config.pluginmanager.register(header, "pinet-header")
        if getattr(config.option, "numprocesses", None):
            hooks = ControllerHooks(config, lab, self.recorder, partial(header.of_workers, self.profile(None)))
            config.pluginmanager.register(hooks, "pinet-xdist-controller")

    @contextmanager
    def open_link(self, item: pytest.Item, case: CombinationCase) -> Iterator[Any]:
        """Open the link of a test. Nodes that the next test needs stay booted and leased."""
        combination = case.combination
        item.stash[RESULTS_KEY] = []
        if not self.mode.is_measuring(item):
            with self.mode.open(item, case) as link:
                yield link
            return
        try:
            with self.progress, self.mode.open(item, case) as link:
                self.progress.close()
                if case.request.tuning_required:
                    require_tunings(link.tunings)
                yield link
            if item.stash.get(TROUBLE_KEY, False):
                # Only now, because the changes on the nodes had to be undone first.
                self.access.distrust(combination)
        except (QuarantineError, CapabilityError) as error:
            pytest.skip(for_log(str(error)))
        except KernelError:
            # If the lease was lost, another user may have switched the node off. Then that is the cause.
            self.access.check(combination)
            raise
        except LabError:
            self.access.distrust(combination)
            raise
        finally:
            self.recorder.warn(*self.access.take_warnings())

    def exact_gate(self, item: pytest.Item, nic: str) -> ExactGate:
        assert self.exact is not None, "without --pinet-exact, tests of exact gates are skipped"
        item.stash[RESULTS_KEY] = []
        return ExactGate(self.exact, item, nic, limits_of(item), self._exact_limits)

    def profile(self, item: pytest.Item | None, called: str | None = None) -> Profile:
        """Return the profile: of the call, the command line, the marker or the lab file, in this order.

        Raises ValueError.
        """
        case = case_of(item)
        marked = case.request.profile if case is not None else None
        lab = self.lab.profile if self.lab is not None else None
        option = self.config.getoption("--pinet-profile")
        name = option or marked or lab or DEFAULT_PROFILE if called is None else profile_name(str(called))
        return PROFILES[name]

    def tuned(
        self, item: pytest.Item, link: Any, settings: Mapping[str, object]
    ) -> AbstractContextManager[Sequence[Tuned]]:
        """Tune the link until the context is left. What cannot be undone is a warning. Raises ConfigError, LabError."""
        with mistake_in(f"{item.nodeid}: tune"):
            tuning = read_tuning(settings)
            if boot := boot_part(tuning):
                raise ValueError(f"{boot.key} needs a boot: write it into the marker, as tuning={dict(boot.settings)}")
        if not self.mode.is_measuring(item):
            return nullcontext(())

        return tuning_session.tuned(link, tuning, self.recorder.warn)

    def measure(self, call: GateCall, job: GateJob) -> ResultRecord:
        """Measure, check the consoles for a broken kernel, and keep the completed result. Raises PinetError."""
        case = case_of(call.item)
        assert self.lab is not None
        assert case is not None
        # A planned link has no trouble.
        trouble = getattr(call.link, "trouble", None)
        if trouble is not None and not isinstance(job, Boots):
            raise trouble
        # The limits of the lab file are limits of TCP and UDP, and on values with names of their own.
        filed = () if isinstance(job, HttpTraffic | Pings) else self.lab.limits
        limits = (*filed, *case.request.limits_for(call.link.combination), *call.limits)
        if isinstance(job, Traffic):
            limits = tuple(of_published((*limits, *self.limits), call.link.combination, job.direction))
        call = replace(call, limits=limits)
        try:
            record = self.mode.measure(call, job)
            self.access.watch()
        except LabError:
            call.item.stash[TROUBLE_KEY] = True
            self.access.check(call.link.combination)
            raise
        if record.verdict is Verdict.FAIL and not record.directions and not record.has_no_rate:
            # The link dropped: the next test must not take for granted that the ends still answer.
            call.item.stash[TROUBLE_KEY] = True
        record = self.results.finished(call.item, record)
        call.item.stash[RESULTS_KEY].append(record)
        # Boards of an emulated lab are made by software: a second one would say the same.
        is_plain = self.mode is self.plain and not self.recorder.emulated
        if record.verdict is Verdict.FAIL and is_plain and isinstance(job, Traffic):
            call.item.stash.setdefault(FAILED_KEY, []).append((call, job, record))
        return record

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail the test if a console shows a broken kernel, whatever the test itself found."""
        case = case_of(item)
        if case is None:
            return (yield)
        try:
            result = yield
        except CapabilityError as error:
            pytest.skip(for_log(str(error)))
        except (Exception, pytest.fail.Exception, pytest.skip.Exception):
            self._check_consoles(item, case.combination)
            raise
        self._check_consoles(item, case.combination)
        return result

    def _check_consoles(self, item: pytest.Item, combination: Combination) -> None:
        try:
            self.access.watch()
        except KernelError:
            try:
                self.access.check(combination)
            except LabError:
                item.stash[TROUBLE_KEY] = True
                raise
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """After a test, leave and release every node that the next test does not need."""
        result = yield
        if case_of(item) is not None:
            item.stash[CONFIRMED_KEY] = self._confirmed(item)
            self.access.keep_only(self.mode.kept_nodes(nextitem))
            self.recorder.warn(*self.access.take_warnings())
        return result

    def _confirmed(self, item: pytest.Item) -> list[ResultRecord]:
        """Measure what failed on a second board. Return the results with what it had."""
        found: list[ResultRecord] = []
        failed = item.stash.get(FAILED_KEY, [])
        item.stash[FAILED_KEY] = []
        for call, traffic, record in failed:
            combination = call.link.combination
            if self.lab is None or boot_part(combination.tuning):
                continue

            def measure(link: Any, call: GateCall = call, traffic: Traffic = traffic) -> ResultRecord:
                return self.plain.measure(replace(call, link=link), traffic)

            with self.progress:
                second = confirm(self.access, self.lab, combination, measure)
            if second is not None:
                found.append(record.replace(second_board=second, notes=[*record.notes, second.text]))
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report our errors by their kind, without a traceback, and add the results to the report."""
        report = yield
        combination = _combination_of(item)
        if combination is None:
            return report
        results = item.stash.get(RESULTS_KEY, [])
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, PinetError):
            verdict = {InvalidMeasurement: Verdict.INVALID, Inconclusive: Verdict.INCONCLUSIVE}.get(type(error))
            if not any(one.verdict is verdict for one in results):
                record = self.results.of_error(item, combination, error)
                record = self.results.with_evidence(item, record, error)
                named = isinstance(error, LabError | KernelError | BuildError | InvalidMeasurement)
                text = error_text(record, self.recorder.shown_folder) if named else str(error)
                if named or isinstance(error, UnsupportedError | ConfigError):
                    results = [*results, record]
                if call.when == "teardown":
                    # The report of the call already has the other results.
                    attach_results(report, [record])
            else:
                text = str(error)
            # pytest has already reported an expected error.
            if not hasattr(report, "wasxfail"):
                as_report(item, report, error, text)
        if call.when == "teardown" and error is None and (confirmed := item.stash.get(CONFIRMED_KEY, [])):
            attach_results(report, confirmed)
        if call.when == "call" or (call.when == "setup" and report.failed):
            properties = junit_properties(results)
            report.user_properties += properties
            # pytest's JUnit writer reads the properties of the teardown's report, which come from the item.
            item.user_properties += properties
            # xdist sends the results to the controller.
            attach_results(report, results)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Leave the lab, also if a plugin fails here, and turn such an error into pytest's code for internal errors.

        pytest would end with a traceback and exit code 1, which means that a test failed.
        """
        try:
            return (yield)
        except (pytest.exit.Exception, pytest.UsageError, BrokenPipeError):
            raise
        except Exception as error:
            message = f"pinet: internal error: {type(error).__name__}: {error}\n"
            sys.stderr.write(for_log(traceback.format_exc() + message))
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            return None
        finally:
            self.recorder.warn(*self.access.close())


def _combination_of(item: pytest.Item) -> Combination | CombinationRecord | None:
    """Return what a test measures, in a lab or on an exact board; None if it measures nothing."""
    case = case_of(item)
    return case.combination if case is not None else item.stash.get(COMBINATION_KEY, None) or exact_combination_of(item)


def as_report(item: pytest.Item, report: pytest.TestReport, error: PinetError, text: str) -> None:
    """Rewrite a failed report: show ``text`` instead of a traceback, and set the phase by the kind of the error.

    pytest, JUnit and xdist report a failure of the call phase as a failure, and of other phases as an error. So an
    error of the lab is moved to the set-up, and a broken kernel, build or link is moved to the call.
    """
    # pytest prints the name of the class before the message, without a module if it is "builtins".
    named = type(type(error).__name__, (pytest.fail.Exception,), {"__module__": "builtins"})
    try:
        raise named(for_log(text), pytrace=False)
    except pytest.fail.Exception as plain:
        report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))
    if isinstance(error, BLAMING):
        report.when = "call" if report.when == "setup" else report.when
    elif report.when == "call":
        report.when = "setup"


def require_tunings(tunings: Sequence[Tuned]) -> None:
    """Skip a test whose settings the kernel lacks. Raises InvalidMeasurement if a setting has another value."""
    lost = [one for one in tunings if not one.outcome.holds]
    if lost and all(one.outcome is SettingOutcome.UNSUPPORTED for one in lost):
        pytest.skip("; ".join(map(str, lost)))
    if lost:
        raise InvalidMeasurement("\n".join(f"{one}, and tuning_required is set: not measured" for one in lost))
