"""Keeps the results of a run in its folder, and prints the summary. In an xdist worker it only has the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.text import for_log
from pytest_pinet.history.history import OFF, keep_run
from pytest_pinet.history.text import heights_for
from pytest_pinet.judge.level import blind_spots
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.model.record.change import EXACT, ChangeHeadRecord
from pytest_pinet.model.record.result import SCHEMA_VERSION, ResultRecord, RunRecord, SkippedRecord
from pytest_pinet.model.verdict import GOOD
from pytest_pinet.report.change_table import change_lines, emulated_words
from pytest_pinet.report.exact_text import EXACT_MEANING
from pytest_pinet.report.result_record import attached_results, skip_reason
from pytest_pinet.report.run_folder import RunFolder, write_json
from pytest_pinet.report.terminal import not_measured, summary_table
from pytest_pinet.report.text_wrap import wrap
from pytest_pinet.report.trends import trend_lines
from pytest_pinet.scheduling.planner import WORKER_INPUT
from pytest_pinet.session.boards import BoardMemory
from pytest_pinet.session.dry_run import PLANNED, DryRun
from pytest_pinet.session.exact_gate import exact_combination_of
from pytest_pinet.session.hook_calls import HookCalls
from pytest_pinet.session.parametrizer import is_parametrized
from pytest_pinet.session.settings import settings
from pytest_pinet.session.terminal import write_unjudged
from pytest_pinet.version import __version__

# Why a test that passed has no result.
NO_MEASUREMENT = "the test passed without a measurement"


def after_failures(interrupt: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether xdist ends the run after enough failures (``-x``), without Ctrl-C."""
    return str(interrupt.value).startswith("stopping after ")


def heights_of(config: pytest.Config) -> str:
    """Return the characters of a course that pytest's terminal or the file that takes its output can show."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    file = getattr(getattr(terminal, "_tw", None), "_file", None)
    return heights_for(getattr(file, "encoding", None))


# Returns the verdict on a build under test from all results, the number of failed tests, and whether Ctrl-C ended the
# run.
JudgeChange = Callable[[Sequence[ResultRecord], int, bool], ChangeHeadRecord]


class RunRecorder:
    """Collects the results of all workers, writes each at once, and prints the summary."""

    def __init__(self, config: pytest.Config, lab: LabOfFile | None, access: LabAccess, dry_run: DryRun | None) -> None:
        self.config = config
        self.lab = lab
        self.access = access
        self._dry_run = dry_run
        self._is_worker = hasattr(config, "workerinput")
        self._is_exact = bool(config.getoption("--pinet-exact"))
        self._started = datetime.now(UTC)
        self._session = uuid4().hex
        self._results: list[ResultRecord] = []
        self._skipped: dict[str, SkippedRecord] = {}
        self._warnings: list[str] = []
        self.hooks = HookCalls(config, self.warn)
        self._folder: RunFolder | None = None
        self._interrupted = False
        self._boards: BoardMemory | None = None
        self._judge_change: JudgeChange | None = None
        # The whole run, after its end.
        self.record: RunRecord | None = None
        # Why the run cannot be kept.
        self.unwritten: ConfigError | None = None
        if dry_run is not None and self._is_controller:
            raise ConfigError("--pinet-dry-run plans in one process: remove -n")

    def skip(self, skipped: Iterable[SkippedRecord]) -> None:
        """Report what a run did not judge, beside the tests that were skipped."""
        self._skipped |= {f"{one.id} {one.reason}": one for one in skipped}

    def judge_change_by(self, judge: JudgeChange) -> None:
        """Use this at the end of the run to judge the build under test."""
        self._judge_change = judge

    @property
    def _is_controller(self) -> bool:
        """Whether this process is the controller of xdist workers."""
        return not self._is_worker and bool(getattr(self.config.option, "numprocesses", None))

    @property
    def folder(self) -> RunFolder:
        """The run folder. It is made on first use. Raises ConfigError if it cannot be written."""
        if self._folder is None:
            if self._is_worker:
                self._folder = RunFolder(Path(self.config.workerinput[WORKER_INPUT]))  # type: ignore[attr-defined]
            else:
                folder = RunFolder.create(self._root, self._started)
                folder.begin(self._begun(folder.run))
                self._folder = folder
        return self._folder

    @property
    def has_folder(self) -> bool:
        """Whether this run measures, so that it has a run folder already."""
        return self._folder is not None

    def _begun(self, run: str) -> RunRecord:
        """Return the record of the run at its beginning. It stays on disk if the run is killed."""
        return RunRecord(
            schema_version=SCHEMA_VERSION,
            run=run,
            lab=self.lab.name if self.lab else EXACT if self._is_exact else "",
            lab_file=self.lab.file if self.lab else "",
            figures="emulated" if self.emulated else "measured",
            pinet=__version__,
            started=self._started.isoformat(),
            finished=self._started.isoformat(),
            complete=False,
            exitstatus=int(pytest.ExitCode.INTERRUPTED),
            results=(),
            skipped=(),
            session=self._session,
            meaning=self._meaning,
        )

    @property
    def _meaning(self) -> str | None:
        """What emulated values mean; None for measured values."""
        if self._is_exact:
            return EXACT_MEANING
        return f"lab {self.lab.name} {self.lab.meaning}" if self.lab and self.emulated else None

    @property
    def runs(self) -> Path:
        """The folder of the run folders. It exists once there is a run folder."""
        return self._root / ".pinet" / "runs"

    @property
    def _root(self) -> Path:
        """The folder of the project. pytest can find a wrong rootdir, because it takes a lab file for a test path."""
        if chosen := self.config.getoption("--pinet-run-dir"):
            return Path(chosen).absolute()
        root, here = self.config.rootpath, self.config.invocation_params.dir
        return root if self.config.inipath is not None and here.is_relative_to(root) else here

    @property
    def shown_folder(self) -> str:
        """The run folder for messages, relative to the current folder if it is below."""
        path, here = self.folder.path, self.config.invocation_params.dir
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

    @property
    def emulated(self) -> bool:
        """Whether software sets the link rates of this lab, or counts the instructions of an exact board."""
        return self._is_exact or (self.lab is not None and self.lab.figures == "emulated")

    @property
    def scale(self) -> float | None:
        """The share of their rate at which links run; None for the full rate."""
        share = self.access.scale.share
        return None if share == 1 else share

    def warn(self, *warnings: str) -> None:
        """Add warnings to the summary. A worker sends its warnings to the controller."""
        if self._is_worker:
            self.config.workeroutput.setdefault("pinet_warnings", []).extend(warnings)  # type: ignore[attr-defined]
        else:
            self._warnings += warnings

    # -- xdist ----------------------------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send the path of the run folder to a worker."""
        node.workerinput[WORKER_INPUT] = str(self.folder.path)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Take over the warnings of a worker."""
        if error:
            # xdist calls this hook twice for an interrupted worker.
            return
        self._warnings += getattr(node, "workeroutput", {}).get("pinet_warnings", [])

    def pytest_sessionstart(self) -> None:
        """Start the lab in the controller, because it outlives all workers."""
        if self._is_controller:
            self._make_folder()
        if self._is_controller and self.lab is not None and self._dry_run is None:
            try:
                self.access.start()
            except PinetError as error:
                pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _make_folder(self) -> None:
        """Make the run folder before the first test: without it, no value could be kept. Raises UsageError."""
        try:
            folder = self.folder.path
        except ConfigError as error:
            self.unwritten = error
            raise pytest.UsageError(for_log(str(error))) from None
        # A virtual lab starts again with each run.
        if not self._is_worker and self._boards is None and self.lab is not None and not self.emulated:
            self._boards = BoardMemory(self.history_url, self.lab.name, folder)
            self._boards.recall()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Make the run folder if a test will measure."""
        idle = self.config.option.collectonly or self._dry_run is not None
        measures = exact_combination_of if self.lab is None else is_parametrized
        if not idle and any(map(measures, session.items)):
            self._make_folder()

    # -- results --------------------------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._is_worker:
            return
        for result in attached_results(report):
            self.keep(result)
        is_ours, name = bool({"pinet", "exact"} & {*report.keywords}), report.nodeid.rpartition("::")[2]
        if is_ours and report.skipped and isinstance(report.longrepr, tuple):
            self._skipped[report.nodeid] = SkippedRecord(id=name, reason=skip_reason(report))
        elif is_ours and report.passed and report.when == "call" and report.nodeid not in self.reported_tests:
            self._skipped[report.nodeid] = SkippedRecord(id=name, reason=NO_MEASUREMENT)

    def keep(self, result: ResultRecord) -> None:
        """Keep one result: write it to disk and call the hook. What a second board completed replaces the result."""
        if self._boards is not None:
            result = self._boards.noted(result)
        if result.second_board is None or not self._completed(result):
            self._results.append(result)
        try:
            self.folder.append(result)
        except ConfigError as error:
            self.warn(str(error))
        self.hooks.result(result)

    def _completed(self, result: ResultRecord) -> bool:
        """Replace an earlier result by the same one with what a second board had. Return False if there is none."""
        for index, one in enumerate(self._results):
            if (one.test, one.id, one.started) == (result.test, result.id, result.started):
                self._results[index] = result
                return True
        return False

    @property
    def reported_tests(self) -> set[str]:
        return {result.test for result in self._results}

    def has_bad_result(self, test: str) -> bool:
        """Return whether a result says why this test is not good."""
        return any(result.test == test and result.verdict not in GOOD for result in self._results)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that the results are incomplete."""
        self._interrupted = not after_failures(excinfo)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the results, also after Ctrl-C. Fail the run if it has fewer results than ``--pinet-require``."""
        required = self.config.getoption("--pinet-require")
        if self._is_worker or self.config.option.collectonly or self._dry_run is not None:
            return
        measured = sum(bool(result.directions) for result in self._results)
        if measured < required and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._warnings.append(f"{settings(self.config).origin('require')} {required}: only {measured} measured")
        if not self._results and self._folder is None:
            return
        shards = self.config.getoption("--pinet-shards")
        judge = self._judge_change
        head = None if judge is None else judge(self._results, session.testsfailed, self._interrupted)
        if head is not None and shards > 1:
            head = head.replace(sentence=f"{head.sentence[:-1]}; one of {shards} shards, which 'pinet merge' joins.")
        self.record = run = self._begun(self.folder.run).replace(
            finished=datetime.now(UTC).isoformat(),
            complete=not self._interrupted,
            exitstatus=int(session.exitstatus),
            results=self._results,
            skipped=tuple(self._skipped.values()),
            change=head,
            scale=self.scale,
            shards=None if shards == 1 else shards,
            error_rate=self.config.getoption("--pinet-error-rate") if shards > 1 else None,
        )
        try:
            self.folder.write_results(run)
            if path := self.config.getoption("--pinet-json"):
                write_json(Path(path), run)
        except ConfigError as error:
            self.unwritten = error
            self._warnings.append(str(error))
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return

        if trouble := keep_run(self._chosen_history or None, run, self.folder.path):
            self._warnings.append(trouble)
        if self._boards is not None:
            self._warnings += self._boards.remember(run.run, self._results)
        self.hooks.run_finished(run, self.folder.path)

    @property
    def _chosen_history(self) -> str:
        """The history that the user chose; empty if none was chosen."""
        return self.config.getoption("--pinet-history") or ""

    @property
    def history_url(self) -> str | None:
        """The history of earlier runs, for reading; None if no history is kept."""
        chosen = self._chosen_history
        if chosen.strip().lower() in OFF:
            return None
        return chosen or str(self.folder.path.parent.parent / "history.db")

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Print the texts of tests without a verdict, and the table of results, the worst first."""
        write_unjudged(terminalreporter, self.config)
        verbosity = self.config.get_verbosity()
        color = bool(getattr(terminalreporter._tw, "hasmarkup", False))
        json_path = self.config.getoption("--pinet-json")
        if self._is_worker or self.config.option.collectonly or verbosity < -1:
            return
        lines: list[str] = []
        if self._dry_run is not None and exitstatus != pytest.ExitCode.USAGE_ERROR:
            lines = self._dry_run.lines()
            missed = [one for one in self._skipped.values() if self._is_exact and one.reason != PLANNED]
            lines += not_measured(missed, each=True)
        elif self.record is not None and self.record.change is not None:
            # The answer on a build under test replaces the table of results.
            run, change = self.record, self.record.change
            lines = change_lines(change, run.skipped, color, self.shown_folder, json_path, run.results)
            lines += wrap(emulated_words(self.record), hanging="  ")
        elif self._results or self._skipped:
            lines = summary_table(
                self._results,
                list(self._skipped.values()),
                color=color,
                run_folder=self.shown_folder if self._folder is not None else None,
                json_path=json_path if self._folder is not None else None,
                verbose=verbosity > 0,
                explained=_explained(terminalreporter),
            )
            if self._results and self.lab is not None:
                lines += trend_lines(self.history_url, self._results, self.lab.name, heights_of(self.config))
            if verbosity > 0:
                error_rate = self.config.getoption("--pinet-error-rate")
                for name in sorted({result.profile for result in self._results} & set(PROFILES)):
                    lines += wrap(blind_spots(PROFILES[name], error_rate), hanging="  ")
            if self._results and self.record is not None and (meant := emulated_words(self.record)):
                lines += wrap(meant, hanging="  ")
            scale = self.access.scale
            if scale.share != 1 or (scale.because and verbosity > 0):
                lines += wrap(f"lab {self.lab.name if self.lab else ''}: {scale}", hanging="  ")
        if lines:
            terminalreporter.section("pinet throughput")
            for line in lines:
                terminalreporter.write_line(for_log(line))
        for warning in self._warnings:
            terminalreporter.write_line(for_log(f"pinet: {warning}"), red=True)


def _explained(terminalreporter: Any) -> set[str]:
    """Return the tests whose failure pytest has printed."""
    option = terminalreporter.config.option
    if option.tbstyle == "no" or getattr(option, "no_summary", False):
        return set()
    reports = (report for several in terminalreporter.stats.values() for report in several)
    return {report.nodeid for report in reports if getattr(report, "failed", False)}
