"""Where the scheduler meets xdist: workers say what they collected, the controller plans and clears up after deaths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.collect import Case
from pytest_pinet.errors import LabError, PinetError
from pytest_pinet.lab.contention import domains_of
from pytest_pinet.lab.identity import Identity
from pytest_pinet.model.lab import Lab
from pytest_pinet.run_keeper import WORKER_INPUT, RunKeeper
from pytest_pinet.scheduling import plan
from pytest_pinet.scheduling.estimates import Estimates
from pytest_pinet.scheduling.plan import Job, Needs

# Set by the plugin's pytest_cmdline_main, before xdist fills in its default: the user left the choice of --dist to us.
UNCHOSEN = "pinet_dist_unchosen"
# What a test that needs no lab is taken to last.
FILLER_S = 0.1


class WorkerHooks:
    """In a worker: tells the controller what each test needs, by a file in the run folder.

    xdist's channel carries node ids only. The file is complete before the ids are sent.
    """

    def __init__(self, config: pytest.Config, lab: Lab, case_of: Callable[[pytest.Item], Case | None]) -> None:
        self._folder = Path(config.workerinput[WORKER_INPUT])  # type: ignore[attr-defined]
        self._lab = lab
        self._case_of = case_of

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the plan when any test needs the lab."""
        needs = {}
        for item in session.items:
            case = self._case_of(item)
            if case is not None:
                domains = domains_of(self._lab, case.combination)
                needs[item.nodeid] = Needs(frozenset(case.combination.places), frozenset(domains))
        if needs:
            plan.write(self._folder, needs)


class ControllerHooks:
    """In the controller: makes the scheduler, and gives back what a worker held that died."""

    def __init__(self, config: pytest.Config, lab: Lab, keeper: RunKeeper) -> None:
        self._option = config.option
        self._lab = lab
        self._keeper = keeper
        self._needs: dict[str, Needs] = {}
        self._died = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Ours, unless the user chose one."""
        if self._option.dist != "load" or not getattr(self._option, UNCHOSEN, False):
            return None
        from pytest_pinet.scheduling.workers import PlannedScheduling

        return PlannedScheduling(config, log, self._jobs)

    def _jobs(self, nodeids: Sequence[str]) -> list[Job] | None:
        folder = self._keeper.folder.path
        self._needs = plan.read(folder)
        if self._needs.keys().isdisjoint(nodeids):
            return None
        estimates = Estimates.of_earlier_runs(folder.parent)
        jobs = []
        for index, nodeid in enumerate(nodeids):
            needs = self._needs.get(nodeid)
            if needs is None:
                jobs.append(Job(index, Needs(), FILLER_S, 0.0))
            else:
                jobs.append(Job(index, needs, estimates[nodeid].total_s, estimates[nodeid].traffic_s))
        return jobs

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """A worker that died cannot give back its places: do it now, before its tests are given to others."""
        if not error:
            return
        from pytest_pinet.lab.reaper import free_places_of

        worker, run = node.workerinput["workerid"], node.workerinput["testrunuid"]
        self._died = f"worker {worker} died while it ran this test"
        try:
            freed = free_places_of(worker, run, self._lab.file, Identity.of_this_process("controller", run))
        except (PinetError, OSError) as trouble:
            message = trouble.message if isinstance(trouble, LabError) else str(trouble)
            self._keeper.warn(f"could not give back the places of worker {worker}, which died: {message}")
        else:
            self._died += f"; its places {', '.join(freed)} were given back" if freed else ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A measurement that died with its worker is the lab's trouble, not a slow link."""
        if crashitem not in self._needs:
            return
        # An error, as those of the set-up are; xdist makes it a failure of no phase at all.
        report.when = "setup"
        report.longrepr = (
            f"LeaseError: {self._died or 'the worker died'}\n"
            "  -> run the test again; was the worker killed (out of memory, kill -9), or did it crash?"
        )
