"""Connections of one measurement and their flows: sums, physical limits alone and together, how evenly they share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_pinet.judge.oracle import TOLERANCE, Oracle, PacketSizes, pcie_context, physical_limit, window_bound
from pytest_pinet.judge.starts import shows_level, started
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.evidence import Conditions
from pytest_pinet.model.judgement import EvennessJudgement
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.measurement import Flow, Path, Sockets
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict, worst

# A flow with a rate limit that is more above this limit made good for an interruption. Its sender keeps the mean since
# the start (facts: 400.6 of 400 Mbit/s), so that the rate after an interruption is that of the wire.
CAUGHT_UP = 0.02
# TCP that was held back by one loss may be so much above the physical limit, too.
_CAUGHT_UP = "the flow caught up after an interruption"
# The bytes that a sender writes at once if the traffic sets no length.
_TCP_PIECE, _DATAGRAM = 128 * 1024, 1500


def without_catching_up(
    connections: Sequence[Connection],
    traffic: Traffic,
    offered: Mapping[Direction, Bitrate | None],
    limits: Sequence[Bitrate],
) -> list[Connection]:
    """Return the connections, and exclude each in which a counted flow caught up after an interruption.

    The interruption is not counted, but what it delayed is: the value is above the rate limit in ``offered``, or above
    the physical limit of the flow (``limits``, by its index), though the rate since the start is not.
    """
    piece = traffic.length or (_DATAGRAM if traffic.udp else _TCP_PIECE)
    held_back = TOLERANCE if traffic.udp else CAUGHT_UP

    def why(one: Connection) -> str:
        for measured, limit in zip(one.flows, limits, strict=True):
            flow, sent = measured.flow, offered[measured.way]
            if not measured.run.counted or not flow.seconds:
                continue
            room_bps = 8 * traffic.streams * piece / flow.seconds
            above = ""
            if sent is not None and flow.goodput.bps > sent.bps * (1 + CAUGHT_UP) + room_bps:
                above = f"the sender's rate limit {sent}"
            elif flow.goodput.bps > limit.bps * (1 + held_back) >= flow.since_start.bps:
                above = f"the physical limit {limit}"
            if above:
                return f"{flow.goodput} in direction {measured.way} is above {above}: {_CAUGHT_UP}"
        return ""

    return [one if one.excluded else replace(one, excluded=why(one)) for one in connections]


def showing_a_level(connections: Sequence[Connection]) -> list[Connection]:
    """Return the connections that count: not excluded, and all their flows show their level.

    If none counts, all are shown anyway.
    """
    counted = [one for one in connections if not one.excluded]
    if not counted:
        return list(connections)
    of_flows = [
        shows_level([started(one.flows[index].flow.events, one.flows[index].flow.samples) for one in counted])
        for index in range(len(counted[0].flows))
    ]
    return [one for one, shown in zip(counted, zip(*of_flows, strict=True), strict=True) if all(shown)] or counted


def pooled(flows: Sequence[Flow]) -> Flow:
    """Return one direction over several connections: the counted samples in turn, and the sums of the counts.

    A count is None if one connection does not know it. ``streams`` and ``jitter_ms`` come from the last connection.
    """
    last = flows[-1]
    if len(flows) == 1:
        return last
    return replace(
        last,
        samples=tuple(sample for flow in flows for sample in flow.counted),
        events=(),
        retransmits=total([flow.retransmits for flow in flows]),
        lost_packets=total([flow.lost_packets for flow in flows]),
        packets=total([flow.packets for flow in flows]),
        sent_bytes=total([flow.sent_bytes for flow in flows]),
    )


def least_since_start(connections: Sequence[Sequence[Flow]]) -> Bitrate:
    """Return the rate of the sum from the first byte on, in the connection in which it was lowest."""
    return Bitrate(min(sum(flow.since_start.bps for flow in flows) for flows in connections))


def total(values: Sequence[int | None]) -> int | None:
    """Return the sum; None if one value is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def sum_of(flows: Sequence[Flow]) -> Bitrate:
    """Return the goodput of all flows together."""
    return Bitrate(sum(flow.goodput.bps for flow in flows))


# Linux doubles the requested buffers, to have room for headers, too. More payload than this is never on its way.
BUFFERS_PER_WINDOW = 2


class Bounds:
    """The limits of the flows of one link and traffic, by their index.

    ``alone`` is the physical limit of each flow, ``fair`` its max-min fair rate among all. ``offered`` is the rate
    limit of each flow by direction (None: no limit). ``conditions`` of the ends, by their numbers, are only reported:
    the rate that PCIe packets allow comes from a model. ``repeats`` are the same flows in other connections. With a
    requested window, a flow has at most its buffers on its way in the shortest round trip of all connections.
    """

    def __init__(
        self,
        link: LinkFacts,
        traffic: Traffic,
        flows: Sequence[MeasuredFlow],
        conditions: Sequence[Conditions] = (),
        repeats: Sequence[Sequence[MeasuredFlow]] = (),
    ) -> None:
        self._link = link
        self._traffic = traffic
        self._flows = flows
        self._conditions = conditions
        self._connections = [flows, *repeats]
        self.offered = {
            way: None if rate is None else Bitrate(traffic.streams * rate.bps)
            for way in Direction
            for rate in [traffic.bitrate_of(way)]
        }
        self.alone = [self._alone(index) for index in range(len(flows))]
        self.fair = self._fair(range(len(flows)))

    def sum(self, chosen: Sequence[int]) -> Oracle:
        """Return the limit of the sum of these flows. Others are ignored: they may get less than their fair rate."""
        slowest = min((self.alone[index] for index in chosen), key=lambda oracle: oracle.goodput)
        because = f"{len(chosen)} flows; the slowest path is a {slowest.because}"
        return Oracle(Bitrate(sum(rate.bps for rate in self._fair(chosen))), because)

    def _physical(self, path: Path, end: int) -> Oracle:
        packets = PacketSizes.of(path, self._traffic)
        return physical_limit(path.speed_mbps, packets, self._link.ends[end].bus, self._traffic.direction)

    def _alone(self, index: int) -> Oracle:
        """Return the lowest limit of everything that a flow crosses and of its window."""
        flow = self._flows[index]
        path = self._link.path_between(flow.sender, flow.receiver)
        crossed = self._link.crossed(flow.sender, flow.receiver)
        wire = min((self._physical(path, end) for end in crossed), key=lambda oracle: oracle.goodput)
        window = self._window_limit(index)
        slowest = wire if window is None else min(wire, window, key=lambda oracle: oracle.goodput)
        contexts = [self._pcie(end, path, slowest.goodput) for end in crossed]
        contexts.append(self._window_context(index) if slowest is wire else None)
        return replace(slowest, because="; ".join([slowest.because, *(one for one in contexts if one is not None)]))

    def _pcie(self, end: int, path: Path, limit: Bitrate) -> str | None:
        """Return a sentence about the PCIe bus of this end, if the bus allows less than the limit."""
        link = self._conditions[end].pcie if self._conditions else None
        if link is None:
            return None
        context = pcie_context(limit, link, PacketSizes.of(path, self._traffic))
        return None if context is None else f"{context} at {self._link.ends[end]}"

    @property
    def _window(self) -> int | None:
        """The requested window of all streams together (bytes); None for UDP, which has no window."""
        traffic = self._traffic
        return None if traffic.window is None or traffic.udp else traffic.streams * traffic.window

    def _window_limit(self, index: int) -> Oracle | None:
        """Return the limit of the buffers in the shortest round trip, under any load; None if it is not known."""
        shortest = [one.rtt_min_s for one in self._sockets(index) if one.rtt_min_s]
        if self._window is None or not shortest:
            return None
        bound = window_bound(BUFFERS_PER_WINDOW * self._window, min(shortest))
        return replace(bound, because=f"buffers of twice the requested window: {bound.because}")

    def _window_context(self, index: int) -> str | None:
        """Return a sentence about the window in the round trips under load, which may explain a value below the limit.

        This is not a limit: a flow that fills its window itself makes these round trips long.
        """
        flow = self._flows[index].flow
        rtt_s = flow.rtt_s or next((one.rtt_s for one in self._sockets(index) if one.rtt_s), None)
        return None if self._window is None or not rtt_s else window_bound(self._window, rtt_s).because

    def _sockets(self, index: int) -> list[Sockets]:
        return [one for flows in self._connections if (one := flows[index].flow.sockets) is not None]

    def _fair(self, chosen: Sequence[int]) -> list[Bitrate]:
        """Return the fair rates of these flows among themselves."""
        capacities: dict[Hashable, float] = {}
        crossed: list[list[Hashable]] = []
        for index in chosen:
            flow = self._flows[index]
            path = self._link.path_between(flow.sender, flow.receiver)
            used: dict[Hashable, float] = {}
            for position, end in enumerate(self._link.crossed(flow.sender, flow.receiver)):
                # Traffic enters and leaves again through the NICs of a forwarding node.
                own = replace(path, speed_mbps=self._link.ends[end].speed_mbps)
                used[end, "out" if position % 2 == 0 else "in"] = self._physical(own, end).goodput.bps
            for uplink in self._link.uplinks_between(flow.sender, flow.receiver):
                slowest = replace(path, speed_mbps=uplink.speed_mbps)
                cable = uplink.name, self._link.ends[flow.receiver].switch
                used[cable] = self._physical(slowest, flow.sender).goodput.bps
            if (window := self._window_limit(index)) is not None:
                used["window", index] = window.goodput.bps
            if (offered := self.offered[flow.way]) is not None:
                used["offered", index] = offered.bps
            capacities |= used
            crossed.append(list(used))
        return [Bitrate(rate) for rate in max_min_shares(capacities, crossed)]


Resource = TypeVar("Resource", bound=Hashable)


def max_min_shares(capacities: Mapping[Resource, float], flows: Sequence[Sequence[Resource]]) -> list[float]:
    """Return the max-min fair rate of each flow, in the unit of ``capacities`` (Bertsekas and Gallager, 6.5.2).

    ``flows`` names the resources that each flow uses. The method (Data Networks, 6.5.2) is progressive filling: all
    rates grow together until a resource is full. Its flows then keep their rate, and the other flows grow on.
    """
    left = dict(capacities)
    rates = [0.0] * len(flows)
    growing = {index for index, used in enumerate(flows) if used}
    while growing:
        users = {r: sum(r in flows[i] for i in growing) for r in left}
        step = min(left[r] / count for r, count in users.items() if count)
        for index in growing:
            rates[index] += step
        for resource, count in users.items():
            left[resource] -= step * count
        # Rounding errors must not keep a full resource open.
        full = {r for r, count in users.items() if count and left[r] <= 1e-9 * max(capacities[r], 1e-300)}
        growing -= {index for index in growing if any(r in full for r in flows[index])}
    return rates


def jain(values: Sequence[float]) -> float:
    """Return Jain's index ``(sum x)^2 / (n sum x^2)`` (1984): 1 if all are equal, 1/n if one has all, 0 for zeros."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def judge_evenness(
    goodputs: Sequence[Bitrate], fair: Sequence[Bitrate], names: Sequence[str], *limits: Limit | None
) -> EvennessJudgement:
    """Judge how evenly flows shared, by ``limits`` on the least share and Jain's index; without one any value passes.

    The shares are the goodputs of the flows over their ``fair`` rates, which must be above 0.
    """
    parts = [got.bps / should.bps for got, should in zip(goodputs, fair, strict=True)]
    least, flow = min(zip(parts, names, strict=True), key=lambda part: part[0])
    text, index = f"{flow} got {least * 100:.3g} % of its fair share", jain(parts)
    thresholds = tuple(one for limit in limits if limit is not None and (one := limit.threshold()) is not None)
    verdicts, reasons = [Verdict.PASS], []
    for one in thresholds:
        is_index = one.metric is Metric.FAIRNESS
        verdict, _ = one.judge(index if is_index else least)
        verdicts.append(verdict)
        what = f"Jain's index {index:.3f} is" if is_index else f"{text},"
        wanted = f"{one.number:.3g}" if is_index else str(Share(one.number))
        if one.marginal is not None and verdict is Verdict.MARGINAL:
            reasons.append(f"{what} within the marginal band of {Share(one.marginal)} above the limit {wanted}")
        elif verdict is not Verdict.PASS:
            reasons.append(f"{what} below the limit {wanted}")
    reason = "; ".join(reasons) or f"{text}, Jain's index {index:.3f}"
    return EvennessJudgement(least, flow, index, thresholds, worst(verdicts), reason)
