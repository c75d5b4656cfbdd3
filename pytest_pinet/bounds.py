"""What each flow over a link could get: alone, and when all are treated alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from pytest_pinet.judge.flows import fair_rates
from pytest_pinet.judge.oracle import Oracle, physical_limit
from pytest_pinet.lab.link import Link
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.tries import MeasuredFlow


class Bounds:
    """Of the flows of one link and traffic, by their index.

    ``alone`` is the physical limit of each, ``fair`` its max-min fair rate among all, ``offered`` what each was told to
    send at most (None: as much as it can).
    """

    def __init__(self, link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow]) -> None:
        self._link = link
        self._traffic = traffic
        self._flows = flows
        self.offered = None if traffic.bitrate is None else Bitrate(traffic.streams * traffic.bitrate.bps)
        self.alone = [self._alone(flow) for flow in flows]
        self.fair = self._fair(range(len(flows)))

    def sum(self, chosen: Sequence[int]) -> Oracle:
        """The limit of the sum of these flows.

        Without the others: those may get less than their fair rate, and these more.
        """
        slowest = min((self.alone[index] for index in chosen), key=lambda oracle: oracle.goodput)
        because = f"{len(chosen)} flows; the slowest path is a {slowest.because}"
        return Oracle(Bitrate(sum(rate.bps for rate in self._fair(chosen))), because)

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

    def _alone(self, flow: MeasuredFlow) -> Oracle:
        """The slowest of what it crosses."""
        path = self._link.path_between(flow.sender, flow.receiver)
        crossed = self._link.crossed(flow.sender, flow.receiver)
        return min((self._physical(path, end) for end in crossed), key=lambda oracle: oracle.goodput)

    def _fair(self, chosen: Sequence[int]) -> list[Bitrate]:
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
        return fair_rates(capacities, crossed, self.offered)
