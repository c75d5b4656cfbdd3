"""Connects the scheduler to xdist: workers report their tests' needs, the controller plans and cleans up."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_pinet.errors import LabError, PinetError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.text import for_log
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.contention import domains_of
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.lab import Lab
from pytest_pinet.report.run_folder import RunFolder
from pytest_pinet.scheduling import planner
from pytest_pinet.scheduling.planner import WORKER_INPUT, Estimates, Needs, PlannedTest

if TYPE_CHECKING:
    import execnet

# Set by the plugin's pytest_cmdline_main before xdist sets its default: the user gave no --dist option.
UNCHOSEN = "pinet_dist_unchosen"
# Assumed duration of a test that needs no lab.
FILLER_S = 0.1
# This file in the run folder interrupts the workers.
STOP_FILE = "stop"
# Time for a board to boot, and then to remove the build and power off.
UNDO_S = 180.0
# A wait shorter than this is not reported.
QUIET_S = 1.0


class XdistWorker(Protocol):
    """A worker as xdist's controller sees it (``WorkerController``). A worker that did not start has no ``channel``."""

    workerinput: dict[str, str]
    channel: execnet.Channel
    gateway: execnet.Gateway

    def shutdown(self) -> None: ...


class RunReporter(Protocol):
    """The recorder of a run: has the run folder, and passes warnings on to the user."""

    @property
    def folder(self) -> RunFolder: ...

    def warn(self, *warnings: str) -> None: ...


@dataclass(eq=False)
class WorkerHooks:
    """Runs in a worker: writes the needs of each test to a file in the run folder, and restores the lab in time.

    xdist's channel carries node IDs only. The file is complete before the IDs are sent. ``boards_whole``: one worker
    gets all tests of a board and of the boards that share a node with it, because one boot serves all of them.
    """

    config: pytest.Config
    lab: Lab
    case_of: Callable[[pytest.Item], CombinationCase | None]
    boards_whole: bool
    access: LabAccess
    keeper: RunReporter

    def __post_init__(self) -> None:
        self._folder = Path(self.config.workerinput[WORKER_INPUT])  # type: ignore[attr-defined]
        self.access.interrupt_with(stop_on_request(self._folder))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the plan if any test needs the lab."""
        needs = {}
        for item in session.items:
            case = self.case_of(item)
            if case is not None:
                domains = domains_of(self.lab, case.combination)
                needs[item.nodeid] = Needs(frozenset(case.combination.places), frozenset(domains))
        if needs:
            planner.write(self._folder, planner.joined(needs) if self.boards_whole else needs)

    # The innermost wrapper. It runs after pytest's own hook, which tears down what an interrupted test had set up. It
    # runs before xdist reports to the controller that this worker has finished, because the worker can be killed then.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            try:
                self.keeper.warn(*self.access.close())
            except KeyboardInterrupt:
                self.keeper.warn(
                    "Ctrl-C stopped a pytest-xdist worker while it restored boards and switch ports; "
                    "the next run restores the rest"
                )
                raise


class ControllerHooks:
    """Runs in the controller: makes the scheduler, ends workers, and releases the places of workers that died.

    ``header`` returns the lines to print once the workers have collected; arguments: the tests, seconds of work,
    count of workers.
    """

    def __init__(
        self,
        config: pytest.Config,
        lab: Lab,
        keeper: RunReporter,
        header: Callable[[Sequence[str], float, int], list[str]],
    ) -> None:
        self._config = config
        self._workers: list[XdistWorker] = []
        self._lab = lab
        self._keeper = keeper
        self._header = header
        self._needs: dict[str, Needs] = {}
        self._died = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> object:
        """Return pinet's scheduler; None if the user chose a scheduler."""
        if config.option.dist != "load" or not getattr(config.option, UNCHOSEN, False):
            return None
        from pytest_pinet.scheduling.workers import PlannedScheduling

        return PlannedScheduling(config, log, self._jobs)

    def _jobs(self, nodeids: Sequence[str]) -> list[PlannedTest] | None:
        folder = self._keeper.folder.path
        self._needs = planner.read(folder)
        if self._needs.keys().isdisjoint(nodeids):
            return None
        estimates = Estimates.of_earlier_runs(folder.parent)
        jobs = []
        for index, nodeid in enumerate(nodeids):
            needs, expected = self._needs.get(nodeid), estimates[nodeid]
            if needs is None:
                jobs.append(PlannedTest(index, Needs(), FILLER_S, 0.0))
            else:
                jobs.append(PlannedTest(index, needs, expected.total_s, expected.traffic_s))
        self._write(*self._header(nodeids, math.fsum(job.total_s for job in jobs), len(self._workers)))
        return jobs

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: XdistWorker) -> None:
        self._workers.append(node)

    # The innermost wrapper. It begins before the results are written and before xdist ends the remaining workers. It
    # ends before the terminal's summary.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """If the run was interrupted, let the workers undo their changes, and collect their warnings."""
        silent = self._end_workers()
        try:
            return (yield)
        finally:
            # Release the places only after the workers have ended: a worker must hold a place while it undoes changes
            # there.
            for worker in silent:
                self._release_places(worker)

    def _end_workers(self) -> list[XdistWorker]:
        """End the workers. Return the workers that did not report that they left the lab."""
        folder, workers = self._keeper.folder.path, list(self._workers)
        if not workers or not planner.read(folder):
            return []
        try:
            end_workers(workers, folder, lambda text: self._write(f"pinet: {text}"))
        except OSError as error:
            self._keeper.warn(
                f"the workers end after their current test, not at once: cannot write their stop file: {error}"
            )
        silent = [worker for worker in workers if not hasattr(worker, "workeroutput")]
        for worker in workers:
            if worker in silent:
                name = worker.workerinput["workerid"]
                self._keeper.warn(f"worker {name} ended before it restored the lab; the next run restores the rest")
                continue
            # xdist has stopped listening, and the run is already over.
            with suppress(pytest.exit.Exception):
                self._config.hook.pytest_testnodedown(node=worker, error=None)
        return silent

    def _write(self, *lines: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in lines:
                reporter.ensure_newline()
                reporter.write_line(for_log(line))

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: XdistWorker, error: object | None) -> None:
        """Release the places of a worker that died, before other workers get its tests."""
        if node in self._workers:
            self._workers.remove(node)
        if error:
            self._release_places(node)

    def _release_places(self, node: XdistWorker) -> None:
        from pytest_pinet.lab.lease import free_places_of

        worker, run = node.workerinput["workerid"], node.workerinput["testrunuid"]
        self._died = f"worker {worker} died while it ran this test"
        try:
            freed = free_places_of(worker, run, self._lab.file, Identity.of_this_process("controller", run))
        except (PinetError, OSError) as trouble:
            message = trouble.message if isinstance(trouble, LabError) else str(trouble)
            self._keeper.warn(f"the places of worker {worker}, which died, could not be released: {message}")
        else:
            self._died += f"; its places {', '.join(freed)} were released" if freed else ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Report a test that died with its worker as an error of the lab, not as a slow link."""
        if crashitem not in self._needs:
            return
        # xdist reports a failure without a phase. In the phase "setup", it counts as an error.
        report.when = "setup"
        report.longrepr = (
            f"LeaseError: {self._died or 'the worker died'}\n"
            "  -> find out why the worker ended (out of memory, kill -9, a time limit, a crash), and run the test again"
        )


def stop_on_request(folder: Path) -> Callable[[], None]:
    """Return, in a worker, a function that raises KeyboardInterrupt once the controller has interrupted this run."""
    stop_file = folder / STOP_FILE

    def look() -> None:
        if stop_file.exists():
            raise KeyboardInterrupt("the run was interrupted")

    return look


def end_workers(workers: Sequence[XdistWorker], folder: Path, on_wait: Callable[[str], None]) -> None:
    """Stop the workers, from the controller, and wait until they have restored the lab, at most UNDO_S.

    xdist waits five seconds for a worker and kills it after ten. Removing a build, restoring switch ports and powering
    off nodes can take longer, and a worker in mid-traffic might not know that the run is over. Ctrl-C ends the wait.
    Raises OSError if the stop file cannot be written; the workers then end after their current test.
    """
    stop_file = folder / STOP_FILE
    failed: OSError | None = None

    def over() -> bool:
        return all(_has_ended(worker) for worker in workers)

    # Everything from the stop file on: a second Ctrl-C can come at any moment after it.
    with suppress(KeyboardInterrupt):
        try:
            stop_file.touch()
        except OSError as error:
            failed = error
        for worker in workers:
            if hasattr(worker, "channel"):
                worker.shutdown()
        if not Deadline(QUIET_S).wait_until(over):
            on_wait(f"waiting until {_names(workers)} restored the lab (at most {UNDO_S:.0f} s)")
            Deadline(UNDO_S).wait_until(over)
    if failed is not None:
        raise failed
    if over():
        stop_file.unlink(missing_ok=True)


def _has_ended(worker: XdistWorker) -> bool:
    """Return whether a worker has sent its last message, or can send none."""
    # The worker has closed its channel, or the worker is gone.
    silent = not hasattr(worker, "channel") or worker.channel.isclosed() or not worker.gateway.hasreceiver()
    return silent or hasattr(worker, "workeroutput")


def _names(workers: Sequence[XdistWorker]) -> str:
    names = [str(worker.workerinput["workerid"]) for worker in workers if not _has_ended(worker)]
    return f"{'worker' if len(names) == 1 else 'workers'} {', '.join(names)} {'has' if len(names) == 1 else 'have'}"
