"""A run with a build under test: its workers, the results that Ctrl-C keeps, and the answer on the whole change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_pinet.ab.boots import ENDED_EARLY, BuildBooter
from pytest_pinet.ab.build_measuring import AcceptedMeasuring, AlternatingMeasuring
from pytest_pinet.ab.exact_run import measure_exact
from pytest_pinet.ab.options import ABOptions, read_ab_options
from pytest_pinet.errors import ChangedBuildError, ConfigError, PinetError, UnsupportedError
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.record.change import ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.scheduling.hooks import UNCHOSEN
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.session import PinetSession
from pytest_pinet.session.settings import settings

_KEYS = "pinet_builds"
_TURNS, _REFUSED, _MISTAKE = "pinet_turns", "pinet_refused", "pinet_refused_mistake"


def measure_builds(session: PinetSession) -> None:
    """Make a session measure the build that its options name. Raises ConfigError."""
    config = session.config
    found = settings(config)
    if found["exact"]:
        measure_exact(session)
        return
    options = read_ab_options(found["build"], found["against"], found["boots"], found.origin)
    if options is None:
        return
    if session.lab is None:
        message = f"no lab is configured for the build; pass {found.origin('lab')} FILE, or set PINET_LAB"
        raise ConfigError(f"{found.origin('build')}: {message}")
    if session.dry_run is not None:
        session.dry_run.of_builds(options.contents(), options.turns)
        return
    dist = getattr(config.option, "dist", "no")
    if dist != "no" and not (config.option.numprocesses and getattr(config.option, UNCHOSEN)):
        message = f"--dist {dist} can run the tests of one board in several workers; use -n without --dist"
        raise ConfigError(f"{found.origin('build')}: {message}")
    run = BuildRun(session, options)
    config.pluginmanager.register(run, "pinet-builds")
    config.pluginmanager.register(run.boards, "pinet-boards")


class BuildRun:
    """Registered as a plugin if a build is under test. With ``pytest -n``, each process has one."""

    def __init__(self, session: PinetSession, options: ABOptions) -> None:
        self._session = session
        self._options = options
        unattended = settings(session.config)["yes"]
        may_boot = (lambda _: True) if unattended else session.progress.confirm
        self.boots = BuildBooter(options, session.access, session.progress.show, may_boot)
        self._turns_of_workers = 0
        self._alternating: AlternatingMeasuring | None = None
        if options.accepted:
            accepted = AcceptedMeasuring(self.boots, session.plain)
            session.measure_by(accepted)
            self.boards = accepted.boards
        else:
            self._alternating = AlternatingMeasuring(self.boots, session.plain)
            session.measure_by(self._alternating)
            self.boards = self._alternating.rounds
        session.recorder.judge_change_by(self._head)

    def _head(self, results: Sequence[ResultRecord], failed: int, interrupted: bool) -> ChangeHeadRecord:
        """Return the answer on the whole change. ``failed`` tests ended badly, whatever their values."""
        recorder = self._session.recorder
        recorder.warn(*self._options.notes(), *self._options.keep_configs(recorder.folder.path))
        options = self._options
        sides = [options.record(side) for side in (Side.A, Side.B)]
        turns = len(self.boots.made) + self._turns_of_workers
        head = change_head(sides[0], sides[1], results, options.accepted, turns, failed, interrupted)
        if self.boots.refused is not None:
            why = first_paragraph(str(self.boots.refused))
            # A regression stays certain.
            begin = (
                f"{head.sentence} The run ended early"
                if head.verdict is Verdict.FAIL
                else f"No decision on {options.name(Side.B)}"
            )
            return head.replace(sentence=f"{begin}: {why}.")
        return head

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Keep the results of earlier boots for tests that pytest itself does not run any more: boots take long."""
        session = self._session
        # The controller does not listen to a worker any more.
        if session.is_worker or self._alternating is None:
            return
        reported = session.recorder.reported_tests
        for item, found in self._alternating.unfinished():
            case = case_of(item)
            if case is None or item.nodeid in reported:
                continue
            if isinstance(found, PinetError):
                session.recorder.keep(session.results.of_error(item, case.combination, found))
            else:
                session.recorder.keep(session.results.finished(item, found))
            session.unended.end(item.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """In the controller: send the hashes of the builds to a worker."""
        node.workerinput[_KEYS] = self._options.keys

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """In a worker: check that it has read the same builds as the controller."""
        keys = getattr(session.config, "workerinput", {}).get(_KEYS)
        if keys is not None and keys != self._options.keys:
            self.boots.refused = ChangedBuildError(
                "a file of a build changed while this run read the file, so the workers have different builds; do not "
                "change a build during a run, or gate a copy"
            )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In a worker: report the number of boots, and why a board cannot run the build."""
        output = getattr(session.config, "workeroutput", None)
        if output is None:
            return
        output[_TURNS] = len(self.boots.made)
        if self.boots.refused is not None:
            output[_REFUSED] = str(self.boots.refused)
            output[_MISTAKE] = isinstance(self.boots.refused, ConfigError)

    # Last, because it can end the run: other plugins first take over the nodes and warnings of the worker.
    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """In the controller: end the run if a worker ended because a board cannot run the build."""
        output = getattr(node, "workeroutput", {})
        # xdist calls the hook twice for an interrupted worker, the second time with an error.
        if error or _TURNS not in output:
            return
        self._turns_of_workers += output[_TURNS]
        if _REFUSED in output:
            why = output[_REFUSED]
            self.boots.refused = ConfigError(why) if output[_MISTAKE] else UnsupportedError(why)
            pytest.exit(ENDED_EARLY, returncode=pytest.ExitCode.USAGE_ERROR)
