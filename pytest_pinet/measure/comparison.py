"""Measures two states of a link alternately (A B B A B A A B), so that slow drift cancels out: the gate's ``compare``.

Runs with ``--pinet-build`` that alternate two builds have their own records (``ab.records``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import fmean

from pytest_pinet.evidence.build import read_build
from pytest_pinet.history.differences import Settings, settings_differences
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.difference import AgainstA, Difference, judge_against_a
from pytest_pinet.judge.flows import Bounds
from pytest_pinet.judge.level import level_bps
from pytest_pinet.judge.turns import MOST_PAIRS, STATE_TOLERANCE, Side, compare_connections, side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import link_result
from pytest_pinet.measure.preconditions import refuse
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import ComparisonRecord, SideRecord, StateTurnRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.result_record import connection_record
from pytest_pinet.report.sentences import tuning_notes

# Time of a turn beside its traffic, including a change of state.
BESIDE_TRAFFIC_S = 10.0
# Both flows of a pair leave from the same port, the next pair from the next port: then a queue or path that the link
# chooses by the ports of a flow is the same for both states. Linux gives other programs ports from 32768 on.
SOURCE_PORT = 12_000
# The state of a connection, its start (seconds after that of the comparison), and the connection.
_Run = tuple[Side, float, Connection]


@dataclass(frozen=True)
class State:
    """One side of a comparison: its name for reports, and the function that brings the nodes into this state.

    ``enter`` returns a context manager, or None if the ``enter`` of the other state undoes the change. A state is left
    before the other state is entered. It is kept if the next turn uses the same state. ``enter`` may raise any
    PinetError, which ends the comparison.
    """

    name: str
    enter: Callable[[], AbstractContextManager[object] | None] = nullcontext


@dataclass(frozen=True)
class StateComparison:
    """Two states A and B to compare by their goodput.

    B may be slower than A by ``tolerance`` (0.03 = 3 %); both kinds of wrong results have the probability
    ``error_rate``. ``references`` has earlier knowledge about each direction. After ``most_pairs`` an undecided
    comparison ends.
    """

    traffic: Traffic
    states: tuple[State, State]
    tolerance: float = STATE_TOLERANCE
    error_rate: float = 0.01
    most_pairs: int = MOST_PAIRS
    references: Mapping[Direction, Reference] = field(default_factory=dict)


class _Turns:
    """Enters and leaves the two states, one at a time."""

    def __init__(self, states: Mapping[Side, State], stack: ExitStack) -> None:
        self._states = states
        self._stack = stack
        self._now: Side | None = None

    def take(self, wanted: Side) -> bool:
        """Enter this state; return whether it changed. A third of all turns need no change, which saves reboots."""
        if wanted is self._now:
            return False
        self._stack.close()
        self._now = None
        self._stack.enter_context(self._states[wanted].enter() or nullcontext())
        self._now = wanted
        return True


def compare(
    context: MeasureContext, job: StateComparison, on_state: Callable[[Side], None] = lambda _: None
) -> ComparisonRecord:
    """Measure both states alternately on fresh connections until the difference is certain or cannot become so.

    A connection in which the link dropped is kept as evidence and repeated. ``on_state`` is called whenever a state has
    been entered. The caller must have exclusive use of the nodes and contention domains. Raises LabError,
    UnsupportedError, and any error of entering or leaving a state; the current state is always left. Raises ValueError
    for a tolerance outside 0 to 1.
    """
    link, traffic = context.link, job.traffic
    if not 0 < job.tolerance < 1:
        raise ValueError(f"tolerance {job.tolerance}: expected a share above 0 and below 1, such as 0.03")
    started = datetime.now(UTC)
    clock = time.monotonic()
    runs: list[_Run] = []
    found: dict[Direction, Difference] = {}
    ways = traffic.direction.parts
    lasts_s = 2 * job.most_pairs * (traffic.seconds + BESIDE_TRAFFIC_S)
    builds: dict[Side, Mapping[str, str | None]] = {}
    with ExitStack() as stack, Runs(context, lasts_s) as traffic_runs:
        turns = _Turns(dict(zip((Side.A, Side.B), job.states, strict=True)), stack)
        while not found or _goes_on(found, job):
            now = side(sum(not one.excluded for _, _, one in runs))
            if turns.take(now):
                # A change of state may take links down and restart counters.
                traffic_runs.restart_counting(same=False)
                on_state(now)
            if now not in builds:
                builds[now] = read_build(link.dut.shell, link.dut.device)
            started_s = time.monotonic() - clock
            pair = sum(not one.excluded for _, _, one in runs) // 2
            runs.append((now, started_s, traffic_runs.again(traffic, source_port=SOURCE_PORT + pair)))
            kept = [one for _, _, one in runs if not one.excluded]
            for way in ways:
                noise = job.references.get(way, Reference()).noise
                own = [one.towards(way) for one in kept]
                found[way] = compare_connections(own, job.tolerance, noise, job.error_rate)
        refuse(traffic_runs.finish(traffic))
    worst = min(found, key=lambda way: SEVERITY.index(found[way].verdict))
    return ComparisonRecord(
        id=str(MetricKey(link.combination.identity, traffic, traffic.direction)),
        a=job.states[0].name,
        b=job.states[1].name,
        why=f"{worst}: {found[worst].why}" if len(found) > 1 else found[worst].why,
        tolerance=job.tolerance,
        error_rate=job.error_rate,
        pairs=min(one.count for one in found.values()),
        directions={str(way): _side(way, one, runs) for way, one in found.items()},
        turns=tuple(_turn(run, ways) for run in runs),
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        builds={str(state): dict(build) for state, build in builds.items()},
        traffic_seconds=sum(max(one.towards(way).traffic_seconds for way in ways) for _, _, one in runs),
    )


def _goes_on(found: Mapping[Direction, Difference], job: StateComparison) -> bool:
    if any(one.verdict is Verdict.FAIL for one in found.values()):
        # A slower direction decides; the other direction cannot change the result.
        return False
    pairs = min(one.count for one in found.values())
    return pairs < job.most_pairs and not all(one.decided for one in found.values())


def _side(way: Direction, found: Difference, runs: list[_Run]) -> SideRecord:
    a_bps, b_bps = (_goodput_bps(way, state, runs) for state in Side)
    return SideRecord.of(found, a_bps=a_bps, b_bps=b_bps, why="; ".join([found.why, *found.remarks]))


def _goodput_bps(way: Direction, state: Side, runs: list[_Run]) -> float:
    """Return the mean level of all connections in this state; a level gives little weight to short disturbances."""
    own = [one.towards(way) for side, _, one in runs if side is state and not one.excluded]
    levels = [level for one in own if (level := level_bps(one)) is not None]
    return fmean(levels) if levels else 0.0


def _turn(run: _Run, ways: Sequence[Direction]) -> StateTurnRecord:
    side, started_s, one = run
    connections = {str(way): replace(connection_record(one.towards(way)), samples=()) for way in ways}
    return StateTurnRecord(side=side, started_s=started_s, seconds=one.lasted_s, connections=connections)


def compared_record(
    link: Link, traffic: Traffic, found: ComparisonRecord, settings: Mapping[Side, Settings]
) -> ResultRecord:
    """Return the result of a comparison: values of state B, limits from state A, and the comparison itself.

    ``settings`` has the settings of all ends in each state. The caller fills in ``test``, ``files`` and ``rerun``.
    """
    differs = settings_differences(settings[Side.A], settings[Side.B])
    notes = [f"{found.a} and {found.b} differ: {'; '.join(differs)}"] if differs else []
    notes += [event.text for turn in found.turns for one in turn.connections.values() for event in one.events]
    ways = [Direction(way) for way in found.directions]
    directions = {way: _direction_of_b(link, traffic, way, found) for way in ways}
    own = MeasurementJudgement(Verdict.PASS, "", directions)
    judged = judge_against_a(own, {way: _against_a(way, found) for way in ways})
    record = link_result(
        link,
        traffic,
        judged,
        link.tried,
        build=found.builds.get("B", {}),
        notes=[*notes, *tuning_notes(link.tried)],
        started=found.started,
        seconds=found.seconds,
        traffic_seconds=found.traffic_seconds,
        comparison=found,
        settings=settings[Side.B],
    )
    of_b = {
        way: one.replace(connections=[turn.connections[way] for turn in found.turns if turn.side == "B"])
        for way, one in record.directions.items()
    }
    return record.replace(directions=of_b)


def _against_a(way: Direction, found: ComparisonRecord) -> AgainstA:
    side = found.directions[str(way)]
    low, high = side.interval or (None, None)
    return AgainstA(
        found.a,
        Bitrate(side.a_bps),
        Bitrate(side.b_bps),
        found.tolerance,
        side.verdict,
        f"{found.b} against {found.a}: {side.why}",
        side.why,
        None if low is None or high is None else (low, high),
    )


def _direction_of_b(link: Link, traffic: Traffic, way: Direction, found: ComparisonRecord) -> DirectionJudgement:
    """Return the values of state B in one direction, not yet judged."""
    (run,) = link.combination.topology.runs(traffic.direction)
    ends = (run.a, run.b) if way is Direction.TX else (run.b, run.a)
    flow = Flow(way, ())
    oracle = Bounds(link.facts, traffic, [MeasuredFlow(*ends, run, way, flow)]).alone[0]
    goodput = Bitrate(found.directions[str(way)].b_bps)
    return DirectionJudgement(
        Verdict.PASS, "", goodput, oracle.goodput, oracle.because, found.error_rate, flows=(flow,)
    )
