"""A run with a build under test: its two ways to measure, its workers, and the answer on the whole change.

The build is measured against accepted baselines, or alternately with a known-good build.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import pytest

from pytest_pinet.ab.boots import ENDED_EARLY, BuildBooter
from pytest_pinet.ab.exact_run import measure_exact
from pytest_pinet.ab.options import ABOptions, read_ab_options
from pytest_pinet.ab.records import as_layout, changed_record, ran_records
from pytest_pinet.ab.rounds import Boards, BootTrouble, Rounds
from pytest_pinet.ab.series import SAME_CALLS, EventSeries, Rules, TurnSeries, ValueSeries, connections_per_boot
from pytest_pinet.errors import (
    BuildError,
    ChangedBuildError,
    ConfigError,
    InvalidMeasurement,
    LinkError,
    PinetError,
    UnsupportedError,
    first_line,
)
from pytest_pinet.judge.costs import COST_TOLERANCE
from pytest_pinet.judge.profile import tolerance_of
from pytest_pinet.judge.turns import TOLERANCE, Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.path_setup import set_up
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.measure.background import background
from pytest_pinet.measure.comparison import StateComparison
from pytest_pinet.measure.events import Counted
from pytest_pinet.measure.figures import Probe, limits_key
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.change import ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, Kselftest, LadderTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_head import change_head, unjudged
from pytest_pinet.report.text_wrap import first_paragraph
from pytest_pinet.scheduling.hooks import UNCHOSEN
from pytest_pinet.session.hook_calls import GateCall, GateJob
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.plain_measuring import PlainMeasuring
from pytest_pinet.session.session import PinetSession
from pytest_pinet.session.settings import settings

ONE_WAY = Direction.BIDIR.parts
T = TypeVar("T", TurnSeries, EventSeries, ValueSeries)


class AcceptedMeasuring:
    """Implements ``MeasuringMode``: boots only the build under test; the accepted baselines judge its values."""

    def __init__(self, boots: BuildBooter, plain: PlainMeasuring) -> None:
        self.boots = boots
        self.boards = Boards()
        self._plain = plain
        self.is_measuring = plain.is_measuring
        boots.next(Side.B)

    def measure(self, call: GateCall, job: GateJob) -> ResultRecord:
        record = self._plain.measure(call, job)
        ran = ran_records(self.boots.of(call.link.combination.dut.node.name)[-1:], call.link.dut.device)
        changed = [text for one in ran.values() for text in one.changed]
        return record.replace(ran=ran, notes=[*record.notes, *changed])

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        return (*self._plain.kept_nodes(nextitem), *self.boards.kept(nextitem))

    @contextmanager
    def open(self, item: pytest.Item, case: CombinationCase) -> Iterator[Link]:
        try:
            with self.boots.open(case.combination, case.request.link_required) as link:
                yield link
        except (LinkError, InvalidMeasurement) as error:
            if error is self.boots.opening_error:
                self._tell_apart(case.combination, error)
            raise

    def _tell_apart(self, combination: Combination, error: PinetError) -> None:
        """Boot the known-good build. If it has the link, raise BuildError, because the build under test is at fault."""
        missing = self.boots.device_is_missing
        self.boots.next(Side.A)
        try:
            with self._plain.access.open(combination):
                pass
        except PinetError:
            return
        finally:
            self.boots.next(Side.B)
        kind = BootTrouble(Side.B, error, opening=True, no_device=missing).kind
        message = f"{first_line(error)}; with the known-good build, booted right after, the link is correct"
        raise BuildError(message, kind, error.excerpt) from error


class AlternatingMeasuring:
    """Implements ``MeasuringMode``: measures both builds in alternating boots, and judges B against A.

    While ``rounds`` runs the tests in its boots, each gate call measures a few connections. When pytest itself runs a
    test, its gate calls return the results of all boots.
    """

    def __init__(self, boots: BuildBooter, plain: PlainMeasuring) -> None:
        self.boots = boots
        self.rounds = Rounds(boots, plain.error_rate)
        self._plain = plain
        self._rules = Rules(plain.references, plain.error_rate, self._values, boots.options.most_boots)

    def is_measuring(self, item: pytest.Item) -> bool:
        return self.rounds.is_measuring(item)

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        return (*self._plain.kept_nodes(nextitem), *self.rounds.kept(nextitem))

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Link]:
        return self._opened(item, case) if self.is_measuring(item) else nullcontext(self._measured(item))

    @contextmanager
    def _opened(self, item: pytest.Item, case: CombinationCase) -> Iterator[Link]:
        with self.boots.open(case.combination, case.request.link_required) as link:
            tested = self.rounds.tested(item)
            tested.open(link)
            yield link
            tested.drops.look(link)

    def _measured(self, item: pytest.Item) -> Link:
        """Return the link that was measured. If an error ended the test in a boot, raise it."""
        tested = self.rounds.tested(item)
        if tested.error is not None:
            raise tested.error
        assert tested.link is not None
        tested.restart()
        return tested.link

    def measure(self, call: GateCall, job: GateJob) -> ResultRecord:
        if isinstance(job, Kselftest | StateComparison):
            self._leave_out("a selftest of the kernel" if isinstance(job, Kselftest) else "a comparison of two states")
        if isinstance(job, Counted):
            return self._counted(call, job)
        record = self._probed(call, job) if isinstance(job, Probe) else self._measured_traffic(call, job)
        return self._ruled(record)

    def _ruled(self, record: ResultRecord) -> ResultRecord:
        """Return the result with its final verdict: what no other function explains may be the layout of the code."""
        is_slower = record.verdict is Verdict.FAIL
        return as_layout(record) if is_slower and self.boots.options.is_layout else record

    def _measured_traffic(self, call: GateCall, traffic: Traffic) -> ResultRecord:
        item, link, measuring = call.item, call.link, self.is_measuring(call.item)
        # No hook is called when a gate call returns earlier results.
        hooks = self._plain.recorder.hooks.measurement(call, traffic) if measuring else nullcontext()
        with self._plain.progress, hooks:
            if isinstance(traffic, LadderTraffic):
                self._leave_out("a ladder")
            series = self._of_call(item, TurnSeries) or self._new(link, traffic, call.limits)
            series.require_same(traffic, item.nodeid)
            drops = self.rounds.tested(item).drops
            if measuring and not (series.decided and drops.verdict):
                self._take(link, series)
                self.rounds.tested(item).add(series)
                drops.look(link, series.turns[-1].connections)
            record = self._record(series)
            return record.replace(notes=[*record.notes, *filter(None, [drops.text])])

    def _with_ran(self, link: Link, record: ResultRecord) -> ResultRecord:
        """Return the record with what the board reported in the latest boot of each build."""
        return record.replace(ran=ran_records(self.boots.of(link.combination.dut.node.name), link.dut.device))

    def _counted(self, call: GateCall, counted: Counted) -> ResultRecord:
        """Count events of build B in its first boot, and of A only if B has too many bad ones."""
        series = self._of_call(call.item, EventSeries)
        if series is None:
            false = self._plain.error_rate / max(self._values(), 1)
            series = EventSeries(replace(counted, rule=replace(counted.rule, false=false)), call.link)
        if self.is_measuring(call.item) and not series.decided:
            wanted = series.wanted(self.boots.side)
            if wanted is not None:
                series.records[self.boots.side] = self._plain.measure(call, wanted)
                # Boots and flaps change the carrier on purpose.
                self.rounds.tested(call.item).drops.accept(call.link)
            self.rounds.tested(call.item).add(series)
        return self._with_ran(call.link, series.record())

    def _probed(self, call: GateCall, probe: Probe) -> ResultRecord:
        series = self._of_call(call.item, ValueSeries)
        if series is None:
            series = ValueSeries(probe, call.limits, limits_key(call.link), self._rules)
        if series.probe.key != probe.key:
            raise ConfigError(f"{call.item.nodeid} measures {probe.key}, not {series.probe.key}: {SAME_CALLS}")
        if self.is_measuring(call.item) and not series.decided:
            uneven = series.starts.wait(call.link.dut)
            ends = call.link.ends
            record = self._plain.measure(replace(call, limits=()), probe)
            if call.link.ends is not ends:
                # The link was opened again: a boot changes the carrier on purpose.
                self.rounds.tested(call.item).drops.accept(call.link)
            record = record.replace(notes=(*record.notes, *uneven))
            boot = self.boots.of(call.link.combination.dut.node.name)[-1]
            series.add(boot.side, boot.turn.started_s, record)
            self.rounds.tested(call.item).add(series)
        return self._with_ran(call.link, series.record())

    def _leave_out(self, what: str) -> NoReturn:
        """Skip a test whose measurement cannot be split into alternating boots."""
        pytest.skip(f"{what} cannot be measured on two builds alternately; use --against accepted")

    def _of_call(self, item: pytest.Item, kind: type[T]) -> T | None:
        """Return the earlier measurements of this gate call; None in the first boot. Raises ConfigError."""
        tested = self.rounds.tested(item)
        number = tested.next_call()
        if number == len(tested.series) and self.is_measuring(item):
            return None
        found = tested.series[number] if number < len(tested.series) else None
        if not isinstance(found, kind):
            raise ConfigError(f"{item.nodeid}: a gate call differs from the call in an earlier boot: {SAME_CALLS}")
        return found

    def _record(self, series: TurnSeries) -> ResultRecord:
        board = series.turns[-1].link.combination.dut.node.name
        return changed_record(series, self.boots.options, self.boots.of(board))

    def _new(self, link: Link, traffic: Traffic, limits: Sequence[Limit]) -> TurnSeries:
        boot_s = self.boots.of(link.combination.dut.node.name)[-1].turn.seconds
        keys = {way: MetricKey(link.combination.identity, traffic, way) for way in (traffic.direction, *ONE_WAY)}
        # Stricter than between runs, because slow drift cancels out.
        tolerances = {way: tolerance_of(limits, keys[way], TOLERANCE) for way in ONE_WAY}
        costs = tolerance_of(limits, keys[traffic.direction], COST_TOLERANCE, Metric.COST_TOLERANCE)
        connections = connections_per_boot(link, traffic, self._plain.references, boot_s, self.rounds.calls)
        return TurnSeries(traffic, self._rules, connections, tolerances, costs)

    def _values(self) -> int:
        """Return how many values the change has. Each shard has its share of the error rate."""
        return self.rounds.values * self._plain.shards

    def _take(self, link: Link, series: TurnSeries) -> None:
        boot = self.boots.of(link.combination.dut.node.name)[-1]
        name, raw = f"{boot.turn.side}{boot.turn.number}", dict[str, str]()
        access, plain = self._plain.access, self._plain
        try:
            setup = series.traffic.setup
            with (
                access.exclusive(link.combination),
                set_up(link, setup) as link,
                background(link, setup.background, raw),
            ):
                context = plain.context(f"{name} {link.id}", link, series.traffic, raw)
                series.take(context, boot)
            access.check(link.combination)
        finally:
            series.keep(plain.recorder.folder.write_raw(f"{link.id}-{name}", raw) if raw else [])

    def unfinished(self) -> Iterator[tuple[pytest.Item, ResultRecord | PinetError]]:
        """Yield each test with its results so far, after the last boot. Values that are not certain are undecided."""
        for one in self.rounds.all:
            if isinstance(one.error, PinetError):
                yield one.item, one.error
                continue
            for series in one.series:
                series.give_up()
                record = self._record(series) if isinstance(series, TurnSeries) else series.record()
                yield one.item, record if isinstance(series, EventSeries) else self._ruled(record)


_KEYS = "pinet_builds"
_TURNS, _REFUSED, _MISTAKE = "pinet_turns", "pinet_refused", "pinet_refused_mistake"


def measure_builds(session: PinetSession) -> None:
    """Make a session measure the build that its options name. Raises ConfigError."""
    config = session.config
    found = settings(config)
    if found["exact"]:
        measure_exact(session)
        return
    options = read_ab_options(
        found["build"], found["against"], found["boots"], found.origin, layout_counts=found["layout-counts"]
    )
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
        recorder.skip(unjudged(results))
        options = self._options
        sides = [options.record(side) for side in (Side.A, Side.B)]
        turns = len(self.boots.made) + self._turns_of_workers
        head = change_head(sides[0], sides[1], results, options.accepted, turns, failed, interrupted)
        if any(one.verdict is Verdict.FAIL or one.layout for one in head.entries):
            head = head.replace(code=options.code)
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
            self.boots.refuse(
                ChangedBuildError(
                    "a file of a build changed while this run read the file, so the workers have different builds; do "
                    "not change a build during a run, or gate a copy"
                )
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
            self.boots.refuse(ConfigError(why) if output[_MISTAKE] else UnsupportedError(why))
            pytest.exit(ENDED_EARLY, returncode=pytest.ExitCode.USAGE_ERROR)
