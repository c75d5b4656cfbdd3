"""From measured flows to judged figures: sums, flows, evenness."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.judge.flows import evenness, fair_rates, judge_evenness
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.oracle import Oracle, physical_limit
from pytest_pinet.judge.verdict import Judgement, judge
from pytest_pinet.lab.link import Link
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.measurement import Flow, Path
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.topology import Run
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.record import (
    DirectionRecord,
    EvennessRecord,
    FlowRecord,
    direction_record,
    sum_record,
)


@dataclass(frozen=True)
class MeasuredFlow:
    """A flow from end ``sender`` to end ``receiver``; ``way`` is its direction seen from ``run.a``."""

    sender: int
    receiver: int
    run: Run
    way: Direction
    flow: Flow


@dataclass(frozen=True)
class Figured:
    """Everything that was judged; ``verdict`` is the worst of it and ``reason`` says why."""

    verdict: Verdict
    reason: str
    directions: Mapping[str, DirectionRecord]
    flows: Sequence[FlowRecord]
    evenness: EvennessRecord | None


def figures(link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow], limits: Sequence[Limit]) -> Figured:
    """Judge the sums of each direction, and where several flows ran at once each of them and how they shared."""
    judging = _Judging(link, traffic, flows, limits)
    directions = {str(way): judging.sum(way) for way in (Direction.TX, Direction.RX) if judging.counted(way)}
    several = len(link.combination.topology.runs(traffic.direction)) > 1
    records = [judging.flow(index) for index in range(len(flows))] if several else []
    even = judging.evenness() if several else None
    judged = [(d["verdict"], f"{name}: {d['reason']}") for name, d in directions.items()]
    judged += [(f["verdict"], f"{f['name']}: {f['reason']}") for f in records]
    judged += [(even["verdict"], even["reason"])] if even is not None else []
    verdict, reason = min(judged, key=lambda entry: SEVERITY.index(Verdict(entry[0])))
    return Figured(Verdict(verdict), reason, directions, records, even)


class _Judging:
    def __init__(self, link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow], limits: Sequence[Limit]) -> None:
        self._link = link
        self._topology = link.combination.topology
        self._flows = flows
        self._limits = limits
        self._offered = None if traffic.bitrate is None else Bitrate(traffic.streams * traffic.bitrate.bps)
        self._traffic = traffic
        self._oracles = [self._oracle(flow) for flow in flows]
        self._fair = self._fair_rates(range(len(flows)))

    @property
    def _both_ways(self) -> bool:
        return self._traffic.direction is Direction.BIDIR

    def counted(self, way: Direction) -> list[int]:
        """The flows whose sum is this direction's figure."""
        return [i for i, flow in enumerate(self._flows) if flow.run.counted and flow.way is way]

    def _physical(self, path: Path, end: int) -> Oracle:
        traffic = self._traffic
        return physical_limit(
            path.speed_mbps,
            path.mtu,
            path.timestamps,
            self._link.ends[end].endpoint.interface.bus,
            traffic.direction,
            traffic.udp,
            traffic.length if traffic.udp else traffic.mss,
        )

    def _oracle(self, flow: MeasuredFlow) -> Oracle:
        """What this flow could get alone: the slowest of what it crosses."""
        path = self._link.path_between(flow.sender, flow.receiver)
        crossed = self._link.crossed(flow.sender, flow.receiver)
        return min((self._physical(path, end) for end in crossed), key=lambda oracle: oracle.goodput)

    def _fair_rates(self, chosen: Sequence[int]) -> list[Bitrate]:
        """Of these flows among themselves."""
        capacities: dict[Hashable, float] = {}
        crossed: list[list[Hashable]] = []
        for flow in (self._flows[index] for index in chosen):
            path = self._link.path_between(flow.sender, flow.receiver)
            names: list[Hashable] = []
            for position, end in enumerate(self._link.crossed(flow.sender, flow.receiver)):
                # Through the NICs of a node that forwards it goes in and out again.
                nic: Hashable = (end, "out" if position % 2 == 0 else "in")
                speed = self._link.states[end].speed_mbps or self._link.ends[end].endpoint.interface.speed_mbps
                capacities[nic] = self._physical(replace(path, speed_mbps=speed), end).goodput.bps
                names.append(nic)
            for uplink in self._link.uplinks_between(flow.sender, flow.receiver):
                cable: Hashable = (uplink.name, self._link.ends[flow.receiver].endpoint.interface.port.switch)
                slowest = replace(path, speed_mbps=uplink.speed_mbps)
                capacities[cable] = self._physical(slowest, flow.sender).goodput.bps
                names.append(cable)
            crossed.append(names)
        return fair_rates(capacities, crossed, self._offered)

    def _limit(self, way: Direction, metric: Metric, end: int = 0) -> Limit | None:
        """The limit that holds; files speak of the board and NIC of ``end``, whoever runs the test of all of it."""
        here = self._link.combination
        limits = self._limits
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

    def sum(self, way: Direction) -> DirectionRecord:
        """All that went this way."""
        chosen = self.counted(way)
        flows = [self._flows[index].flow for index in chosen]
        if len(flows) == 1:
            (only,) = chosen
            limit = self._limit(way, Metric.GOODPUT)
            if limit is None:
                limit = self._limit(way, Metric.SUM)
            judgement = judge(
                flows[0].goodput, self._oracles[only], limit, self._offered, since_start=flows[0].since_start
            )
            return direction_record(flows[0], judgement, self._oracles[only])
        total = Bitrate(sum(flow.goodput.bps for flow in flows))
        # Without the flows that are not part of the sum: they may get less than their fair rate, and these more.
        most = sum(rate.bps for rate in self._fair_rates(chosen))
        oracle = Oracle(Bitrate(most), self._because(chosen))
        limit = self._limit(way, Metric.SUM)
        if limit is None and self._topology.shared:
            limit = self._limit(way, Metric.GOODPUT)
        since_start = Bitrate(sum(flow.since_start.bps for flow in flows))
        return sum_record(flows, judge(total, oracle, limit, since_start=since_start), oracle)

    def _because(self, chosen: Sequence[int]) -> str:
        slowest = min((self._oracles[index] for index in chosen), key=lambda oracle: oracle.goodput)
        return f"{len(chosen)} flows; the slowest path is a {slowest.because}"

    def flow(self, index: int) -> FlowRecord:
        """One of several flows; judged by itself where it shares no NIC."""
        measured = self._flows[index]
        ends = self._link.combination.ends
        oracle = self._oracles[index]
        limit = None
        if not self._topology.shared:
            limit = self._limit(measured.way, Metric.GOODPUT, end=measured.run.a)
        flow = measured.flow
        judgement = judge(flow.goodput, oracle, limit, self._offered, since_start=flow.since_start)
        if self._topology.shared and judgement.verdict is Verdict.PASS:
            part = measured.flow.goodput.bps / self._fair[index].bps
            judgement = Judgement(Verdict.PASS, None, None, f"{part * 100:.1f} % of its fair rate {self._fair[index]}")
        return {
            **direction_record(measured.flow, judgement, oracle),
            "name": f"{ends[measured.sender]}>{ends[measured.receiver]}",
            "sender": str(ends[measured.sender]),
            "receiver": str(ends[measured.receiver]),
            "direction": str(measured.way) if measured.run.counted else None,
            "fair_bps": self._fair[index].bps,
        }

    def evenness(self) -> EvennessRecord:
        """How all flows shared."""
        names = [f"{self._link.ends[f.sender].endpoint}>{self._link.ends[f.receiver].endpoint}" for f in self._flows]
        found = evenness((f.flow.goodput for f in self._flows), self._fair)
        judgement = judge_evenness(found, names, self._strictest(Metric.SHARE), self._strictest(Metric.FAIRNESS))
        return {
            "least_share": found.least,
            "least_flow": names[found.least_flow],
            "jain": found.jain,
            "rule": judgement.rule,
            "verdict": judgement.verdict.value,
            "reason": judgement.reason,
        }
