"""A run of exact gates: boots of both builds, judged window by window, and the answer on the whole change."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

import pytest

from pytest_pinet.ab.boots import known_good_error
from pytest_pinet.ab.exact_series import ExactSeries, QemuMachines
from pytest_pinet.ab.options import ABOptions, for_exact_boards, read_ab_options
from pytest_pinet.builds.kernel_tree import find_functions, sources_of, sources_of_module
from pytest_pinet.errors import (
    BuildError,
    CapabilityError,
    ConfigError,
    Inconclusive,
    UnfitBuildError,
    UnsupportedError,
)
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.execution.text import for_log
from pytest_pinet.judge.exact import UNJUDGED, ExactChange, ExactLimits, unjudged
from pytest_pinet.judge.turns import Side
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import Function, MadeExactBoot
from pytest_pinet.model.record.change import ChangeHeadRecord, TurnRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.change_head import change_head, with_note
from pytest_pinet.report.exact_text import MOST_FUNCTIONS, exact_combination, exact_records
from pytest_pinet.session.exact_gate import COMBINATION_KEY, NO_BOARD, ExactMachines, PlannedExactBoot, chosen
from pytest_pinet.session.session import RESULTS_KEY, PinetSession
from pytest_pinet.session.settings import settings

# How often a test that waits for a boot shows what the boot says.
_POLL_S = 0.2
Plan = tuple[PlannedExactBoot, PlannedExactBoot]
Judged = tuple[ExactSeries, ExactChange]


def measure_exact(session: PinetSession) -> None:
    """Make a session run the exact gates. Raises ConfigError."""
    found = settings(session.config)
    options = read_ab_options(found["build"], found["against"], found["boots"], found.origin, exact=True)
    if options is None:
        raise ConfigError(f"{found.origin('exact')}: no build is under test; name a build with --pinet-build PATH")
    hook = session.config.hook.pytest_pinet_exact_machines
    machines = hook(config=session.config) or QemuMachines(exact_boards(*found.labs_on_command_line))
    # A NIC that does not exist is a mistake in the command line, not in a test.
    list(chosen(machines.nics, found["nic"], found.origin("nic")))
    with session.progress:
        is_named = found["against"] is not None
        options = for_exact_boards(options, is_named, lambda: machines.stock_release(session.progress.show))
    if session.dry_run is not None:
        session.dry_run.of_builds(options.contents())
    run = ExactRun(session, options, machines)
    session.judge_exactly(run)
    session.recorder.judge_change_by(run.head)
    session.config.pluginmanager.register(run, "pinet-exact")
    # Workers collect the tests, but a mistake must not end each of them.
    if getattr(session.config.option, "numprocesses", None) and not session.is_worker:
        run.check(list(chosen(machines.nics, found["nic"], found.origin("nic"))))


class ExactRun:
    """Implements ``ExactMode``. Registered as a plugin.

    The first test plans the boots for all NICs of the run. The boots of all NICs then run at the same time, each NIC in
    a thread of its own, and each test waits for the boots of its NIC. A test with other limits than the first one may
    need more boots. A worker of xdist boots only for its own tests.
    """

    def __init__(self, session: PinetSession, options: ABOptions, machines: ExactMachines) -> None:
        self._session = session
        self._options = options
        self._machines = machines
        self._series: dict[str, ExactSeries] = {}
        self._judged: dict[tuple[str, ExactLimits], Future[Judged]] = {}
        self._began_all = False
        # Plans that are not carried out yet, and why boards have none.
        self._plans: dict[str, Plan] = {}
        self._unfit: dict[str, CapabilityError] = {}
        self._without_board: set[str] = set()
        # The mistake in the build under test that ended the run before the first boot.
        self.refused: ConfigError | None = None
        # What boots say, for the thread of the tests: only that one may write to the terminal.
        self._said: SimpleQueue[str] = SimpleQueue()
        self._own = threading.get_ident()

    @property
    def nics(self) -> Sequence[str]:
        return self._machines.nics

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Check both builds for the NICs of all tests. Raises UsageError."""
        if self._session.is_worker or session.config.option.collectonly:
            return
        try:
            self.check(list(dict.fromkeys(_nics_of(session))))
        except ConfigError as error:
            raise pytest.UsageError(for_log(str(error))) from None

    def check(self, nics: Sequence[str]) -> None:
        """Plan the boots of these NICs. Raises ConfigError for a mistake in a build, or if no board can judge it.

        What only some boards cannot do, and what may be the fault of the lab, is left to the tests of these boards.
        """
        with self._session.progress:
            for nic in nics:
                try:
                    self._plans[nic] = self._plan(nic)
                except CapabilityError as error:
                    self._unfit[nic] = error
                except ConfigError:
                    raise
                except Exception:
                    continue
        if not nics or len(self._unfit) < len(nics):
            return
        of_build = {nic: error for nic, error in self._unfit.items() if nic not in self._without_board}
        if of_build:
            raise self._refuse(_no_board(of_build))
        if any(isinstance(error, UnfitBuildError) for error in self._unfit.values()):
            raise self._mistake("against", _no_board(self._unfit))

    def _refuse(self, text: str) -> ConfigError:
        """Return the error for a build under test that ends the run before the first boot."""
        self.refused = self._mistake("build", text)
        return self.refused

    def _mistake(self, option: str, text: str) -> ConfigError:
        found = settings(self._session.config)
        return ConfigError(f"{found.origin(option)} {found[option] or self._options.own}: {text}")

    def measure(self, item: pytest.Item, nic: str, limits: ExactLimits) -> Sequence[ResultRecord]:
        session, options = self._session, self._options
        started = datetime.now(UTC)
        try:
            with session.progress:
                if session.dry_run is not None:
                    known, new = self._planned(nic)
                    # Without a known-good build, B has the values of A.
                    boots_of = [known.boots(0), new.boots(0) if options.is_judged else 0]
                    session.dry_run.boot(item, nic, [options.name(side) for side in Side], boots_of)
                self._begin_boots(item.session, nic, limits)
                series, found = self._result(nic, limits)
        except CapabilityError as error:
            if nic in self._without_board:
                # Also the report of a worker has the keywords.
                item.keywords[NO_BOARD] = True
            pytest.skip(for_log(str(error)))
        finally:
            if nic in self._series and (identity := self._series[nic].identity) is not None:
                item.stash[COMBINATION_KEY] = exact_combination(nic, identity)
        turns = [_turn(n, *turn, made) for n, (turn, made) in enumerate(series.boots.items(), 1)]
        names = options.name(Side.A), options.name(Side.B)
        changed = {one.function for window in found.windows for one in window.functions[:MOST_FUNCTIONS]}
        places = _places(options.new, changed)
        a, b = (series.boots[0, side].boot.identity for side in Side)
        found = found if options.is_judged else unjudged(found)
        records = exact_records(names, (a, b), found, turns, started, lambda function: places.get(function, ""))
        finished = [session.results.finished(item, record) for record in records]
        item.stash[RESULTS_KEY] += finished
        if not options.is_judged:
            raise Inconclusive(f"{nic}: {UNJUDGED}")
        return finished

    def _begin_boots(self, session: pytest.Session, nic: str, limits: ExactLimits) -> None:
        """Begin the boots of a NIC. The first time, also begin the boots of all other NICs of this run."""
        # A scheduler chooses the tests of a worker one by one.
        others = [] if self._began_all or self._session.is_worker else _nics_of(session)
        self._began_all = True
        for one in (nic, *others):
            if (one, limits) not in self._judged:
                self._judged[one, limits] = self._begin(one, limits)

    def _planned(self, nic: str) -> Plan:
        """Return the plan of a NIC, which ``check`` has mostly made. Raises PinetError."""
        if (error := self._unfit.get(nic)) is not None:
            raise error
        return self._plans.pop(nic, None) or self._plan(nic)

    def _plan(self, nic: str) -> Plan:
        """Check both builds, before the first boot of either. Raises PinetError."""
        options = self._options
        try:
            with self._known_good():
                a = self._machines.known_good(nic, options.good, options.new, self._say)
        except CapabilityError:
            if options.is_judged:
                self._without_board.add(nic)
            raise
        except ConfigError as error:
            if options.is_judged:
                raise self._mistake("against", error.message) from None
            raise self._refuse(error.message) from None
        try:
            return a, self._machines.boot(nic, options.new, self._say)
        except ConfigError as error:
            raise self._refuse(error.message) from None

    def _say(self, text: str) -> None:
        if threading.get_ident() == self._own:
            self._session.progress.show(text)
        else:
            self._said.put(text)

    def _begin(self, nic: str, limits: ExactLimits) -> Future[Judged]:
        """Plan the boots of a NIC, and make them in a thread. The result is the error of the plan or of the boots."""
        future: Future[Judged] = Future()
        try:
            if nic not in self._series:
                name_of_a = self._options.name(Side.A) if self._options.is_judged else ""
                self._series[nic] = ExactSeries(nic, *self._planned(nic), name_of_a, self._say)
            series = self._series[nic]
        except Exception as error:
            future.set_exception(error)
            return future

        def run() -> None:
            try:
                future.set_result((series, series.judge(limits)))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    def _result(self, nic: str, limits: ExactLimits) -> Judged:
        """Wait for the boots of a NIC. Raises what they raised."""
        future, said = self._judged[nic, limits], ""
        while not (future.done() and self._said.empty()):
            with suppress(Empty):
                said = self._said.get(timeout=_POLL_S)
            # Also again: without a terminal, only a line each ten seconds is shown.
            if said:
                self._session.progress.show(said)
        try:
            return future.result()
        except (BuildError, UnsupportedError):
            # An exact board gives the same result each time.
            raise
        except Exception:
            # The reason may pass: a rerun, or the next test of this NIC, boots again.
            del self._judged[nic, limits]
            raise

    @contextmanager
    def _known_good(self) -> Iterator[None]:
        """Blame the lab if the known-good build does not work."""
        try:
            yield
        except BuildError as error:
            if not self._options.is_judged:
                raise
            raise known_good_error(error, self._options.name(Side.A)) from error

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """End the boots of this process. After -x or Ctrl-C, some may still run."""
        try:
            return (yield)
        finally:
            # Last, so that an error of the machines loses no results.
            self._machines.stop()

    def head(self, results: Sequence[ResultRecord], failed: int, interrupted: bool) -> ChangeHeadRecord:
        """Return the answer on the whole change. ``failed`` tests ended badly, whatever their values."""
        recorder = self._session.recorder
        recorder.warn(*self._options.notes(), *self._options.keep_configs(recorder.folder.path))
        a, b = (self._options.record(side) for side in (Side.A, Side.B))
        turns = {one.combination.id: one.change.turns for one in results if one.change is not None}
        # A boot of an earlier run takes no time. Workers made the boots of their results.
        made = sum(turn.seconds > 0 for of_nic in turns.values() for turn in of_nic)
        fresh = sum(not one.cached for series in self._series.values() for one in series.boots.values())
        head = change_head(a, b, results, False, max(made, fresh), failed, interrupted, exact=True)
        return with_note(head, self._options.note)


def _no_board(unfit: Mapping[str, CapabilityError]) -> str:
    """Return why none of the chosen boards can judge a build."""
    found = [error for error in unfit.values() if isinstance(error, UnfitBuildError)]
    if found:
        drivers = ", ".join(sorted({error.driver for error in found}))
        return f"no chosen exact board can judge {found[0].build}; expected one of the drivers {drivers}"
    first, *others = unfit
    more = f"; nor can {', '.join(others)}" if others else ""
    return f"no chosen exact board can judge it: {unfit[first]}{more}"


def _nics_of(session: pytest.Session) -> list[str]:
    """Return the NICs of all tests of exact gates that run."""
    items = [item for item in session.items if item.get_closest_marker("skip") is None]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return [own["exact_gate"] for own in params if own.get("exact_gate") is not None]


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


def _turn(number: int, variation: int, side: Side, made: MadeExactBoot) -> TurnRecord:
    identity = made.boot.identity
    return TurnRecord(
        number=number,
        side=str(side),
        variation=variation,
        started_s=0.0,
        seconds=0.0 if made.cached else made.seconds,
        running={"uname": identity.kernel, "version": identity.banner, "cmdline": identity.cmdline},
        trouble="",
    )
