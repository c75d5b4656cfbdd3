"""From the tries of one measurement to judged figures: sums, flows, evenness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.bounds import Bounds
from pytest_pinet.costs import judged_extras
from pytest_pinet.judge.confirm import confirm
from pytest_pinet.judge.flows import Evenness, evenness, judge_evenness
from pytest_pinet.judge.gate import Ruling, rule_on
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.noise import Noise
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.rules_goodput import goodput_rule
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.lab.link import Link
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst
from pytest_pinet.report.record import (
    DirectionRecord,
    EvennessRecord,
    FlowRecord,
    direction_record,
    sum_record,
)
from pytest_pinet.tries import Try, attempts_of, least_since_start, pooled, sum_of


@dataclass(frozen=True)
class Plan:
    """How a measurement is judged: its limits, what traffic may be spent on it, and how much it is known to vary.

    ``noise`` and ``baseline`` (the accepted figure, None where there is none) are asked by a figure's id
    (``pi4b:onboard/pair/tcp-P1-tx``). ``link_ups``: whether a
    suspicion may take the link of the device under test down and up again.
    """

    limits: Sequence[Limit]
    profile: Profile
    noise: Callable[[str], Noise]
    baseline: Callable[[str], Bitrate | None]
    link_ups: bool = True


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


def figures(link: Link, traffic: Traffic, tries: Sequence[Try], plan: Plan) -> Figured:
    """Judge the sums of each direction, and where several flows ran at once each of them and how they shared."""
    judging = _Judging(link, traffic, tries, plan)
    directions = {str(way): judging.sum(way) for way in (Direction.TX, Direction.RX) if judging.counted(way)}
    several = len(link.combination.topology.runs(traffic.direction)) > 1
    records = [judging.flow(index) for index in range(len(tries[0].flows))] if several else []
    even = judging.evenness() if several else None
    judged = [(d["verdict"], f"{name}: {d['reason']}") for name, d in directions.items()]
    judged += [(e["verdict"], f"{name}: {e['reason']}") for name, d in directions.items() for e in d["extras"]]
    judged += [(f["verdict"], f"{f['name']}: {f['reason']}") for f in records]
    judged += [(even["verdict"], even["reason"])] if even is not None else []
    verdict, reason = min(judged, key=lambda entry: SEVERITY.index(Verdict(entry[0])))
    if verdict == Verdict.INVALID:
        # Traffic that measures something else gets no better with more of it.
        judging.wanted.clear()
    wanted = None
    if judging.wanted:
        wanted = Fresh.LINK if Fresh.LINK in judging.wanted else Fresh.CONNECTION
    return Figured(Verdict(verdict), reason, directions, records, even, wanted)


class _Judging:
    def __init__(self, link: Link, traffic: Traffic, tries: Sequence[Try], plan: Plan) -> None:
        self._link = link
        self._topology = link.combination.topology
        self._traffic = traffic
        self._tries = tries
        # What gives no figure is evidence only; where nothing gives one, that is all there is to show.
        self._shown = [one for one in tries if not one.excluded] or tries
        self._flows = tries[0].flows
        self._plan = plan
        self._bounds = Bounds(link, traffic, self._flows)
        self.wanted: list[Fresh] = []

    @property
    def _both_ways(self) -> bool:
        return self._traffic.direction is Direction.BIDIR

    def counted(self, way: Direction) -> list[int]:
        """The flows whose sum is this direction's figure."""
        return [i for i, flow in enumerate(self._flows) if flow.run.counted and flow.way is way]

    def _limit(self, way: Direction, metric: Metric, end: int = 0) -> Limit | None:
        """The limit that holds; files speak of the board and NIC of ``end``, whoever runs the test of all of it."""
        here = self._link.combination
        limits = self._plan.limits
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
        return most_specific(limits, board, nic, self._topology.name, way, self._both_ways, metric)

    def _strictest(self, metric: Metric) -> Limit | None:
        """Of the limits of each direction, since all flows share alike."""
        found = [limit for way in self._traffic.direction.parts if (limit := self._limit(way, metric)) is not None]

        def fraction(limit: Limit) -> float:
            return limit.minimum.fraction if isinstance(limit.minimum, Share) else 0.0

        return max(found, key=fraction, default=None)

    def _rule(self, chosen: Sequence[int], way: Direction, oracle: Oracle, limit: Limit | None) -> Ruling:
        """On the sum of these flows."""
        figure = figure_id(self._link, self._traffic, way)
        baseline = self._plan.baseline(figure)
        ruling = rule_on(
            attempts_of(self._tries, chosen),
            sum_of([self._pooled(index) for index in chosen]),
            least_since_start([[one.flows[index].flow for index in chosen] for one in self._shown]),
            oracle,
            self._stricter(limit, self._limit(way, Metric.TOLERANCE), oracle, baseline),
            self._plan.noise(figure),
            self._plan.profile,
            self._bounds.offered if len(chosen) == 1 else None,
            self._plan.link_ups,
            baseline,
        )
        if ruling.wanted is not None:
            self.wanted.append(ruling.wanted)
        return ruling

    @staticmethod
    def _stricter(limit: Limit | None, other: Limit | None, oracle: Oracle, baseline: Bitrate | None) -> Limit | None:
        """Of a minimum and a tolerance the one that asks for more: what holds it holds both."""
        found = [
            (rule.threshold, position, one)
            for position, one in enumerate((other, limit))
            if one is not None and (rule := goodput_rule(one, oracle.goodput, baseline)) is not None
        ]
        return max(found)[2] if found else limit or other

    def _extras(self, record: DirectionRecord, chosen: Sequence[int], way: Direction) -> DirectionRecord:
        """The record with what the traffic cost, and the worse verdict of both."""
        plan = self._plan
        extras, unsettled = judged_extras(
            self._link, self._traffic, self._tries, chosen, way, plan.limits, plan.profile
        )
        if unsettled:
            self.wanted.append(Fresh.CONNECTION)
        known = [Verdict(extra["verdict"]) for extra in extras if extra["verdict"] != Verdict.SKIPPED]
        record["verdict"] = worst([Verdict(record["verdict"]), *known]).value
        record["extras"] = extras
        return record

    def _pooled(self, index: int) -> Flow:
        return pooled([one.flows[index].flow for one in self._shown])

    def sum(self, way: Direction) -> DirectionRecord:
        """All that went this way."""
        chosen = self.counted(way)
        if len(chosen) == 1:
            (only,) = chosen
            oracle = self._bounds.alone[only]
            limit = self._limit(way, Metric.GOODPUT) or self._limit(way, Metric.SUM)
            ruling = self._rule(chosen, way, oracle, limit)
            record = direction_record(self._pooled(only), ruling, oracle, attempts_of(self._tries, chosen))
            return self._extras(record, chosen, way)
        oracle = self._bounds.sum(chosen)
        limit = self._limit(way, Metric.SUM)
        if limit is None and self._topology.shared:
            limit = self._limit(way, Metric.GOODPUT)
        ruling = self._rule(chosen, way, oracle, limit)
        flows = [self._pooled(index) for index in chosen]
        return self._extras(sum_record(flows, ruling, oracle, attempts_of(self._tries, chosen)), chosen, way)

    def flow(self, index: int) -> FlowRecord:
        """One of several flows; judged by itself where it shares no NIC."""
        measured = self._flows[index]
        ends = self._link.combination.ends
        oracle = self._bounds.alone[index]
        fair = self._bounds.fair[index]
        limit = None
        if not self._topology.shared:
            limit = self._limit(measured.way, Metric.GOODPUT, end=measured.run.a)
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
        verdict = confirm([judged.verdict is Verdict.PASS for judged in each], self._plan.profile)
        if verdict is None:
            self.wanted.append(Fresh.CONNECTION)
        found = self._evenness([self._pooled(index) for index in range(len(self._flows))])
        judgement = judge_evenness(found, names, *limits)
        reason = judgement.reason
        missed = [judged for judged in each if judged.verdict is not Verdict.PASS]
        if missed and judgement.verdict is Verdict.PASS:
            reason = f"{reason}; in {len(missed)} of {len(each)} connections {missed[-1].reason}"
        return {
            "least_share": found.least,
            "least_flow": names[found.least_flow],
            "jain": found.jain,
            "rule": judgement.rule,
            "verdict": (verdict or judgement.verdict).value,
            "reason": reason,
        }
