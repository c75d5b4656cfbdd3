"""From the tries of one measurement to judged figures: sums, flows, evenness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_pinet.bounds import Bounds
from pytest_pinet.costs import judged_extras
from pytest_pinet.judge.baseline import Baseline, compare
from pytest_pinet.judge.confirm import confirm
from pytest_pinet.judge.flows import Evenness, evenness, judge_evenness
from pytest_pinet.judge.gate import Ruling, gating, rule_on
from pytest_pinet.judge.limits import goodput_limit, most_specific
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.known import Known
from pytest_pinet.lab.link import Link
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.conditions import Conditions
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.tolerance import DEFAULT_TOLERANCE, Tolerance
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst
from pytest_pinet.report.record import (
    BaselineRecord,
    DirectionRecord,
    EvennessRecord,
    FlowRecord,
    direction_record,
    sum_record,
)
from pytest_pinet.tries import Try, attempts_of, least_since_start, pooled, sum_of

_HELD = (Verdict.PASS, Verdict.MARGINAL)


@dataclass(frozen=True)
class Plan:
    """How a measurement is judged: its limits, what traffic may be spent on it, and how much it is known to vary.

    ``known`` has noise, accepted baselines, and tolerances where no limit sets one. ``link_ups``: whether a
    suspicion may take the link of the device under test down and up again.
    """

    limits: Sequence[Limit]
    profile: Profile
    known: Known = field(default_factory=Known)
    link_ups: bool = True
    error_rate: float = ERROR_RATE


def fitted(profile: Profile, connection_s: int) -> Profile:
    """The profile for connections of another length (s); its budget holds as many as a verdict may need at least."""
    least = max(profile.passes_after, profile.fails_after)
    budget_s = max(profile.budget_s, float(connection_s * least))
    return replace(profile, connection_s=connection_s, budget_s=budget_s)


@dataclass(frozen=True)
class Figured:
    """Everything that was judged; ``verdict`` is the worst of it and ``reason`` says why.

    ``wanted`` is what another try should begin with, None when every verdict is final.
    """

    verdict: Verdict
    reason: str
    directions: Mapping[str, DirectionRecord]
    flows: Sequence[FlowRecord]
    evenness: EvennessRecord | None
    wanted: Fresh | None


def figure_id(link: Link, traffic: Traffic, way: Direction | None = None) -> str:
    """Stable across runs: board, NIC, topology, traffic, direction; of one of the ``way`` of both with that, too."""
    parts = [f"{link.id}/{traffic.key}"]
    if traffic.direction is not Direction.BIDIR:
        parts.append(str(traffic.direction))
    elif way is not None:
        parts.append(str(way))
    return "-".join(parts)


def figures(
    link: Link, traffic: Traffic, tries: Sequence[Try], plan: Plan, conditions: Sequence[Conditions] = ()
) -> Figured:
    """Judge the sums of each direction, and where several flows ran at once each of them and how they shared.

    ``conditions`` are those of the ends, by their numbers, as far as anybody read them.
    """
    judging = _Judging(link, traffic, tries, plan, conditions)
    directions = {str(way): judging.sum(way) for way in (Direction.TX, Direction.RX) if judging.counted(way)}
    several = len(link.combination.topology.runs(traffic.direction)) > 1
    records = [judging.flow(index) for index in range(len(tries[0].flows))] if several else []
    even = judging.evenness() if several else None
    verdict, reason = worst_of(directions, records, even)
    if verdict is Verdict.INVALID:
        # Traffic that measures something else gets no better with more of it.
        judging.wanted.clear()
    wanted = None
    if judging.wanted:
        wanted = Fresh.LINK if Fresh.LINK in judging.wanted else Fresh.CONNECTION
    return Figured(verdict, reason, directions, records, even, wanted)


def worst_of(
    directions: Mapping[str, DirectionRecord], flows: Sequence[FlowRecord], even: EvennessRecord | None
) -> tuple[Verdict, str]:
    """The worst verdict of a measurement, and why."""
    judged = [(d["verdict"], f"{name}: {d['reason']}") for name, d in directions.items()]
    judged += [(e["verdict"], f"{name}: {e['reason']}") for name, d in directions.items() for e in d["extras"]]
    judged += [(f["verdict"], f"{f['name']}: {f['reason']}") for f in flows]
    judged += [(even["verdict"], even["reason"])] if even is not None else []
    verdict, reason = min(judged, key=lambda entry: SEVERITY.index(Verdict(entry[0])))
    return Verdict(verdict), reason


class _Judging:
    def __init__(
        self, link: Link, traffic: Traffic, tries: Sequence[Try], plan: Plan, conditions: Sequence[Conditions]
    ) -> None:
        self._link = link
        self._topology = link.combination.topology
        self._traffic = traffic
        self._tries = tries
        # What gives no figure is evidence only; where nothing gives one, that is all there is to show.
        self._shown = [one for one in tries if not one.excluded] or tries
        self._flows = tries[0].flows
        self._plan = plan
        self._bounds = Bounds(link, traffic, self._flows, conditions, [one.flows for one in tries[1:]])
        self.wanted: list[Fresh] = []

    @property
    def _both_ways(self) -> bool:
        return self._traffic.direction is Direction.BIDIR

    def counted(self, way: Direction) -> list[int]:
        """The flows whose sum is this direction's figure."""
        return [i for i, flow in enumerate(self._flows) if flow.run.counted and flow.way is way]

    def _limits(self, way: Direction, end: int = 0) -> tuple[Sequence[Limit], str, str]:
        """The limits, board and NIC that hold for ``end``: files speak of it, whoever runs the test of all ends."""
        here = self._link.combination
        limits: Sequence[Limit] = (self._plan.known.tolerance(self._id(way)), *self._plan.limits)
        board, nic = here.board, here.nic
        if end:
            endpoint = here.ends[end]
            board, nic = endpoint.node.board.name, endpoint.interface.label
            limits = [
                limit if limit.origin is Origin.LAB_FILE else replace(limit, board="*", nic="*")
                for limit in limits
                if limit.origin is Origin.LAB_FILE
                or limit.matches(here.board, here.nic, self._topology.name, way, self._both_ways)
            ]
        return limits, board, nic

    def _id(self, way: Direction) -> str:
        return figure_id(self._link, self._traffic, way)

    def _accepted(self, way: Direction) -> Baseline | None:
        """Baselines are those of links at full rate; on others they hold nothing."""
        return self._plan.known.baseline(self._id(way)) if self._link.scale == 1 else None

    def _limit(
        self,
        way: Direction,
        oracle: Oracle,
        metrics: Sequence[Metric],
        baseline: Baseline | None,
        end: int = 0,
        offered: Bitrate | None = None,
    ) -> Limit | None:
        """The one limit that a rate is judged by; ``metrics`` are the minima that may speak of it."""
        most = oracle.goodput if offered is None else min(oracle.goodput, offered)
        figure = None if baseline is None else baseline.figure
        name = self._topology.name
        return goodput_limit(*self._limits(way, end), name, way, self._both_ways, most, figure, metrics)

    def _strictest(self, metric: Metric) -> Limit | None:
        """Of the limits of each direction, since all flows share alike."""
        name = self._topology.name
        ways = self._traffic.direction.parts
        each = (most_specific(*self._limits(way), name, way, self._both_ways, metric) for way in ways)
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
    ) -> Ruling:
        """On the sum of these flows."""
        ruling = rule_on(
            attempts_of(self._tries, chosen),
            sum_of([self._pooled(index) for index in chosen]),
            least_since_start([[one.flows[index].flow for index in chosen] for one in self._shown]),
            oracle,
            limit,
            self._plan.known.noise(self._id(way)),
            self._plan.profile,
            self._bounds.offered[way] if len(chosen) == 1 else None,
            self._plan.link_ups,
            baseline,
            self._plan.error_rate,
        )
        if ruling.wanted is not None:
            self.wanted.append(ruling.wanted)
        return ruling

    def _finish(
        self, record: DirectionRecord, chosen: Sequence[int], way: Direction, accepted: Baseline | None
    ) -> DirectionRecord:
        """The record with what the traffic cost, the worse verdict of both, and the difference from the baseline."""
        plan = self._plan
        extras, unsettled = judged_extras(
            self._link, self._traffic, self._tries, chosen, way, plan.limits, plan.profile
        )
        if unsettled:
            self.wanted.append(Fresh.CONNECTION)
        known = [Verdict(extra["verdict"]) for extra in extras if extra["verdict"] != Verdict.SKIPPED]
        record["verdict"] = worst([Verdict(record["verdict"]), *known]).value
        record["extras"] = extras
        if accepted is not None:
            record["baseline"] = self._difference(chosen, way, accepted)
        return record

    def _difference(self, chosen: Sequence[int], way: Direction, accepted: Baseline) -> BaselineRecord:
        """Of the connections of this run, which are runs, from those behind the baseline."""
        runs = [sum_of([one.flows[index].flow for index in chosen]) for one in self._tries if not one.excluded]
        name = self._topology.name
        tolerance = most_specific(*self._limits(way), name, way, self._both_ways, Metric.TOLERANCE)
        bound = tolerance.bound if tolerance is not None else None
        found = compare(runs, accepted, bound if isinstance(bound, Tolerance) else DEFAULT_TOLERANCE)
        return {
            "figure_bps": accepted.figure.bps,
            "runs": len(accepted.runs),
            "date": accepted.date,
            "builds": list(accepted.builds),
            "difference": found.relative,
            "interval": None if found.low is None or found.high is None else [found.low, found.high],
            "change": str(found.change),
            "text": found.why,
        }

    def _pooled(self, index: int) -> Flow:
        return pooled([one.flows[index].flow for one in self._shown])

    def sum(self, way: Direction) -> DirectionRecord:
        """All that went this way."""
        chosen = self.counted(way)
        # Accepted baselines are those of sums, not of each of several flows.
        accepted = self._accepted(way)
        baseline = gating(accepted)
        if len(chosen) == 1:
            (only,) = chosen
            oracle = self._bounds.alone[only]
            limit = self._limit(way, oracle, (Metric.GOODPUT, Metric.SUM), baseline, offered=self._bounds.offered[way])
            ruling = self._rule(chosen, way, oracle, limit, baseline)
            record = direction_record(self._pooled(only), ruling, oracle, attempts_of(self._tries, chosen))
            return self._finish(record, chosen, way, accepted)
        oracle = self._bounds.sum(chosen)
        metrics = (Metric.SUM, Metric.GOODPUT) if self._topology.shared else (Metric.SUM,)
        limit = self._limit(way, oracle, metrics, baseline)
        ruling = self._rule(chosen, way, oracle, limit, baseline)
        flows = [self._pooled(index) for index in chosen]
        record = sum_record(flows, ruling, oracle, attempts_of(self._tries, chosen))
        return self._finish(record, chosen, way, accepted)

    def flow(self, index: int) -> FlowRecord:
        """One of several flows; judged by itself where it shares no NIC."""
        measured = self._flows[index]
        ends = self._link.combination.ends
        oracle = self._bounds.alone[index]
        fair = self._bounds.fair[index]
        limit = None
        if not self._topology.shared:
            offered = self._bounds.offered[measured.way]
            limit = self._limit(measured.way, oracle, (Metric.GOODPUT,), None, measured.run.a, offered)
        ruling = self._rule([index], measured.way, oracle, limit)
        flow = self._pooled(index)
        if self._topology.shared and ruling.judgement.verdict is Verdict.PASS:
            part = flow.goodput.bps / fair.bps
            reason = f"{part * 100:.1f} % of its fair rate {fair}"
            ruling = replace(ruling, judgement=Judgement(Verdict.PASS, None, None, reason))
        return {
            **direction_record(flow, ruling, oracle, attempts_of(self._tries, [index])),
            "name": f"{ends[measured.sender]}>{ends[measured.receiver]}",
            "sender": str(ends[measured.sender]),
            "receiver": str(ends[measured.receiver]),
            "direction": str(measured.way) if measured.run.counted else None,
            "fair_bps": fair.bps,
        }

    def _evenness(self, flows: Sequence[Flow]) -> Evenness:
        return evenness((flow.goodput for flow in flows), self._bounds.fair)

    def evenness(self) -> EvennessRecord:
        """How all flows shared."""
        names = [f"{self._link.ends[f.sender].endpoint}>{self._link.ends[f.receiver].endpoint}" for f in self._flows]
        limits = self._strictest(Metric.SHARE), self._strictest(Metric.FAIRNESS)
        each = [
            judge_evenness(self._evenness([flow.flow for flow in one.flows]), names, *limits)
            for one in self._tries
            if not one.excluded
        ]
        verdict = confirm([judged.verdict in _HELD for judged in each], self._plan.profile)
        if verdict is None:
            self.wanted.append(Fresh.CONNECTION)
        found = self._evenness([self._pooled(index) for index in range(len(self._flows))])
        judgement = judge_evenness(found, names, *limits)
        reason = judgement.reason
        missed = [judged for judged in each if judged.verdict not in _HELD]
        if missed and judgement.verdict in _HELD:
            reason = f"{reason}; in {len(missed)} of {len(each)} connections {missed[-1].reason}"
        return {
            "least_share": found.least,
            "least_flow": names[found.least_flow],
            "jain": found.jain,
            "rule": judgement.rule,
            "verdict": (judgement.verdict if verdict in (None, Verdict.PASS) else verdict).value,
            "reason": reason,
        }
