"""The two ways to measure a build under test: against accepted baselines, or alternately with a known-good build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NoReturn, TypeVar

import pytest

from pytest_pinet.ab.boots import BuildBooter
from pytest_pinet.ab.measured_test import BootTrouble
from pytest_pinet.ab.records import changed_record, ran_records
from pytest_pinet.ab.rounds import Boards, Rounds
from pytest_pinet.ab.series import SAME_CALLS, PingSeries, Rules, TurnSeries, connections_per_boot
from pytest_pinet.errors import BuildError, ConfigError, InvalidMeasurement, LinkError, PinetError, first_line
from pytest_pinet.judge.change import TOLERANCE
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.lab.link.link import Link
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.measure.comparison import StateComparison
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.kselftest import Kselftest
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.ping import Ping
from pytest_pinet.model.quantities import Tolerance
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, LadderTraffic, Traffic
from pytest_pinet.session.hook_calls import GateCall, GateJob
from pytest_pinet.session.plain_measuring import PlainMeasuring

T = TypeVar("T", TurnSeries, PingSeries)


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
            with self.boots.open(case.combination) as link:
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
            with self._plain.access.open(combination, prepare=self.boots.prepare):
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
        self.rounds = Rounds(boots)
        self._plain = plain

    def is_measuring(self, item: pytest.Item) -> bool:
        return self.rounds.is_measuring(item)

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        return (*self._plain.kept_nodes(nextitem), *self.rounds.kept(nextitem))

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Link]:
        return self._opened(item, case.combination) if self.is_measuring(item) else nullcontext(self._measured(item))

    @contextmanager
    def _opened(self, item: pytest.Item, combination: Combination) -> Iterator[Link]:
        with self.boots.open(combination) as link:
            self.rounds.tested(item).open(link)
            yield link

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
        return self._pinged(call, job) if isinstance(job, Ping) else self._measured_traffic(call, job)

    def _measured_traffic(self, call: GateCall, traffic: Traffic) -> ResultRecord:
        item, link, measuring = call.item, call.link, self.is_measuring(call.item)
        # No hook is called when a gate call returns earlier results.
        hooks = self._plain.recorder.hooks.measurement(call, traffic) if measuring else nullcontext()
        with self._plain.progress, hooks:
            if isinstance(traffic, LadderTraffic):
                self._leave_out("a ladder")
            series = self._of_call(item, TurnSeries) or self._new(link, traffic, call.limits)
            series.require_same(traffic, item.nodeid)
            if measuring and not series.decided:
                self._take(link, series)
                self.rounds.tested(item).add(series)
            return self._record(series)

    def _pinged(self, call: GateCall, ping: Ping) -> ResultRecord:
        series = self._of_call(call.item, PingSeries) or PingSeries()
        if self.is_measuring(call.item) and not series.decided:
            series.turns.append((self.boots.side, self._plain.measure(call, ping)))
            self.rounds.tested(call.item).add(series)
        boots = self.boots.of(call.link.combination.dut.node.name)
        return series.record().replace(ran=ran_records(boots, call.link.dut.device))

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
        plain = self._plain
        boot_s = self.boots.of(link.combination.dut.node.name)[-1].turn.seconds
        tolerances = {way: _tolerance(link, traffic, way, limits) for way in (Direction.TX, Direction.RX)}
        most_boots = self.boots.options.most_boots
        rules = Rules(tolerances, plain.references, plain.error_rate, self._values, most_boots)
        connections = connections_per_boot(link, traffic, plain.references, boot_s, self.rounds.calls)
        return TurnSeries(traffic, rules, connections)

    def _values(self) -> int:
        """Return how many values the change has. Each shard has its share of the error rate."""
        return self.rounds.values * self._plain.shards

    def _take(self, link: Link, series: TurnSeries) -> None:
        boot = self.boots.of(link.combination.dut.node.name)[-1]
        name, raw = f"{boot.turn.side}{boot.turn.number}", dict[str, str]()
        access, plain = self._plain.access, self._plain
        try:
            with access.exclusive(link.combination):
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
                yield one.item, series.record() if isinstance(series, PingSeries) else self._record(series)


def _tolerance(link: Link, traffic: Traffic, way: Direction, limits: Sequence[Limit]) -> float:
    """Return the configured tolerance. The default is stricter than between runs, because slow drift cancels out."""
    found = most_specific(limits, MetricKey(link.combination.identity, traffic, way), Metric.TOLERANCE)
    bound = found.bound if found is not None else None
    return bound.relative.fraction if isinstance(bound, Tolerance) else TOLERANCE
