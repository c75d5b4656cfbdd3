"""Judge one value by its limit and by the physical limit, and decide whether another connection is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from pytest_pinet.judge.baseline import LEAST_RUNS, Baseline, Course, Reference, course_of, without_course
from pytest_pinet.judge.days import ENOUGH_DAYS, DaySpread, against_baseline, day_spread, missing_days, zone_of
from pytest_pinet.judge.oracle import TOLERANCE, Oracle
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.sequential import ERROR_RATE, Against, Decision, decide
from pytest_pinet.judge.spread import Noise
from pytest_pinet.judge.starts import next_seconds, shows_level, start_of
from pytest_pinet.judge.two_levels import TwoLevels, Unit, two_levels
from pytest_pinet.judge.words import GOODPUT, Words
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.judgement import DirectionJudgement, FigureJudgement
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import EventKind
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Tolerance
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

J = TypeVar("J", DirectionJudgement, FigureJudgement)
# Paced senders stay this near to their rate limit (facts: 400.6 of 400 Mbit/s).
CAP_TOLERANCE = 0.05
# Connections so far below a limit from a baseline are confirmed by a connection that is twice as long.
FAR_BELOW = 0.85
# Sentences about disturbances that a reason has.
_MOST_SENTENCES = 3


@dataclass(frozen=True)
class GatePlan:
    """How a measurement is judged: limits, profile, and earlier knowledge.

    ``references`` has the earlier knowledge of each direction, ``costs`` the accepted baseline of each cost.
    ``link_ups``: a suspicion may take the link of the device under test down and up again. ``strict``: what would be
    marginal fails.
    """

    limits: Sequence[Limit]
    profile: Profile
    references: Mapping[Direction, Reference] = field(default_factory=dict)
    link_ups: bool = True
    error_rate: float = ERROR_RATE
    strict: bool = False
    costs: Mapping[str, Baseline] = field(default_factory=dict)

    def reference(self, way: Direction) -> Reference:
        return self.references.get(way, Reference())


@dataclass(frozen=True)
class Ruling:
    """The judgement so far. ``wanted`` is what must be fresh for another connection, None if the judgement is final.

    ``wanted_s`` is the length of that connection if it must be longer than usual, else 0.
    """

    judgement: DirectionJudgement
    wanted: Fresh | None = None
    wanted_s: int = 0


def judge(
    goodput: Bitrate,
    oracle: Oracle,
    limit: Limit | None,
    offered: Bitrate | None = None,
    since_start: Bitrate | None = None,
    baseline: Bitrate | None = None,
) -> DirectionJudgement:
    """Judge a receiver's goodput; ``offered`` is the rate limit of the senders, if they have one.

    A value above the physical limit by more than TOLERANCE, or above the sent rate by more than CAP_TOLERANCE, is a
    measurement error, whatever the limit. If the rate ``since_start`` of TCP is known, it must be above the physical
    limit as well, since TCP holds back data after a loss (`Flow.since_start`). A limit that can never be met is
    invalid, not a failure. Without a limit any value passes, and the reason says so. ``baseline`` is the accepted value
    for a limit of TOLERANCE; without a baseline such a limit is ignored.
    """
    most = oracle.goodput if offered is None else min(oracle.goodput, offered)
    threshold = None if limit is None else limit.threshold(most, baseline)
    verdict, reason = Verdict.INVALID, ""
    if min(goodput, since_start or goodput).bps > oracle.goodput.bps * (1 + TOLERANCE):
        reason = f"{goodput} is above the physical limit {oracle.goodput} ({oracle.because}): a measurement error"
    elif offered is not None and goodput.bps > offered.bps * (1 + CAP_TOLERANCE):
        reason = f"{goodput} is above the sender's rate limit {offered}: a measurement error"
    elif threshold is None:
        verdict, reason = Verdict.PASS, "no limit was set for this combination"
    elif threshold.rate > most:
        possible = f"the {most} that were sent" if most < oracle.goodput else f"the capacity of this link, {most}"
        reason = f"the limit {threshold.rate} is above {possible}: it can never be met"
    else:
        verdict, reason = threshold.judge(goodput.bps)
    return DirectionJudgement(verdict, reason, goodput, oracle.goodput, oracle.because, ERROR_RATE, threshold)


def rule_on(
    connections: Sequence[Connection],
    goodput: Bitrate,
    since_start: Bitrate,
    oracle: Oracle,
    limit: Limit | None,
    plan: GatePlan,
    reference: Reference,
    offered: Bitrate | None = None,
) -> Ruling:
    """Judge the ``goodput`` of all counted connections together; ``since_start`` and ``offered`` are as in ``judge``.

    If a link can be taken down and up, a regression must persist on a fresh link-up. The first decision that ends the
    connections holds. Later connections, made for another value, do not change it.
    """
    baseline, noise = reference.baseline, reference.noise
    counted = [connection for connection in connections if not connection.excluded]
    showing = shows_level([start_of(one) for one in counted])
    counted = [one for one, shown in zip(counted, showing, strict=True) if shown]
    judged = judge(goodput, oracle, limit, offered, since_start, None if baseline is None else baseline.figure)
    starts = [start_of(one) for one in connections]
    next_s = next_seconds(starts, plan.profile.connection_s)
    spent_s = math.fsum(one.traffic_seconds for one in connections)
    over = plan.profile.more(spent_s, next_s) < 1
    if not counted:
        within = "" if all(one.ended for one in starts) else ": the start lasted longer than the connections"
        reason = f"no attempt gave a value{within}"
        undecided = replace(judged, verdict=Verdict.INCONCLUSIVE, state="undecided", reason=reason)
        return Ruling(undecided, None if over else Fresh.CONNECTION, next_s)
    if judged.verdict is Verdict.INVALID:
        return Ruling(judged)
    if judged.limit is None or judged.limit.number <= 0:
        # A baseline from such runs needs the connections of a gate that suspects a regression.
        missing = max(plan.profile.passes_after, plan.profile.fails_after) - len(counted)
        fresh = Fresh.LINK if missing == 1 and plan.link_ups else Fresh.CONNECTION
        return Ruling(_odd(judged, connections), fresh if missing > 0 and not over else None, next_s)
    bound = limit.bound if limit is not None else None
    from_baseline = baseline if isinstance(bound, Tolerance) else None
    decision, final = decided(judged, connections, judged.limit.rate, noise, plan, from_baseline)
    if final is None:
        next_s = decision.next_s
        # A slow start could explain that every connection is so low.
        low = plan.profile.fails_after - 1 <= decision.below == decision.connections
        if from_baseline is not None and low and (decision.ratio or 1.0) < FAR_BELOW:
            next_s = max(next_s, 2 * plan.profile.connection_s)
        return Ruling(judged, decision.next_fresh, next_s)
    final = replace(final, error_rate=plan.error_rate)
    if baseline is None:
        return Ruling(final)
    tolerance = bound if isinstance(bound, Tolerance) else DEFAULT_TOLERANCE
    return Ruling(improved(final, baseline, tolerance.relative.fraction, str(baseline.figure)))


def decided(
    judged: J,
    connections: Sequence[Connection],
    limit: Bitrate,
    noise: Noise,
    plan: GatePlan,
    baseline: Baseline | None,
    figure: Figure | None = None,
) -> tuple[Decision, J | None]:
    """Return the first decision that ends the connections, and the judgement; None while no decision does.

    There is a connection. ``baseline`` is given if the limit comes from it: what it does not know about today then
    counts. ``figure`` is what is judged, None for goodput.
    """
    spread, against = None, Against(figure=figure)
    if baseline is not None:
        course, levels, spread = _known_of(baseline, noise)
        noise = against_baseline(noise, spread)
        against = replace(against, zone=zone_of(limit, baseline.figure), levels=levels, course=course)
    for count in range(1, len(connections) + 1):
        own = tuple(connections[:count])
        decision = _decided(own, limit, noise, plan.profile, plan.error_rate, plan.link_ups, against)
        if decision.outcome is not None:
            break
    if decision.outcome is None:
        return decision, None
    final = settled(judged, limit, decision, decision.outcome, against.words)
    if spread is not None:
        final = replace(final, reason=f"{final.reason}; {_days_text(spread, decision, plan.error_rate, against)}")
    return decision, final


# The gate judges again after each connection.
@lru_cache(maxsize=16)
def _known_of(baseline: Baseline, noise: Noise) -> tuple[Course, TwoLevels | None, DaySpread]:
    """Return what a baseline says of the places of its connections, of two levels, and of days."""
    course = course_of(baseline)
    alike = without_course(baseline, course)
    levels = two_levels(alike)
    return course, levels, day_spread(alike if levels is None else levels.without(alike), noise)


def _days_text(spread: DaySpread, decision: Decision, error_rate: float, against: Against) -> str:
    """Return what the verdict assumes about days, and what would decide an uncertain one."""
    text = spread.text(error_rate)
    turns = "compare both builds in one session ('pinet gate')"
    zone, levels = against.zone, against.levels
    if decision.outcome is Verdict.FAIL and levels is None:
        return f"{text}; if this may be a level that the baseline has not seen, {turns}"
    if decision.outcome is not Verdict.INCONCLUSIVE or decision.ratio is None:
        return text
    if levels is not None and decision.ambiguous and levels.unit is not Unit.CONNECTION:
        return f"{text}: runs on {levels.draws(error_rate)} {levels.unit} would show both levels, or {turns}"
    margin = math.log(decision.ratio)
    if decision.moved or missing_days(spread, margin, error_rate, zone) == 0:
        # The noise of connections is the obstacle, as the reason says.
        return text
    of_mean = (decision.noise or 0.0) / math.sqrt(decision.connections)
    more = missing_days(spread, margin, error_rate, zone, of_mean)
    if more is None:
        return f"{text}: more days would not decide this, so {turns}"
    return f"{text}: a baseline of {more} more day{'' if more == 1 else 's'} would decide, or {turns}"


def gating(baseline: Baseline | None) -> Baseline | None:
    """Return the baseline if it has enough runs to judge by it."""
    return baseline if baseline is not None and len(baseline.runs) >= LEAST_RUNS else None


def improved(judged: J, baseline: Baseline, tolerance: float, shown: str) -> J:
    """Make a pass improved if it is certainly better than the baseline, which is ``shown``, by more than the tolerance.

    The interval of ``judged`` is one of rates (bit/s). It takes a baseline of ENOUGH_DAYS days: one or two days may
    have shown only the lower of two levels. A late "improved" does no harm.
    """
    if judged.interval is None or judged.verdict is not Verdict.PASS:
        return judged
    if judged.interval[0] <= baseline.figure.bps * (1 + tolerance):
        return judged
    better = f"{judged.reason}; better than the baseline {shown}"
    days = baseline.days
    if len(days) < ENOUGH_DAYS:
        few = f"a baseline of {len(days)} day{'' if len(days) == 1 else 's'}" if all(days) else "runs of unknown days"
        few += " cannot tell a better link from a better day"
        return replace(judged, reason=f"{better}; {few}, a baseline of {ENOUGH_DAYS} days can")
    return replace(judged, verdict=Verdict.IMPROVED, reason=f"{better}: see 'pinet accept'")


def _odd(judged: DirectionJudgement, connections: Sequence[Connection]) -> DirectionJudgement:
    """Make a result without a limit marginal if its traffic had events or excluded connections."""
    remarks = [connection.excluded for connection in connections if connection.excluded and not connection.beside_link]
    remarks += [
        event.text
        for connection in connections
        for event in connection.events
        if event.kind is not EventKind.SLOW_START
    ]
    if not remarks:
        return judged
    return replace(judged, verdict=Verdict.MARGINAL, reason=f"{judged.reason}, but {'; '.join(dict.fromkeys(remarks))}")


# The gate judges again after each connection, and each time it needs the decisions after all earlier connections.
_decided = lru_cache(maxsize=64)(decide)


def settled(judged: J, limit: Bitrate, decision: Decision, verdict: Verdict, words: Words = GOODPUT) -> J:
    """Return the judgement with this outcome of a decision. ``judged`` compares the value with the limit."""
    state = ""
    if verdict is Verdict.FAIL:
        state = "confirmed"
    elif verdict is Verdict.INCONCLUSIVE:
        state = "undecided"
    elif decision.below:
        verdict, state = Verdict.MARGINAL, "cleared"
    elif decision.flagged or decision.other_share:
        verdict = Verdict.MARGINAL
    elif judged.verdict is not Verdict.FAIL:
        # Such as the marginal band.
        verdict = judged.verdict
    reason = judged.reason
    if verdict is Verdict.INCONCLUSIVE:
        reason = f"{reason}, but this is not certain: {decision.why}"
    elif state == "cleared":
        of = f"{decision.below} of {decision.connections} connections"
        reason = f"{reason}; {words.missed} the limit in {of}, but the repetitions passed"
        if decision.flagged:
            reason = f"{_some(decision.flagged)}: {reason}"
    elif verdict is Verdict.MARGINAL and decision.flagged:
        reason = f"{reason}, but {_some(decision.flagged)}"
    elif verdict is Verdict.FAIL and judged.verdict is not Verdict.FAIL:
        reason = f"{reason}, but {decision.why}"
    if verdict is Verdict.FAIL and decision.flagged:
        # Events come first in the sentence, then the goodput.
        reason = f"{_some(decision.flagged)}: {reason}"
    if decision.levels:
        reason = f"{reason}; {decision.levels}"
    interval = None
    if decision.interval is not None:
        low, high = decision.interval
        interval = low * limit.bps, high * limit.bps
    return replace(judged, verdict=verdict, reason=reason, stopped=decision.why, state=state, interval=interval)


def _some(sentences: Sequence[str]) -> str:
    """Return the first sentences, and how many more there are: each disturbed connection has its own."""
    each = list(dict.fromkeys(sentences))
    more = [f"and {len(each) - _MOST_SENTENCES} more"] if len(each) > _MOST_SENTENCES else []
    return "; ".join([*each[:_MOST_SENTENCES], *more])
