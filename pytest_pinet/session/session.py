"""The one object that the plugin registers: it lives in every process that collects pinet tests."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.errors import (
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
)
from pytest_pinet.judge.profile import DEFAULT_PROFILE, PROFILES, Profile
from pytest_pinet.judge.warmup import cap_for
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.ping import Ping
from pytest_pinet.model.traffic import HttpTraffic, Traffic
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.report.failure import error_text, failure_text
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.parameters import with_tool
from pytest_pinet.report.progress import Progress
from pytest_pinet.report.record import ResultRecord
from pytest_pinet.scheduling.hooks import ControllerHooks, WorkerHooks
from pytest_pinet.session.dry_run import DryRun
from pytest_pinet.session.error_reports import as_report, error_record, require_tunings
from pytest_pinet.session.hook_calls import FACTS_KEY
from pytest_pinet.session.marker import read_profile
from pytest_pinet.session.options import check_axes, check_tunings, command_line_limits, repeated_options
from pytest_pinet.session.parametrizer import Parametrizer, case_of
from pytest_pinet.session.run_recorder import RunRecorder
from pytest_pinet.tuning.registry import boot_part, read_tuning

if TYPE_CHECKING:
    from pytest_pinet.measure.comparison import State

# Set when the lab broke a measurement: its nodes must be brought up anew.
TROUBLE_KEY: pytest.StashKey[bool] = pytest.StashKey()
# What the processes of the latest measurement printed, for as long as nobody wrote it to files.
RAW_KEY: pytest.StashKey[dict[str, str]] = pytest.StashKey()
RESULTS_KEY: pytest.StashKey[list[ResultRecord]] = pytest.StashKey()


class PinetSession:
    """Opens links for tests, measures, and turns trouble into the right kind of report.

    Construction reads the lab file and the limits of the command line. Raises ConfigError.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        # labgrid's SerialLoggingReporter trips over a console that has said nothing yet, and warns of it.
        harmless = "unhandled exception during event notification"
        config.addinivalue_line("filterwarnings", f"ignore:{harmless}:UserWarning")
        # Builds are booted outside of any test, where pytest has read that line already.
        warnings.filterwarnings("ignore", harmless, UserWarning)
        named = config.getoption("--pinet-lab") or os.environ.get("PINET_LAB")
        ini = config.getini("pinet_lab")
        self.lab_file = named or (str(config.rootpath / ini) if ini else None)
        self.lab = labfile.load(self.lab_file) if self.lab_file else None
        self._known = ReferenceData(self.lab)
        self.limits = (
            *command_line_limits(config.getoption("--pinet-min"), self.lab),
            *command_line_limits(config.getoption("--pinet-tolerance"), self.lab, Metric.TOLERANCE),
        )
        read_profile("--pinet-profile", config.getoption("--pinet-profile"))
        self.axes = {axis: config.getoption(f"--pinet-{axis}") for axis in ("board", "nic", "topology", "tuning")}
        check_tunings(self.axes["tuning"])
        if self.lab is not None:
            check_axes(self.axes, self.lab)
        self._worker = getattr(config, "workerinput", {}).get("workerid", "main")
        self.progress = Progress(
            config.pluginmanager.get_plugin("terminalreporter"),
            config.pluginmanager.get_plugin("capturemanager"),
            config.get_verbosity() if self._worker == "main" else -1,
        )
        identity = Identity.of_this_process(self._worker, os.environ.get("PYTEST_XDIST_TESTRUNUID", "0"))
        self.access = LabAccess(self.lab, identity, config.getoption("--pinet-acquire-timeout"), self.progress.show)
        self.dry_run = DryRun(self.lab) if config.getoption("--pinet-dry-run") else None
        self.keeper = RunRecorder(config, self.lab, self.lab_file, self.access, self.dry_run)
        self.access.folder = lambda: self.keeper.folder.path
        config.pluginmanager.register(self.keeper, "pinet-run-keeper")
        if self.lab is not None and self._worker != "main":
            boards_whole = bool(config.getoption("--pinet-build"))
            hooks = WorkerHooks(config, self.lab, case_of, boards_whole, self.access, self.keeper)
            config.pluginmanager.register(hooks, "pinet-xdist-worker")
        elif self.lab is not None and getattr(config.option, "numprocesses", None):
            config.pluginmanager.register(ControllerHooks(config, self.lab, self.keeper), "pinet-xdist-controller")
        self.parametrizing = Parametrizer(config, self.lab, self.axes, self.keeper.hooks)
        config.pluginmanager.register(self.parametrizing, "pinet-parametrizing")
        if directory := config.getoption("allure_report_dir", None):
            from pytest_pinet.session.allure import attach

            attach(config, directory, self.keeper, case_of, self.lab)

    @contextmanager
    def open_link(self, item: pytest.Item, case: CombinationCase) -> Iterator[Any]:
        """A link for one test; the nodes that the next test needs stay booted and leased."""
        combination = case.combination
        item.stash[RESULTS_KEY] = []
        if self.dry_run is not None:
            yield self.dry_run.link(combination)
            return
        try:
            with self.progress, self._opened(item, case) as link:
                self.progress.close()
                if case.request.tuning_required:
                    require_tunings(link.tunings)
                yield link
            if item.stash.get(TROUBLE_KEY, False):
                # Only now, since the changes on the nodes had to be undone first.
                self.access.distrust(combination)
        except (QuarantineError, CapabilityError) as error:
            pytest.skip(str(error))
        except KernelError:
            self._check_lease(combination)
            raise
        except LabError:
            self.access.distrust(combination)
            raise
        finally:
            for warning in self.access.take_warnings():
                self.keeper.warn(warning)

    def _opened(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Any]:
        return self.access.open(case.combination, case.request.reset)

    def profile(self, item: pytest.Item, called: str | None) -> Profile:
        """What a measurement may spend: what the call, the command line, the marker or the lab file says."""
        case = case_of(item)
        marked = case.request.profile if case is not None else None
        lab = self.lab.profile if self.lab is not None else None
        option = read_profile("--pinet-profile", self.config.getoption("--pinet-profile"))
        return PROFILES[read_profile("", called) or option or marked or lab or DEFAULT_PROFILE]

    def tuned(
        self, item: pytest.Item, link: Any, settings: Mapping[str, object]
    ) -> AbstractContextManager[Sequence[Tuned]]:
        """Be tuned for a while; what cannot be taken back is told at the end. Raises ConfigError, LabError."""
        try:
            tuning = read_tuning(settings)
            if boot := boot_part(tuning):
                raise ValueError(f"{boot.key} takes a boot: write it into the marker, as tuning={dict(boot.settings)}")
        except ValueError as error:
            raise ConfigError(f"{item.nodeid}: tune: {error}") from None
        if self.dry_run is not None:
            return nullcontext(())
        from pytest_pinet.lab.link import tuning_session

        return tuning_session.tuned(link, tuning, self.keeper.warn)

    def measure(
        self, item: pytest.Item, link: Any, traffic: Traffic, limits: tuple[Limit, ...], profile: Profile
    ) -> ResultRecord:
        """Measure until it is judged, and record. Raises LabError or UnsupportedError."""
        if self.dry_run is not None:
            return self.dry_run.measure(item, link, traffic)
        with self._watched(item, link.combination):
            record = self._measure(item, link, traffic, limits, profile)
        item.stash[RESULTS_KEY].append(record)
        return record

    @contextmanager
    def _watched(self, item: pytest.Item, combination: Combination) -> Iterator[None]:
        """Around a measurement: a kernel that broke meanwhile gives no figure, and what the lab broke is distrusted."""
        try:
            yield
            self.access.watch()
        except LabError:
            item.stash[TROUBLE_KEY] = True
            self._check_lease(combination)
            raise

    def _measure(
        self, item: pytest.Item, link: Any, traffic: Traffic, limits: tuple[Limit, ...], profile: Profile
    ) -> ResultRecord:
        from pytest_pinet.judge.measurement import GatePlan, fitted
        from pytest_pinet.measure import measurement

        total_s = traffic.seconds_with(cap_for(link.path.speed_mbps))
        plan = GatePlan(
            self._limits(item, link, traffic, limits),
            fitted(profile, total_s),
            self._known.of_traffic(link.combination.identity, traffic),
            self.config.getoption("--pinet-confirm") == "link-up",
            self.config.getoption("--pinet-error-rate"),
        )
        hooks = self.keeper.hooks
        with self.access.exclusive(link.combination), self.progress, hooks.measurement(item, link, traffic):
            raw = item.stash[RAW_KEY] = {}
            record = measurement.measure(
                link,
                traffic,
                plan,
                self.access.tool_for(traffic),
                self._show_progress(link.id, total_s) if self.progress.shown else None,
                self.access.watch,
                raw,
            )
        record = self._finished(item, record, raw)
        self.access.check(link.combination)
        return record

    def _limits(self, item: pytest.Item, link: Any, traffic: Traffic, called: tuple[Limit, ...]) -> tuple[Limit, ...]:
        """All that may judge this traffic, ``called`` is what the gate call says."""
        case = case_of(item)
        assert self.lab is not None
        assert case is not None
        # Those of the lab file speak of TCP and UDP.
        filed = () if isinstance(traffic, HttpTraffic) else self.lab.limits
        return (*filed, *case.request.limits_for(link.combination), *called, *self.limits)

    def ping(
        self, item: pytest.Item, link: Any, ping: Ping, limits: tuple[Limit, ...], profile: Profile
    ) -> ResultRecord:
        """Ping until it is judged, and record. Raises LabError."""
        if self.dry_run is not None:
            return self.dry_run.ping(item, link, ping)
        from pytest_pinet.measure import ping as measure_ping

        case = case_of(item)
        assert case is not None
        raw = item.stash[RAW_KEY] = {}
        with self._watched(item, link.combination):
            own = (*case.request.limits_for(link.combination), *limits)
            hooks = self.keeper.hooks
            with self.access.exclusive(link.combination), self.progress, hooks.measurement(item, link, ping):
                found = measure_ping.measure(link, ping, own, profile, raw, self.access.watch)
            record = self._finished(item, found, raw)
            self.access.check(link.combination)
        item.stash[RESULTS_KEY].append(record)
        return record

    def compare(
        self, item: pytest.Item, link: Any, traffic: Traffic, states: tuple[State, State], tolerance: float
    ) -> ResultRecord:
        """Measure two states in turn, judge the second by the first, and record. Raises PinetError."""
        if self.dry_run is not None:
            return self.dry_run.measure(item, link, traffic)
        from pytest_pinet.judge.interleaved import Side
        from pytest_pinet.measure.comparison import ComparisonPlan, compare
        from pytest_pinet.measure.comparison_record import compared_record

        raw = item.stash[RAW_KEY] = {}
        total_s = traffic.seconds_with(cap_for(link.path.speed_mbps))
        # State B may have another MTU, which its physical limit depends on.
        as_it_was, combination = {Side.B: link}, link.combination
        with self._watched(item, link.combination):
            hooks = self.keeper.hooks
            with self.access.exclusive(link.combination), self.progress, hooks.measurement(item, link, traffic):
                found = compare(
                    link,
                    traffic,
                    *states,
                    self.access.tool,
                    ComparisonPlan(
                        tolerance,
                        self.config.getoption("--pinet-error-rate"),
                        references=self._known.of_traffic(link.combination.identity, traffic),
                    ),
                    self._show_progress(link.id, total_s) if self.progress.shown else None,
                    self.access.watch,
                    raw,
                    lambda side: as_it_was.update({side: replace(link, combination=combination)}),
                )
            record = self._finished(item, compared_record(as_it_was[Side.B], traffic, found), raw)
            self.access.check(link.combination)
        item.stash[RESULTS_KEY].append(record)
        return record

    def _finished(self, item: pytest.Item, record: ResultRecord, raw: Mapping[str, str]) -> ResultRecord:
        """The record with its files, and what only the session knows."""
        record["files"] = self.keeper.folder.write_raw(record["id"], raw)
        # An error that follows has its own files.
        item.stash[RAW_KEY] = {}
        return self._told(item, record)

    def _told(self, item: pytest.Item, record: ResultRecord) -> ResultRecord:
        """The record with what only the session knows."""
        record["test"], record["rerun"] = item.nodeid, self.rerun_command(item)
        if facts := item.stash.get(FACTS_KEY, None):
            record["facts"] = facts
        if "ping" not in record and self.lab is not None:
            record["tool"] = tool = self.lab.http_tool if "http" in record else self.lab.traffic_tool
            if "parameters" in record:
                record["parameters"] = with_tool(record["parameters"], tool)
        if (share := self.access.scale.share) != 1:
            record["scale"] = share
        if record["verdict"] in ("fail", "invalid", "inconclusive"):
            record["message"] = failure_text(record, self.keeper.shown_folder)
        return record

    def _show_progress(self, label: str, total_s: int) -> Callable[[int, float, Mapping[str, float | None]], None]:
        def show(number: int, elapsed_s: float, rates: Mapping[str, float | None]) -> None:
            self.progress.update(label if number == 1 else f"{label} #{number}", elapsed_s, total_s, rates)

        return show

    def rerun_command(self, item: pytest.Item) -> str:
        """What repeats this test, from the folder in which this run was started."""
        rootpath, invoked = self.config.rootpath, self.config.invocation_params.dir
        node = item.nodeid if rootpath == invoked else os.path.relpath(rootpath / item.nodeid, invoked)
        # With "=", or pytest takes the lab file for a test path when it looks for its root.
        words = ["pytest", node, f"--pinet-lab={self.lab_file}"]
        return shlex.join([*words, *repeated_options(self.config.getoption)])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """What a console told of a broken kernel is how the test ended, whatever else came of it."""
        case = case_of(item)
        if case is None or self.dry_run is not None:
            return (yield)
        try:
            result = yield
        except CapabilityError as error:
            pytest.skip(str(error))
        except (Exception, pytest.fail.Exception, pytest.skip.Exception):
            self._look_at_consoles(item, case.combination)
            raise
        self._look_at_consoles(item, case.combination)
        return result

    def _look_at_consoles(self, item: pytest.Item, combination: Combination) -> None:
        try:
            self.access.watch()
        except KernelError:
            try:
                self._check_lease(combination)
            except LabError:
                item.stash[TROUBLE_KEY] = True
                raise
            raise

    def _check_lease(self, combination: Combination) -> None:
        """Raise LeaseError when a node was lost: whoever has it now may have switched it off, which is the cause."""
        self.access.check(combination)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """After a test, leave and release every node that the next test does not need."""
        result = yield
        if case_of(item) is not None and self.dry_run is None:
            self.access.keep_only(self._needed(nextitem))
            for warning in self.access.take_warnings():
                self.keeper.warn(warning)
        return result

    def _needed(self, item: pytest.Item | None) -> Sequence[Node]:
        case = case_of(item)
        return case.combination.nodes if case is not None else ()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Lab errors become errors without a traceback of ours; results travel on the report."""
        report = yield
        case = case_of(item)
        if case is None:
            return report
        results = item.stash.get(RESULTS_KEY, [])
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, PinetError):
            verdict = {InvalidMeasurement: "invalid", Inconclusive: "inconclusive"}.get(type(error))
            told = any(r["verdict"] == verdict for r in results)
            if not told:
                record = error_record(item.nodeid, case.combination, error, self.rerun_command(item))
                self._keep_evidence(item, record, error)
                named = isinstance(error, LabError | KernelError | BuildError | InvalidMeasurement)
                text = error_text(record, self.keeper.shown_folder) if named else str(error)
                if named or isinstance(error, UnsupportedError | ConfigError):
                    results = [*results, record]
                if call.when == "teardown":
                    # The others went with the report of the call.
                    report.pinet_results = [record]  # type: ignore[attr-defined]
            else:
                text = str(error)
            # Where the test expects this very error, pytest has said so already.
            if not hasattr(report, "wasxfail"):
                as_report(item, report, error, text)
        if call.when == "call" or (call.when == "setup" and report.failed):
            properties = junit_properties(results)
            report.user_properties += properties
            # pytest's JUnit writer reads those of the teardown's report, which is made from the item's.
            item.user_properties += properties
            report.pinet_results = results  # type: ignore[attr-defined]  # travels to the controller
        return report

    def _keep_evidence(self, item: pytest.Item, record: ResultRecord, error: PinetError) -> None:
        """Put what the console showed, and all that was printed before the end, beside the output of measurements."""
        evidence = [getattr(error, "evidence", ""), *getattr(error, "__notes__", [])]
        texts = {"console.txt": record["console_excerpt"], "evidence.txt": "\n".join(filter(None, evidence))}
        files = {name: text for name, text in texts.items() if text} | item.stash.get(RAW_KEY, {})
        if files:
            try:
                record["files"] = self.keeper.folder.write_raw(record["id"], files)
            except ConfigError as trouble:
                self.keeper.warn(str(trouble))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, Any, Any]:
        """Leave the lab, whatever happened, and whatever else goes wrong at the end."""
        try:
            return (yield)
        finally:
            for warning in self.access.close():
                self.keeper.warn(warning)
