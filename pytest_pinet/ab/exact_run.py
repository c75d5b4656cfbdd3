"""A run of exact gates: boots of both builds, judged window by window, and the answer on the whole change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from pytest_pinet.ab.boots import known_good_error
from pytest_pinet.ab.exact_machines import QemuMachines
from pytest_pinet.ab.options import ABOptions, read_ab_options
from pytest_pinet.builds.sources import find_functions, sources_of, sources_of_module
from pytest_pinet.errors import BuildError, CapabilityError, ConfigError, InvalidMeasurement
from pytest_pinet.exact.lab_boards import exact_boards
from pytest_pinet.execution.clean_text import for_log
from pytest_pinet.judge.exact import ExactLimits, differs_beside_build, judge_exact
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import Function, MadeExactBoot
from pytest_pinet.model.record.change import ChangeHeadRecord, TurnRecord
from pytest_pinet.model.record.result import CombinationRecord, ResultRecord
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.exact_record import exact_combination, exact_records
from pytest_pinet.report.exact_text import MOST_FUNCTIONS
from pytest_pinet.session.exact_gate import COMBINATION_KEY, NO_BOARD, chosen
from pytest_pinet.session.exact_machines import ExactMachines, PlannedExactBoot
from pytest_pinet.session.session import RESULTS_KEY, PinetSession
from pytest_pinet.session.settings import settings


def measure_exact(session: PinetSession) -> None:
    """Make a session run the exact gates. Raises ConfigError."""
    found = settings(session.config)
    options = read_ab_options(found["build"], found["against"], found["boots"], found.origin, exact=True)
    if options is None:
        raise ConfigError(f"{found.origin('exact')}: no build is under test; name a build with --pinet-build PATH")
    hook = session.config.hook.pytest_pinet_exact_machines
    machines = hook(config=session.config) or QemuMachines(exact_boards(*found.on_command_line("lab")))
    # A NIC that does not exist is a mistake in the command line, not in a test.
    list(chosen(machines.nics, found["nic"], found.origin("nic")))
    session.exact = run = ExactRun(session, options, machines)
    session.recorder.head = run.head


class ExactRun:
    """Implements ``ExactMode``."""

    def __init__(self, session: PinetSession, options: ABOptions, machines: ExactMachines) -> None:
        self._session = session
        self._options = options
        self._machines = machines
        self._made = 0

    @property
    def nics(self) -> Sequence[str]:
        return self._machines.nics

    def combination(self, nic: str) -> CombinationRecord:
        return exact_combination(nic)

    def measure(self, item: pytest.Item, nic: str, limits: ExactLimits) -> Sequence[ResultRecord]:
        session, options = self._session, self._options
        started = datetime.now(UTC)
        try:
            with session.progress:
                planned = self._plan(item, nic)
                if session.dry_run is None:
                    a, b = self._boots(*planned)
        except CapabilityError as error:
            pytest.skip(for_log(str(error)))
        if session.dry_run is not None:
            session.dry_run.boot(item, nic, [options.name(side) for side in Side], [one.boots for one in planned])
        identities = a.boot.identity, b.boot.identity
        item.stash[COMBINATION_KEY] = exact_combination(nic, identities[1].qemu)
        if why := differs_beside_build(*identities):
            raise InvalidMeasurement(f"{nic}: {why}")
        found = judge_exact(a.boot, b.boot, limits)
        if not found.windows:
            raise InvalidMeasurement(f"{nic}: the boots have no window of traffic in common")
        turns = [_turn(number, side, made) for number, (side, made) in enumerate(zip(Side, (a, b), strict=True), 1)]
        names = options.name(Side.A), options.name(Side.B)
        changed = {one.function for window in found.windows for one in window.functions[:MOST_FUNCTIONS]}
        places = _places(options.new, changed)
        boots = a.boot, b.boot
        records = exact_records(names, boots, found, turns, started, lambda function: places.get(function, ""))
        finished = [session.results.finished(item, record) for record in records]
        item.stash[RESULTS_KEY] += finished
        return finished

    def _plan(self, item: pytest.Item, nic: str) -> tuple[PlannedExactBoot, PlannedExactBoot]:
        """Check both builds, before the first boot of either."""
        options, say = self._options, self._session.progress.show
        try:
            with self._known_good():
                a = self._machines.known_good(nic, options.good, say)
        except CapabilityError:
            # Also the report of a worker has the keywords.
            item.keywords[NO_BOARD] = True
            raise
        return a, self._machines.boot(nic, options.new, say)

    def _boots(self, a: PlannedExactBoot, b: PlannedExactBoot) -> tuple[MadeExactBoot, MadeExactBoot]:
        with self._known_good():
            made = a.make()
        self._made += not made.cached
        under_test = b.make()
        self._made += not under_test.cached
        return made, under_test

    @contextmanager
    def _known_good(self) -> Iterator[None]:
        """Blame the lab if the known-good build does not work."""
        try:
            yield
        except BuildError as error:
            raise known_good_error(error, self._options.name(Side.A)) from error

    def head(self, results: Sequence[ResultRecord], failed: int, interrupted: bool) -> ChangeHeadRecord:
        """Return the answer on the whole change. ``failed`` tests ended badly, whatever their values."""
        recorder = self._session.recorder
        recorder.warn(*self._options.keep_configs(recorder.folder.path))
        a, b = (self._options.record(side) for side in (Side.A, Side.B))
        turns = {one.combination.id: one.change.turns for one in results if one.change is not None}
        # A boot of an earlier run takes no time. Workers made the boots of their results.
        made = sum(turn.seconds > 0 for of_nic in turns.values() for turn in of_nic)
        return change_head(a, b, results, False, max(made, self._made), failed, interrupted, exact=True)


def _places(build: Build, functions: Collection[Function]) -> dict[Function, str]:
    """Return file and line of each function whose definition is found."""
    found: dict[Function, str] = {}
    for module in {function.module for function in functions}:
        own = {function.name: function for function in functions if function.module == module}
        found |= {own[name]: place for name, place in find_functions(sources_of_module(build, module), own).items()}
    # The whole tree is read once, for all others.
    rest = [function for function in functions if function not in found]
    places = find_functions(sources_of(build), {function.name for function in rest})
    return found | {function: places[function.name] for function in rest if function.name in places}


def _turn(number: int, side: Side, made: MadeExactBoot) -> TurnRecord:
    identity = made.boot.identity
    return TurnRecord(
        number=number,
        side=str(side),
        started_s=0.0,
        seconds=0.0 if made.cached else made.seconds,
        running={"uname": identity.kernel, "version": identity.banner, "cmdline": identity.cmdline},
        trouble="",
    )
