"""Judge the connections of one measurement: sums, flows, evenness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_pinet.judge.baseline import Baseline, compare
from pytest_pinet.judge.circumstances import Circumstances, excused, excused_costs, excused_if_busy, invalid
from pytest_pinet.judge.extras import STRICT_REASON, judged_extras
from pytest_pinet.judge.flows import (
    Bounds,
    judge_evenness,
    least_since_start,
    pooled,
    showing_a_level,
    sum_of,
    without_catching_up,
)
from pytest_pinet.judge.gate import GatePlan, Ruling, gating, rule_on
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import Profile, confirm, goodput_limit, most_specific
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.judgement import (
    BaselineDifference,
    DirectionJudgement,
    EvennessJudgement,
    FlowJudgement,
    MeasurementJudgement,
)
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Share, Tolerance
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst

_HELD = (Verdict.PASS, Verdict.MARGINAL)
# A tool sends for a little longer than requested.
_LONGER = 1.02


def fitted(profile: Profile, connection_s: int) -> Profile:
    """Return the profile for connections of another length (s). Its budget allows at least a verdict."""
    least = max(profile.passes_after, profile.fails_after)
    budget_s = max(profile.budget_s, connection_s * least * _LONGER)
    return replace(profile, connection_s=connection_s, budget_s=budget_s)


def figures(
    link: LinkFacts,
    traffic: Traffic,
    connections: Sequence[Connection],
    plan: GatePlan,
    circumstances: Circumstances | None = None,
) -> MeasurementJudgement:
    """Judge the sum of each direction. If several flows ran at once, also judge each flow and their evenness."""
    judging = _Judging(link, traffic, connections, plan, circumstances or Circumstances())
    return judging.whole()


def strictly(found: MeasurementJudgement) -> MeasurementJudgement:
    """Make everything fail that is marginal."""

    def fail(verdict: Verdict) -> Verdict:
        return Verdict.FAIL if verdict is Verdict.MARGINAL else verdict

    def one(judged: DirectionJudgement) -> DirectionJudgement:
        extras = tuple(replace(extra, verdict=fail(extra.verdict)) for extra in judged.extras)
        return replace(judged, verdict=fail(judged.verdict), extras=extras)

    why = f"{found.reason}; {STRICT_REASON}" if found.verdict is Verdict.MARGINAL else None
    even = found.evenness
    return replace(
        found,
        verdict=fail(found.verdict),
        reason=why or found.reason,
        directions={way: one(judged) for way, judged in found.directions.items()},
        flows=tuple(replace(flow, judged=one(flow.judged)) for flow in found.flows),
        evenness=None if even is None else replace(even, verdict=fail(even.verdict)),
    )


def worst_of(
    directions: Mapping[Direction, DirectionJudgement],
    flows: Sequence[FlowJudgement],
    even: EvennessJudgement | None,
) -> tuple[Verdict, str]:
    """Return the worst verdict of a measurement, and why."""
    judged = [(one.verdict, f"{way}: {'; '.join([*_missed(one), one.reason])}") for way, one in directions.items()]
    judged += [(extra.verdict, f"{way}: {extra.reason}") for way, one in directions.items() for extra in one.extras]
    judged += [(flow.judged.verdict, f"{flow.name}: {flow.judged.reason}") for flow in flows]
    judged += [(even.verdict, even.reason)] if even is not None else []
    return min(judged, key=lambda entry: SEVERITY.index(entry[0]))


def _missed(found: DirectionJudgement) -> list[str]:
    """Return the reasons of missed limits on costs that gave the direction its verdict."""
    bad = found.verdict in (Verdict.FAIL, Verdict.INVALID)
    return [extra.reason for extra in found.extras if bad and extra.verdict is found.verdict]


class _Judging:
    def __init__(
        self,
        link: LinkFacts,
        traffic: Traffic,
        connections: Sequence[Connection],
        plan: GatePlan,
        circumstances: Circumstances,
    ) -> None:
        self._link = link
        self._topology = link.topology
        self._traffic = traffic
        self._flows = connections[0].flows
        self._plan = plan
        self._circumstances = circumstances
        repeats = [one.flows for one in connections[1:]]
        self._bounds = Bounds(link, traffic, self._flows, circumstances.conditions, repeats)
        limits = [one.goodput for one in self._bounds.alone]
        self._connections = without_catching_up(connections, traffic, self._bounds.offered, limits)
        # Other connections are only evidence.
        self._shown = showing_a_level(self._connections)
        caught_up = all(
            one.excluded and not own.excluded for one, own in zip(self._connections, connections, strict=True)
        )
        # Why there is no value yet, or at all.
        self._catching_up = self._connections[-1].excluded if caught_up else ""
        self._repeats_that = caught_up and len(connections) < plan.profile.fails_after
        self._wanted: list[Fresh] = []
        self._wanted_s = 0

    def whole(self) -> MeasurementJudgement:
        """Return the whole judgement. The order of the steps decides which reason overrides another."""
        directions = {way: self._sum(way) for way in (Direction.TX, Direction.RX) if self._counted(way)}
        several = len(self._topology.runs(self._traffic.direction)) > 1
        flows = tuple(self._flow(index) for index in range(len(self._flows))) if several else ()
        here = self._circumstances
        broken = [one.text for one in here.broken]
        even = excused_if_busy(self._evenness(), here.busy) if several else None
        verdict, _ = worst_of(directions, flows, even)
        # Failed requests fail the test, however many others were answered. An invalid result stays invalid.
        unanswered = "" if verdict is Verdict.INVALID or here.ineffective else here.unanswered

        def decided(
            one: DirectionJudgement, why: str, capacities: Mapping[str, Bitrate], full: str = ""
        ) -> DirectionJudgement:
            one = invalid(one, here.ineffective)
            one = replace(one, verdict=Verdict.FAIL, reason=why) if why else one
            return invalid(excused(one, here, capacities, full), broken)

        # Several flows at once share the limit of their peers.
        shared = _together(here.capacities) if flows else here.capacities
        directions = {
            way: decided(one, here.lossy_ladder or unanswered, shared, here.full.get(way, ""))
            for way, one in directions.items()
        }
        flows = tuple(
            replace(one, judged=decided(one.judged, "", _among(here.capacities, one.sender, one.receiver)))
            for one in flows
        )
        # More traffic does not help if the traffic does not measure the request.
        final = (verdict is Verdict.INVALID and not self._repeats_that) or bool(
            here.ineffective or unanswered or here.lossy_ladder or here.broken
        )
        wanted = None
        if self._wanted and not final:
            wanted = Fresh.LINK if Fresh.LINK in self._wanted else Fresh.CONNECTION
        verdict, reason = worst_of(directions, flows, even)
        if sentences := broken or (() if here.lossy_ladder else here.ineffective):
            verdict, reason = Verdict.INVALID, "; ".join(sentences)
        return MeasurementJudgement(verdict, reason, directions, flows, even, wanted, self._wanted_s)

    def _key(self, way: Direction) -> MetricKey:
        return MetricKey(self._link.combination, self._traffic, way)

    def _counted(self, way: Direction) -> list[int]:
        """Return the flows whose sum is the value of this direction."""
        return [i for i, flow in enumerate(self._flows) if flow.run.counted and flow.way is way]

    def _limits(self, way: Direction, end: int = 0) -> tuple[Sequence[Limit], MetricKey]:
        """Return the limits and the key for ``end``. Limits of the lab file apply to the end's own board and NIC.

        Limits of markers, calls and the command line apply to all ends of the test.
        """
        key = self._key(way)
        limits: Sequence[Limit] = (self._plan.reference(way).tolerance, *self._plan.limits)
        if end:
            filed = [limit for limit in limits if limit.origin is Origin.LAB_FILE]
            others = [limit for limit in limits if limit.origin is not Origin.LAB_FILE and limit.scope.matches(key)]
            limits = [*filed, *(replace(one, scope=replace(one.scope, board="*", nic="*")) for one in others)]
            here = self._link.ends[end]
            key = replace(key, combination=replace(key.combination, board=here.board, nic=here.nic))
        return limits, key

    def _limit(
        self,
        way: Direction,
        oracle: Oracle,
        metrics: Sequence[Metric],
        baseline: Baseline | None,
        end: int = 0,
        offered: Bitrate | None = None,
    ) -> Limit | None:
        """Return the one limit that judges a rate; ``metrics`` are the minima that may apply."""
        most = oracle.goodput if offered is None else min(oracle.goodput, offered)
        figure = None if baseline is None else baseline.figure
        return goodput_limit(*self._limits(way, end), most, figure, metrics)

    def _strictest(self, metric: Metric) -> Limit | None:
        """Return the strictest limit of all directions, since all flows share alike."""
        each = (most_specific(*self._limits(way), metric) for way in self._traffic.direction.parts)
        found = [limit for limit in each if limit is not None]

        def fraction(limit: Limit) -> float:
            return limit.minimum.fraction if isinstance(limit.minimum, Share) else 0.0

        return max(found, key=fraction, default=None)

    def _rule(
        self,
        chosen: Sequence[int],
        way: Direction,
        oracle: Oracle,
        limit: Limit | None,
        baseline: Baseline | None = None,
    ) -> DirectionJudgement:
        """Judge the sum of these flows."""
        own = tuple(one.only(chosen) for one in self._connections)
        flows = tuple(self._pooled(index) for index in chosen)
        ruling = rule_on(
            own,
            sum_of(flows),
            # Only TCP holds data back.
            sum_of(flows)
            if self._traffic.udp
            else least_since_start([[one.flows[index].flow for index in chosen] for one in self._shown]),
            oracle,
            limit,
            self._plan,
            replace(self._plan.reference(way), baseline=baseline),
            self._bounds.offered[way] if len(chosen) == 1 else None,
        )
        if self._catching_up:
            wrong = replace(ruling.judgement, verdict=Verdict.INVALID, reason=self._catching_up)
            ruling = Ruling(wrong, Fresh.CONNECTION if self._repeats_that else None)
        if ruling.wanted is not None:
            self._wanted.append(ruling.wanted)
            self._wanted_s = max(self._wanted_s, ruling.wanted_s)
        return replace(ruling.judgement, flows=flows, connections=own)

    def _difference(self, chosen: Sequence[int], way: Direction, accepted: Baseline) -> BaselineDifference:
        """Return how the connections of this run differ from the runs of the baseline."""
        runs = [sum_of([one.flows[index].flow for index in chosen]) for one in self._shown if not one.excluded]
        tolerance = most_specific(*self._limits(way), Metric.TOLERANCE)
        bound = tolerance.bound if tolerance is not None else None
        allowed = bound if isinstance(bound, Tolerance) else DEFAULT_TOLERANCE
        found = compare(runs, accepted, allowed, self._plan.error_rate)
        return BaselineDifference(
            accepted.figure.bps,
            len(accepted.runs),
            accepted.date,
            tuple(accepted.builds),
            found.change,
            found.interval,
            found.verdict,
            found.why,
        )

    def _pooled(self, index: int) -> Flow:
        return pooled([one.flows[index].flow for one in self._shown])

    def _sum(self, way: Direction) -> DirectionJudgement:
        """Judge the sum of one direction and its costs (the worse verdict counts). Compare it with the baseline."""
        chosen = self._counted(way)
        # A baseline applies to a sum, not to each of several flows, and is recorded at full rate.
        accepted = self._plan.reference(way).baseline if self._link.scale == 1 else None
        baseline = gating(accepted)
        if len(chosen) == 1:
            oracle = self._bounds.alone[chosen[0]]
            limit = self._limit(way, oracle, (Metric.GOODPUT, Metric.SUM), baseline, offered=self._bounds.offered[way])
        else:
            oracle = self._bounds.sum(chosen)
            metrics = (Metric.SUM, Metric.GOODPUT) if self._topology.shared else (Metric.SUM,)
            limit = self._limit(way, oracle, metrics, baseline)
        found = self._rule(chosen, way, oracle, limit, baseline)
        plan = self._plan
        extras, unsettled = judged_extras(
            self._link, self._key(way), self._connections, chosen, plan.limits, plan.profile
        )
        if unsettled:
            self._wanted.append(Fresh.CONNECTION)
        extras = excused_costs(extras, self._circumstances.busy)
        return replace(
            found,
            verdict=worst([found.verdict, *(one.verdict for one in extras if one.verdict is not Verdict.SKIPPED)]),
            extras=extras,
            baseline=None if accepted is None else self._difference(chosen, way, accepted),
        )

    def _flow(self, index: int) -> FlowJudgement:
        """Judge one of several flows; it has its own limit only if it shares no NIC."""
        measured = self._flows[index]
        ends = self._link.ends
        oracle = self._bounds.alone[index]
        fair = self._bounds.fair[index]
        limit = None
        if not self._topology.shared:
            offered = self._bounds.offered[measured.way]
            limit = self._limit(measured.way, oracle, (Metric.GOODPUT,), None, measured.run.a, offered)
        judged = self._rule([index], measured.way, oracle, limit)
        if self._topology.shared and judged.verdict is Verdict.PASS:
            part = judged.goodput.bps / fair.bps
            judged = replace(judged, limit=None, reason=f"{part * 100:.1f} % of its fair rate {fair}")
        return FlowJudgement(
            str(ends[measured.sender]),
            str(ends[measured.receiver]),
            measured.way if measured.run.counted else None,
            fair,
            judged,
        )

    def _evenness(self) -> EvennessJudgement:
        """Judge how evenly all flows shared."""
        ends = self._link.ends
        names = [f"{ends[flow.sender]}>{ends[flow.receiver]}" for flow in self._flows]
        limits = self._strictest(Metric.SHARE), self._strictest(Metric.FAIRNESS)

        def judged(flows: Iterable[Flow]) -> EvennessJudgement:
            return judge_evenness([flow.goodput for flow in flows], self._bounds.fair, names, *limits)

        each = [judged(flow.flow for flow in one.flows) for one in self._connections if not one.excluded]
        verdict = confirm([one.verdict in _HELD for one in each], self._plan.profile)
        if verdict is None:
            self._wanted.append(Fresh.CONNECTION)
        found = judged(self._pooled(index) for index in range(len(self._flows)))
        missed = [one for one in each if one.verdict not in _HELD]
        if missed and found.verdict in _HELD:
            reason = f"{found.reason}; in {len(missed)} of {len(each)} connections {missed[-1].reason}"
            found = replace(found, reason=reason)
        return found if verdict in (None, Verdict.PASS) else replace(found, verdict=verdict)


def _together(capacities: Mapping[str, Bitrate]) -> dict[str, Bitrate]:
    """Return the capacity of all peers together."""
    most = Bitrate(sum(one.bps for one in capacities.values()))
    return {" and ".join(capacities): most} if capacities else {}


def _among(capacities: Mapping[str, Bitrate], *ends: str) -> dict[str, Bitrate]:
    return {name: most for name, most in capacities.items() if name in ends}
