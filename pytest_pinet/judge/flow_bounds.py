"""The highest possible rate of each flow over a link: alone, and in a fair share with the other flows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from pytest_pinet.judge.flows import max_min_shares
from pytest_pinet.judge.oracle import Oracle, pcie_context, physical_limit, window_bound
from pytest_pinet.model.connection import MeasuredFlow
from pytest_pinet.model.evidence import Conditions
from pytest_pinet.model.measurement import Path, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic

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
        traffic = self._traffic
        return physical_limit(
            path.speed_mbps,
            path.mtu,
            path.timestamps,
            self._link.ends[end].bus,
            traffic.direction,
            traffic.udp,
            traffic.segment,
        )

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
        traffic = self._traffic
        context = pcie_context(limit, link, path.mtu, path.timestamps, traffic.udp, traffic.segment)
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
