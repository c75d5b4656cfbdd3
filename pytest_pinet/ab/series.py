"""The measurements of one gate call over all boots of both builds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median

from pytest_pinet.ab.boots import MadeBoot
from pytest_pinet.ab.even_starts import EvenStarts
from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.errors import ConfigError
from pytest_pinet.evidence.build import read_build
from pytest_pinet.history.differences import Settings
from pytest_pinet.judge.costs import COST_TOLERANCE, COST_TURNS, judge_costs, why_unknown
from pytest_pinet.judge.difference import Difference
from pytest_pinet.judge.events import DROPS_MAX
from pytest_pinet.judge.figures import UNMEASURED, figure_tolerance
from pytest_pinet.judge.preconditions import management_trouble, rate_bps
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.judge.shares import Events, judge_builds, wants_a
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.judge.turns import (
    Boot,
    ChangeRules,
    MeasuredTurn,
    Side,
    connections_per_turn,
    judge_boots,
    judge_change,
    judge_misses,
)
from pytest_pinet.judge.words import words_of
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.events import Counted
from pytest_pinet.measure.figures import Probe, figures_record, worst_first
from pytest_pinet.measure.link_result import settings_of
from pytest_pinet.measure.preconditions import refuse
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.evidence import Conditions
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.limits import METRICS, Limit, Metric, Threshold
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict

# Time of a connection beside its traffic.
BESIDE_TRAFFIC_S = 10.0
# If so many turns have no value, the lab cannot measure it: more turns would have none, either.
EMPTY_TURNS = 4
SAME_CALLS = "to compare builds, a test must make the same gate calls in every boot"


@dataclass(frozen=True)
class Turn:
    """The connections of one boot, and the link in this boot. ``at_s`` counts from the first boot of the board.

    ``settings`` has the settings of all ends, by their role.
    """

    side: Side
    boot: int
    at_s: float
    link: Link
    connections: tuple[Connection, ...]
    conditions: Sequence[Conditions]
    settings: Settings
    build: Mapping[str, str | None] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def kept(self) -> tuple[Connection, ...]:
        """The connections that count."""
        return tuple(one for one in self.connections if not one.excluded)


@dataclass(frozen=True)
class Rules:
    """How differences between the builds are judged. ``values`` returns how many values the whole comparison has.

    It counts again for each judgement, because the first boot shows how many values each test has.
    """

    references: ReferenceData
    error_rate: float
    values: Callable[[], int]
    most_boots: int

    def of(self, tolerance: float, noise: Noise) -> ChangeRules:
        """Return the rules for one value."""
        return ChangeRules(tolerance, noise, self.error_rate, self.values(), self.most_boots)


@dataclass
class TurnSeries:
    """The turns of a gate call that sends traffic. B may be slower by the ``tolerances``, and dearer by another one.

    ``found`` judges each direction after the latest turn, ``costs`` each cost of the device under test, by its key.
    """

    traffic: Traffic
    rules: Rules
    connections: int
    tolerances: Mapping[Direction, float]
    cost_tolerance: float = COST_TOLERANCE
    turns: list[Turn] = field(default_factory=list)
    found: dict[Direction, Difference] = field(default_factory=dict)
    costs: dict[str, Difference] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    starts: EvenStarts = field(default_factory=EvenStarts)

    @property
    def decided(self) -> bool:
        """Whether more turns would change nothing. One slower direction, or one dearer cost, is enough for that.

        Costs that are not decided need no more than COST_TURNS.
        """
        found, costs = self.found.values(), self.costs.values()
        if any(one.verdict is Verdict.FAIL for one in (*found, *costs)):
            return True
        of_costs = len(self.turns) >= COST_TURNS or all(one.decided for one in costs)
        return bool(found) and all(one.decided for one in found) and of_costs

    @property
    def values(self) -> int:
        """How many values are judged."""
        return len(self.found) + len(self.costs)

    @property
    def costs_unknown(self) -> str:
        """Why no cost is judged; empty if one is."""
        if self.costs:
            return ""
        return why_unknown([one for turn in self.turns for one in turn.kept]) or "they are too small to be counted"

    def require_same(self, traffic: Traffic, test: str) -> None:
        """Raise ConfigError if the gate call sends other traffic than in an earlier turn."""
        if traffic != self.traffic:
            raise ConfigError(
                f"{test} measures {traffic.key} {traffic.direction} in this boot, but {self.traffic.key} "
                f"{self.traffic.direction} in an earlier boot: {SAME_CALLS}"
            )

    def of(self, side: Side) -> list[Turn]:
        return [turn for turn in self.turns if turn.side is side]

    def kept(self, side: Side) -> list[Connection]:
        """Return all connections of a build that count."""
        return [one for turn in self.of(side) for one in turn.kept]

    @property
    def usual_bps(self) -> float | None:
        """The middle rate of A, all flows together; None before A was measured."""
        rates = [rate_bps(one) for one in self.kept(Side.A)]
        return median(rates) if rates else None

    def take(self, context: MeasureContext, boot: MadeBoot) -> None:
        """Measure in the current boot, and judge all turns.

        Raises the errors of ``Runs``, and InvalidMeasurement if ssh disturbed the traffic on its interface.
        """
        link = context.link
        lasts_s = (self.connections + DROPS_MAX) * (self.traffic.seconds + BESIDE_TRAFFIC_S)
        settings = settings_of(link)
        build = read_build(link.dut.shell, link.dut.device)
        with Runs(context, lasts_s) as runs:
            uneven = self.starts.wait(link.dut)
            while sum(not one.excluded for one in runs.connections) < self.connections:
                runs.again(self.traffic, Fresh.CONNECTION)
                # Octets that only one build sends look like a change.
                refuse(management_trouble(runs.connections, self.usual_bps))
            runs.finish(self.traffic)
            at = boot.turn.number, boot.turn.started_s
            connections, before, own = (
                tuple(runs.connections),
                runs.conditions.before,
                [*runs.management.uncounted, *uneven],
            )
            turn = Turn(boot.side, *at, replace(link), connections, before, settings, build, own)
        self.add(turn)

    def keep(self, files: Sequence[str]) -> None:
        """Keep the names of the files with raw output of a turn."""
        self.files += files

    def add(self, turn: Turn) -> None:
        """Add a turn, and judge all turns."""
        self.turns.append(turn)
        self.seconds = time.monotonic() - self.clock
        self.found = {way: self._judged(turn.link, way) for way in counted_ways(self.turns[0].connections[0])}
        self.costs = self._judged_costs(turn.link)

    def give_up(self) -> None:
        """Make every undecided value inconclusive, because there are no more turns."""
        self.found = {way: one.given_up() for way, one in self.found.items()}
        self.costs = {key: one.given_up() for key, one in self.costs.items()}

    def _judged(self, link: Link, way: Direction) -> Difference:
        before = self.found.get(way)
        if before is not None and before.decided:
            # Later turns are for other values; they must not change a certain result.
            return before
        boots = [
            MeasuredTurn(turn.side, turn.at_s, tuple(one.towards(way) for one in turn.kept)) for turn in self.turns
        ]
        noise = self.rules.references.of(MetricKey(link.combination.identity, self.traffic, way)).noise
        return judge_boots(boots, self.rules.of(self.tolerances[way], noise))

    def _judged_costs(self, link: Link) -> dict[str, Difference]:
        turns = [MeasuredTurn(turn.side, turn.at_s, turn.kept) for turn in self.turns]
        key = MetricKey(link.combination.identity, self.traffic, self.traffic.direction)
        found = judge_costs(turns, self.rules.of(self.cost_tolerance, UNKNOWN), self.rules.references.of_costs(key))
        # Turns that other values need may still decide a cost, but must not change a certain result.
        certain = (Verdict.PASS, Verdict.IMPROVED, Verdict.FAIL)
        return {
            key: self.costs[key] if key in self.costs and self.costs[key].verdict in certain else one
            for key, one in found.items()
        }


@dataclass
class EventSeries:
    """The events of a gate call such as ``gate.boots``: of build B first, and of A only if B has too many bad ones."""

    counted: Counted
    link: Link
    records: dict[Side, ResultRecord] = field(default_factory=dict)
    given_up: bool = False

    @property
    def values(self) -> int:
        """How many values are judged: the share of bad events."""
        return 1

    def events(self, side: Side) -> Events:
        return self.counted.events(self.records[side]) if side in self.records else Events()

    @property
    def _verdict(self) -> Verdict | None:
        return judge_builds(self.events(Side.B), self.events(Side.A), self.counted.rule)

    @property
    def decided(self) -> bool:
        """Whether more turns would change nothing."""
        return self._verdict is not None or self.given_up

    def wanted(self, side: Side) -> Counted | None:
        """Return what to measure in a turn of this build; None if the turn of the other build comes first."""
        b = self.events(Side.B)
        if side is Side.B:
            return None if b.count else self.counted
        rule = self.counted.rule
        return replace(self.counted, decide=lambda a: judge_builds(b, a, rule)) if wants_a(b, rule) else None

    def give_up(self) -> None:
        """Judge as it is, because there are no more turns."""
        self.given_up = True

    def record(self) -> ResultRecord:
        """Return the result of the build under test with the verdict on both builds; pass while undecided."""
        verdict = self._verdict or (Verdict.INCONCLUSIVE if self.given_up else Verdict.PASS)
        a, b, last = self.events(Side.A), self.events(Side.B), self.records.get(Side.B)
        more = f"of the known-good build, {a.words(self.counted.noun)}" if a.count else ""
        name = self.counted.figure.name
        own = {name: self.counted.judged(b, verdict, more)}
        if last is None:
            return figures_record(self.link, self.counted, (), own)
        figures = {**(last.figures or {}), **own}
        return last.replace(verdict=verdict, figures=figures, message=f"{name}: {own[name].reason}")


@dataclass
class ValueSeries:
    """The turns of a gate call of ``probe``, with the ``limits`` of the call.

    ``turns`` has the side, the time and the record of each boot. ``found`` has the difference of the builds for each
    value that can have a limit.
    """

    probe: Probe
    limits: Sequence[Limit]
    key: MetricKey
    rules: Rules
    turns: list[tuple[Side, float, ResultRecord]] = field(default_factory=list)
    found: dict[str, Difference] = field(default_factory=dict)
    given_up: bool = False
    starts: EvenStarts = field(default_factory=EvenStarts)

    @property
    def values(self) -> int:
        """How many values are judged."""
        return len(self.found)

    @property
    def decided(self) -> bool:
        """Whether more turns would change nothing. One worse value is enough for that."""
        found = [self._ruling(figure)[0] for figure in self._compared if self.turns]
        return Verdict.FAIL in found or (bool(found) and None not in found)

    @property
    def _compared(self) -> list[Figure]:
        return [one for one in self.probe.figures if one.name in METRICS]

    def add(self, side: Side, at_s: float, record: ResultRecord) -> None:
        """Add what one boot measured, and judge all turns. A certain result stays."""
        self.turns.append((side, at_s, record))
        for figure in self._compared:
            before = self.found.get(figure.name)
            if before is None or not before.decided:
                self.found[figure.name] = self._difference(figure)

    def give_up(self) -> None:
        """Make every undecided value inconclusive, because there are no more turns."""
        self.given_up = True
        self.found = {name: one.given_up() for name, one in self.found.items()}

    def _difference(self, figure: Figure) -> Difference:
        boots = [
            Boot(side, at, tuple(figure.level(value) for value in _values(record, figure.name)))
            for side, at, record in self.turns
        ]
        tolerance = figure_tolerance(figure, self.limits, self.key)
        return judge_change(boots, self.rules.of(tolerance, UNMEASURED), words=words_of(figure))

    def _threshold(self, figure: Figure) -> Threshold | None:
        limit = most_specific(self.limits, self.key, Metric(figure.name))
        return None if limit is None else limit.threshold()

    def _ruling(self, figure: Figure) -> tuple[Verdict | None, str]:
        """Return the verdict on B, and why: by the difference, and by the limit in both builds. None: another turn.

        If the limit holds, the difference needs no more than COST_TURNS. A value that the first turns lack is skipped.
        """
        first = [(record.figures or {}).get(figure.name) for *_, record in self.turns[:EMPTY_TURNS]]
        if len(first) == EMPTY_TURNS and not any(one and one.values for one in first):
            return Verdict.SKIPPED, f"not measured: {first[-1].reason if first[-1] else self.turns[-1][2].message}"
        found, limit = self.found[figure.name], self._threshold(figure)
        if limit is None or found.verdict is Verdict.FAIL:
            return found.verdict if found.decided else None, found.why
        each = [(side, _values(record, figure.name)) for side, _, record in self.turns]
        misses = [(side, limit.judge(median(own))[0] is Verdict.FAIL) for side, own in each if own]
        verdict, why = judge_misses(misses, self.given_up)
        why = f"{found.why}; {why}" if why else found.why
        if verdict is not Verdict.PASS:
            return verdict, why
        if found.verdict is not Verdict.INCONCLUSIVE:
            return found.verdict, why
        enough = found.decided or len(self.turns) >= COST_TURNS
        return (verdict, f"{why}; the limit holds") if enough else (None, why)

    def record(self) -> ResultRecord:
        """Return the latest record of the build under test with the values and verdicts of all turns."""
        of_b = [record for side, _, record in self.turns if side is Side.B]
        last = of_b[-1] if of_b else self.turns[-1][2]
        figures = {one.name: self._figure(one) for one in self.probe.figures}
        verdict, reason = worst_first(figures)
        notes = tuple(dict.fromkeys(note for *_, record in self.turns for note in record.notes))
        return last.replace(figures=figures, verdict=verdict, message=f"{last.combination.id} {reason}", notes=notes)

    def _figure(self, figure: Figure) -> FigureJudgement:
        a, b = ([v for side, _, one in self.turns if side is own for v in _values(one, figure.name)] for own in Side)
        one = FigureJudgement.without_limit(figure, b or a)
        if figure.name not in self.found:
            return one
        texts = (figure.show(median(values)) if values else "no value" for values in (a, b))
        # While turns continue, an undecided comparison is not bad yet.
        verdict, why = self._ruling(figure)
        if verdict is not Verdict.SKIPPED:
            why = "{} {} with A, {} with B: {}".format(figure.name, *texts, why)
        limit, stopped = self._threshold(figure), self.found[figure.name].why
        return replace(one, verdict=verdict or Verdict.PASS, reason=why, limit=limit, stopped=stopped)


def _values(record: ResultRecord, name: str) -> tuple[float, ...]:
    figures = record.figures or {}
    return figures[name].values if name in figures else ()


def counted_ways(one: Connection) -> list[Direction]:
    """Return the directions whose goodput a connection gives."""
    counted = {flow.way for flow in one.flows if flow.run.counted}
    return [way for way in (Direction.TX, Direction.RX) if way in counted]


def connections_per_boot(link: Link, traffic: Traffic, references: ReferenceData, boot_s: float, calls: int) -> int:
    """Return how many connections to measure in one boot, if ``calls`` gate calls share it."""
    one_s = traffic.seconds * max(calls, 1)
    noises = [one.noise for one in references.of_traffic(link.combination.identity, traffic).values()]
    return max(connections_per_turn(noise, boot_s, one_s) for noise in noises)
