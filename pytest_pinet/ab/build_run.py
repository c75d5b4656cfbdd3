"""A run with a build under test: its options, what Ctrl-C keeps, and the answer on the whole change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_pinet.ab.boots import BuildBooter
from pytest_pinet.ab.build_measuring import AcceptedMeasuring, AlternatingMeasuring
from pytest_pinet.ab.options import BUILD, OPTIONS, ABOptions, read_ab_options
from pytest_pinet.ab.worker_report import WorkerReport
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.judge.change_verdict import ChangeVerdict
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.record.change import ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.scheduling.hooks import UNCHOSEN
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.session import PinetSession


def measure_builds(session: PinetSession) -> None:
    """Make a session measure the build that its options name. Raises ConfigError."""
    config = session.config
    options = read_ab_options(*(config.getoption(option) for option in OPTIONS))
    if options is None:
        return
    if session.dry_run is not None:
        session.dry_run.turns = options.turns
        return
    dist = getattr(config.option, "dist", "no")
    if dist != "no" and not (config.option.numprocesses and getattr(config.option, UNCHOSEN)):
        raise ConfigError(f"{BUILD}: --dist {dist} may split the tests of a board: leave it to -n alone")
    if session.lab is None:
        raise ConfigError(f"{BUILD}: no lab to boot it in: pass --pinet-lab FILE, or set PINET_LAB")
    run = BuildRun(session, options)
    config.pluginmanager.register(run, "pinet-builds")
    config.pluginmanager.register(run.boards, "pinet-boards")
    config.pluginmanager.register(WorkerReport(config, run.boots), "pinet-worker-report")


class BuildRun:
    """Registered as a plugin where a build is under test."""

    def __init__(self, session: PinetSession, options: ABOptions) -> None:
        self._session = session
        self._options = options
        self.boots = BuildBooter(options, session.access, session.progress.show)
        self._alternating: AlternatingMeasuring | None = None
        if options.accepted:
            session.mode = accepted = AcceptedMeasuring(self.boots, session.plain)
            self.boards = accepted.boards
        else:
            session.mode = self._alternating = AlternatingMeasuring(self.boots, session.plain)
            self.boards = self._alternating.rounds
        session.keeper.head = self._head

    @property
    def refused(self) -> PinetError | None:
        """Why the run ended before everything was measured: a board cannot take the build, or the build changed."""
        return self.boots.refused

    def _head(self, results: Sequence[ResultRecord], failed: int, interrupted: bool) -> ChangeHeadRecord:
        """Return the answer on the whole change. ``failed`` tests ended badly, whatever their values."""
        options = self._options
        sides = [options.record(side) for side in (Side.A, Side.B)]
        turns = len(self.boots.made) + self.boots.turns_of_workers
        head = change_head(sides[0], sides[1], results, options.accepted, turns, failed, interrupted)
        # A regression stays certain.
        if self.refused is not None and head.answer != ChangeVerdict.REGRESSION:
            why = first_paragraph(str(self.refused))
            return head.replace(sentence=f"No answer on {options.name(Side.B)}: {why}.")
        return head

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Keep the results of earlier boots for tests that pytest itself does not run any more: boots take long.

        A worker does nothing: the controller does not listen to it any more.
        """
        session = self._session
        if session.is_worker or self._alternating is None:
            return
        reported = session.keeper.reported_tests
        for item, found in self._alternating.unfinished():
            case = case_of(item)
            if case is None or item.nodeid in reported:
                continue
            if isinstance(found, PinetError):
                session.keeper.keep(session.results.of_error(item, case.combination, found))
            else:
                session.keeper.keep(session.results.finished(item, found))
