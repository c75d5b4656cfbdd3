"""One measurement that a test asks for, over all boots of both builds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pytest_pinet.ab.costs import costs_of
from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.errors import ConfigError
from pytest_pinet.evidence.build import read_build, read_settings
from pytest_pinet.judge.attempts import Try
from pytest_pinet.judge.change import BuildDifference, connections_per_turn
from pytest_pinet.judge.change_attempts import MeasuredBoot, judge_boots
from pytest_pinet.judge.interleaved import Result, Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.default_traffic import attempt_at
from pytest_pinet.measure.traffic_runner import DROPS_MAX, ProgressOfWays, Runs
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.conditions import Conditions
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.tool import TrafficTool

# What a connection may take beside its traffic.
BESIDE_TRAFFIC_S = 10.0


@dataclass(frozen=True)
class Turn:
    """What one boot gave: its connections, and the link as it was then."""

    side: Side
    boot: int
    at_s: float
    link: Link
    tries: tuple[Try, ...]
    conditions: Sequence[Conditions]
    settings: Mapping[str, str]
    build: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def kept(self) -> tuple[Try, ...]:
        return tuple(one for one in self.tries if not one.excluded)


@dataclass(frozen=True)
class Rules:
    """How differences are judged: ``tolerances`` by direction; ``figures`` are those of the whole change."""

    tolerances: Mapping[Direction, float]
    known: ReferenceData
    error_rate: float
    figures: int
    most_boots: int


@dataclass
class TurnSeries:
    """Turns of one gate call; ``found`` is the judgement of each direction after the latest turn."""

    traffic: Traffic
    rules: Rules
    connections: int
    turns: list[Turn] = field(default_factory=list)
    found: dict[Direction, BuildDifference] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def decided(self) -> bool:
        """A direction that is slower ends it: the other one cannot mend that."""
        results = [one.result for one in self.found.values()]
        return bool(results) and (Result.SLOWER in results or Result.GO_ON not in results)

    def must_be(self, traffic: Traffic, who: str) -> None:
        """Raises ConfigError where this boot is asked for something else than the one before."""
        if traffic != self.traffic:
            raise ConfigError(
                f"{who} asked for {traffic.key} {traffic.direction} after {self.traffic.key} {self.traffic.direction} "
                "in an earlier turn: between builds a test must ask for the same in each"
            )

    def of(self, side: Side) -> list[Turn]:
        return [turn for turn in self.turns if turn.side is side]

    def tries(self, side: Side) -> list[Try]:
        """All connections of a build that count."""
        return [one for turn in self.of(side) for one in turn.kept]

    def costs(self, side: Side) -> list[dict[str, float]]:
        return [costs_of(one) for one in self.tries(side)]

    def take(
        self,
        link: Link,
        boot: int,
        side: Side,
        at_s: float,
        tool: TrafficTool,
        raw: dict[str, str],
        on_progress: ProgressOfWays | None,
        watch: Callable[[], None] | None,
    ) -> None:
        """Measure in the boot that is on now, and judge all of them. Raises what `Runs` raises."""
        lasts_s = (self.connections + DROPS_MAX) * (self.traffic.seconds + BESIDE_TRAFFIC_S)
        settings = read_settings(link.dut.shell, link.dut.device)
        build = read_build(link.dut.shell, link.dut.device)
        with Runs(link, tool, lasts_s, raw, on_progress, watch) as runs:
            while sum(not one.excluded for one in runs.tries) < self.connections:
                runs.again(self.traffic, Fresh.CONNECTION)
            runs.finish(self.traffic)
            turn = Turn(side, boot, at_s, replace(link), tuple(runs.tries), runs.conditions.before, settings, build)
        self.add(turn)

    def add(self, turn: Turn) -> None:
        """One more boot, and what all of them come to."""
        self.turns.append(turn)
        self.seconds = time.monotonic() - self.clock
        self.found = {way: self._judged(turn.link, way) for way in ways_of(self.turns[0].tries[0])}

    def give_up(self) -> None:
        """No more boots are made: what goes on stays undecided."""
        for way, one in self.found.items():
            if one.result is Result.GO_ON:
                self.found[way] = replace(one, result=Result.INCONCLUSIVE, why=f"undecided: {one.why}")

    def _judged(self, link: Link, way: Direction) -> BuildDifference:
        before = self.found.get(way)
        if before is not None and before.decided:
            # What was certain stays so: later boots are made for other figures.
            return before
        boots = [
            MeasuredBoot(turn.side, turn.at_s, tuple(attempt_at(one, way) for one in turn.kept)) for turn in self.turns
        ]
        rules = self.rules
        noise = rules.known.of(MetricKey(link.combination.identity, self.traffic, way)).noise
        return judge_boots(boots, rules.tolerances[way], noise, rules.error_rate, rules.figures, rules.most_boots)


def ways_of(one: Try) -> list[Direction]:
    """The directions of which a connection gives a figure."""
    counted = {flow.way for flow in one.flows if flow.run.counted}
    return [way for way in (Direction.TX, Direction.RX) if way in counted]


def connections_per_boot(link: Link, traffic: Traffic, known: ReferenceData, boot_s: float, calls: int) -> int:
    """How many connections one boot is worth where ``calls`` measurements share it."""
    one_s = traffic.seconds * max(calls, 1)
    noises = [one.noise for one in known.of_traffic(link.combination.identity, traffic).values()]
    return max(connections_per_turn(noise, boot_s, one_s) for noise in noises)
