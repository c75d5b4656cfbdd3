"""A session with a build under test: links, gate calls and reruns are otherwise, all else is as ever."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_pinet.ab.attach import attach_build
from pytest_pinet.ab.controller import ABController
from pytest_pinet.ab.options import BUILD, OPTIONS, read_ab_options
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.judge.profile import Profile
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.ping import Ping
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.report.record import ResultRecord
from pytest_pinet.scheduling.hooks import UNCHOSEN
from pytest_pinet.session.error_reports import error_record
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.session import RESULTS_KEY, PinetSession

if TYPE_CHECKING:
    from pytest_pinet.measure.comparison import State


class BuildSession(PinetSession):
    """Construction reads the builds, too. Raises ConfigError."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self.changing: ABController | None = None
        wanted = read_ab_options(*(config.getoption(option) for option in OPTIONS))
        if wanted is not None and self.dry_run is not None:
            self.dry_run.turns = wanted.turns
        elif wanted is not None:
            dist = getattr(config.option, "dist", "no")
            if dist != "no" and not (config.option.numprocesses and getattr(config.option, UNCHOSEN)):
                raise ConfigError(f"{BUILD}: --dist {dist} may split the tests of a board: leave it to -n alone")
            known, progress = self._known, self.progress
            self.changing = attach_build(
                config, self.lab, wanted, self.access, known, self.keeper, case_of, progress, self._show_progress
            )

    @property
    def _in_turn(self) -> ABController | None:
        """Where two builds are measured in turn."""
        return self.changing if self.changing is not None and self.changing.rounds is not None else None

    def _is_told(self, item: pytest.Item) -> bool:
        return self.changing is not None and self.changing.is_told(item)

    @contextmanager
    def open_link(self, item: pytest.Item, case: CombinationCase) -> Iterator[Any]:
        """A link for one test, or how it was when it was measured."""
        if self.changing is not None and self.changing.is_told(item):
            item.stash[RESULTS_KEY] = []
            yield self.changing.measured_link(item)
            return
        with super().open_link(item, case) as link:
            yield link

    def _opened(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Any]:
        if self.changing is not None:
            # Each turn is a boot already, and a power cycle would boot another build.
            return self.changing.open(item, case.combination)
        return super()._opened(item, case)

    def _needed(self, item: pytest.Item | None) -> Sequence[Node]:
        needed = super()._needed(item)
        return needed if self.changing is None else self.changing.kept(item, needed)

    def tuned(
        self, item: pytest.Item, link: Any, settings: Mapping[str, object]
    ) -> AbstractContextManager[Sequence[Tuned]]:
        """Be tuned for a while, but not where nothing is measured any more. Raises ConfigError, LabError."""
        return nullcontext(()) if self._is_told(item) else super().tuned(item, link, settings)

    def _measure(
        self, item: pytest.Item, link: Any, traffic: Traffic, limits: tuple[Limit, ...], profile: Profile
    ) -> ResultRecord:
        changing = self._in_turn
        if changing is None:
            return super()._measure(item, link, traffic, limits, profile)
        # The last run of a test reads what was found.
        hooks = nullcontext() if changing.is_told(item) else self.keeper.hooks.measurement(item, link, traffic)
        with self.progress, hooks:
            found = changing.measure(item, link, traffic, self._limits(item, link, traffic, limits))
        return self._told(item, found)

    def ping(
        self, item: pytest.Item, link: Any, ping: Ping, limits: tuple[Limit, ...], profile: Profile
    ) -> ResultRecord:
        """Ping until it is judged, and record. Raises LabError."""
        changing = self._in_turn
        if changing is None:
            return super().ping(item, link, ping, limits, profile)

        def measure() -> ResultRecord:
            record = super(BuildSession, self).ping(item, link, ping, limits, profile)
            # One turn is not the result.
            item.stash[RESULTS_KEY].remove(record)
            return record

        record = self._told(item, changing.ping(item, measure))
        item.stash[RESULTS_KEY].append(record)
        return record

    def compare(
        self, item: pytest.Item, link: Any, traffic: Traffic, states: tuple[State, State], tolerance: float
    ) -> ResultRecord:
        """Two states of one build, where only one is under test. Raises PinetError."""
        if self._in_turn is not None:
            self._in_turn.leave_out("a comparison of two states")
        return super().compare(item, link, traffic, states, tolerance)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Boots are dear: what they told of tests that do not come to their last run any more is kept.

        A worker is heard no more by then.
        """
        if self._worker != "main":
            return
        told = self.keeper.reported_tests
        for item, found in self.changing.unfinished() if self.changing is not None else ():
            case = case_of(item)
            if case is None or item.nodeid in told:
                continue
            if isinstance(found, PinetError):
                self.keeper.keep(error_record(item.nodeid, case.combination, found, self.rerun_command(item)))
            else:
                self.keeper.keep(self._told(item, found))

    def rerun_command(self, item: pytest.Item) -> str:
        """What repeats this test, from the folder in which this run was started."""
        values = [(option, self.config.getoption(option)) for option in OPTIONS]
        words = [f"{option}={value}" for option, value in values if value is not None]
        return f"{super().rerun_command(item)} {shlex.join(words)}"
