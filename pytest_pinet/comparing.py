"""Two states of the same nodes against each other, in turn: A B B A B A A B, so that drift of the lab cannot fool.

A state is whatever can be entered and left: a tuning now, a build later, a shaper in the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean

from pytest_pinet.evidence.build import read_build
from pytest_pinet.figures import figure_id
from pytest_pinet.judge.interleaved import (
    MOST_PAIRS,
    TOLERANCE,
    Comparison,
    Result,
    Side,
    compare_attempts,
    figure_of_attempt,
    side,
)
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.lab.link import Link
from pytest_pinet.model.attempt import Attempt
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.preconditions import refuse
from pytest_pinet.report.comparison import ComparisonRecord, ConnectionRecord, SideRecord
from pytest_pinet.runs import ProgressOfWays, Runs
from pytest_pinet.standard_traffic import attempt_at
from pytest_pinet.traffic.iperf3 import Iperf3

# What a turn may take beside its traffic, a change of state among it.
BESIDE_TRAFFIC_S = 10.0
# How bad each result is for the candidate, the worst first; of both directions the worse one counts.
_SEVERITY = (Result.SLOWER, Result.INCONCLUSIVE, Result.GO_ON, Result.SAME, Result.FASTER)


@dataclass(frozen=True)
class State:
    """One side: its name for reports, and what brings the nodes into it for as long as it is held.

    ``enter`` gives a context manager, or None for a change that the other state's ``enter`` takes back. A state is left
    before the other one is entered, and held while it follows itself. It may raise any PinetError, which ends the
    comparison.
    """

    name: str
    enter: Callable[[], AbstractContextManager[object] | None] = nullcontext


@dataclass(frozen=True)
class Plan:
    """When to stop: B may be slower than A by ``tolerance`` (0.03 = 3 %), with ``error_rate`` both ways.

    ``noise`` is asked for the noise of a figure by its id. ``most_pairs`` ends what stays undecided.
    """

    tolerance: float = TOLERANCE
    error_rate: float = 0.01
    most_pairs: int = MOST_PAIRS
    noise: Callable[[str], Noise] = lambda _: UNKNOWN


class _Turns:
    """Holds one of the two states at a time."""

    def __init__(self, states: Mapping[Side, State], stack: ExitStack) -> None:
        self._states = states
        self._stack = stack
        self._now: Side | None = None

    def take(self, wanted: Side) -> bool:
        """Be in this state, and say whether that was a change: half of all turns are none, which saves reboots."""
        if wanted is self._now:
            return False
        self._stack.close()
        self._now = None
        self._stack.enter_context(self._states[wanted].enter() or nullcontext())
        self._now = wanted
        return True


@dataclass(frozen=True)
class _Run:
    """One connection and the attempt that it gave at each direction's figure."""

    side: Side
    started_s: float
    seconds: float
    attempts: Mapping[Direction, Attempt]

    @property
    def excluded(self) -> str:
        return next((a.excluded for a in self.attempts.values() if a.excluded), "")


def compare(
    link: Link,
    traffic: Traffic,
    state_a: State,
    state_b: State,
    tool: Iperf3,
    plan: Plan | None = None,
    on_progress: ProgressOfWays | None = None,
    watch: Callable[[], None] | None = None,
    raw: dict[str, str] | None = None,
    on_state: Callable[[Side], None] = lambda _: None,
) -> ComparisonRecord:
    """Measure both states in turn, each time on a fresh connection, until the difference is certain or hopeless.

    A connection in which the link dropped is kept as evidence and made again. What every process printed is put into
    ``raw`` by file name. ``on_state`` is told whenever a state has been entered. The caller has the nodes, and the
    contention domains, to itself. Raises LabError, UnsupportedError, and whatever entering or leaving a state raises;
    it is left in any case. ValueError for a tolerance outside 0 to 1.
    """
    plan = plan or Plan()
    if not 0 < plan.tolerance < 1:
        raise ValueError(f"a tolerance of {plan.tolerance} makes no sense; expected a part such as 0.03")
    started = datetime.now(UTC)
    clock = time.monotonic()
    runs: list[_Run] = []
    found: dict[Direction, Comparison] = {}
    ways = traffic.direction.parts
    ids = {way: figure_id(link, traffic, way) for way in ways}
    lasts_s = 2 * plan.most_pairs * (traffic.seconds + BESIDE_TRAFFIC_S)
    builds: dict[Side, Mapping[str, str | None]] = {}
    with ExitStack() as stack, Runs(link, tool, lasts_s, raw, on_progress, watch) as traffic_runs:
        turns = _Turns({Side.A: state_a, Side.B: state_b}, stack)
        while not found or _goes_on(found, plan):
            now = side(sum(not run.excluded for run in runs))
            if turns.take(now):
                # A change of state may take links down and begin counters anew.
                traffic_runs.begin_anew(same=False)
                on_state(now)
            if now not in builds:
                builds[now] = read_build(link.dut.shell, link.dut.device)
            begun = time.monotonic() - clock
            one = traffic_runs.again(traffic)
            runs.append(_Run(now, begun, one.seconds, {way: attempt_at(one, way) for way in ways}))
            kept = [run for run in runs if not run.excluded]
            found = {way: _judged(kept, way, plan, ids[way]) for way in ways}
        refuse(traffic_runs.finish(traffic))
    seconds = time.monotonic() - clock
    return _record(link, traffic, (state_a, state_b), plan, runs, found, started, seconds, builds)


def _judged(kept: list[_Run], way: Direction, plan: Plan, figure: str) -> Comparison:
    return compare_attempts([run.attempts[way] for run in kept], plan.tolerance, plan.noise(figure), plan.error_rate)


def _goes_on(found: Mapping[Direction, Comparison], plan: Plan) -> bool:
    if any(one.result is Result.SLOWER for one in found.values()):
        # The other direction cannot mend that.
        return False
    pairs = min(one.pairs for one in found.values())
    return pairs < plan.most_pairs and any(one.result is Result.GO_ON for one in found.values())


def _record(
    link: Link,
    traffic: Traffic,
    states: tuple[State, State],
    plan: Plan,
    runs: list[_Run],
    found: Mapping[Direction, Comparison],
    started: datetime,
    seconds: float,
    builds: Mapping[Side, Mapping[str, str | None]],
) -> ComparisonRecord:
    worst = min(found, key=lambda way: _SEVERITY.index(found[way].result))
    result = found[worst].result
    several = len(found) > 1
    return {
        "id": figure_id(link, traffic),
        "a": states[0].name,
        "b": states[1].name,
        "result": str(Result.INCONCLUSIVE if result is Result.GO_ON else result),
        "why": f"{worst}: {found[worst].why}" if several else found[worst].why,
        "tolerance": plan.tolerance,
        "pairs": min(one.pairs for one in found.values()),
        "directions": {str(way): _side(way, one, runs) for way, one in found.items()},
        "runs": [_run(run) for run in runs],
        "started": started.isoformat(),
        "seconds": seconds,
        "builds": {str(state): dict(build) for state, build in builds.items()},
        "traffic_seconds": sum(max(a.traffic_seconds for a in run.attempts.values()) for run in runs),
    }


def _side(way: Direction, found: Comparison, runs: list[_Run]) -> SideRecord:
    return {
        "a_bps": _goodput(way, Side.A, runs).bps,
        "b_bps": _goodput(way, Side.B, runs).bps,
        "change": found.change,
        "interval": None if found.low is None or found.high is None else [found.low, found.high],
        "result": str(found.result),
        "why": "; ".join([found.why, *found.remarks]),
    }


def _goodput(way: Direction, state: Side, runs: list[_Run]) -> Bitrate:
    """The mean of all connections in this state, each without the weight of odd moments."""
    own = [run.attempts[way] for run in runs if run.side is state and not run.excluded]
    levels = [level for attempt in own if (level := figure_of_attempt(attempt)) is not None]
    return Bitrate(fmean(levels) if levels else 0.0)


def _run(run: _Run) -> ConnectionRecord:
    return {
        "side": str(run.side),
        "started_s": run.started_s,
        "seconds": run.seconds,
        "goodput_bps": {str(way): attempt.goodput.bps for way, attempt in run.attempts.items()},
        "counted_s": min(attempt.seconds for attempt in run.attempts.values()),
        "excluded": run.excluded,
        "events": [event.text for attempt in run.attempts.values() for event in attempt.events],
    }
