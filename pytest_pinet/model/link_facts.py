"""The facts about a link as plain values; judging knows nothing else about a lab."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Uplink
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.topology import Topology


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link; its text is ``node:interface``.

    ``nic`` is the word for ids. ``negotiated_mbps`` is the speed that the driver reports (None: it reports none),
    ``cabled_mbps`` the speed in the lab file, ``rated_mbps`` the highest speed of the NIC. ``duplex`` is None if the
    driver does not report it.
    """

    node: str
    interface: str
    board: str
    nic: str
    switch: str
    bus: Bus
    rated_mbps: int
    cabled_mbps: int
    negotiated_mbps: int | None
    duplex: str | None
    mtu: int
    timestamps: bool

    @property
    def speed_mbps(self) -> int:
        """The speed that the driver reports, or else the speed in the lab file."""
        return self.negotiated_mbps or self.cabled_mbps

    def __str__(self) -> str:
        return f"{self.node}:{self.interface}"


@dataclass(frozen=True)
class LinkFacts:
    """One link; ``ends`` are numbered as in the topology, and end 0 is under test.

    ``uplinks`` has the cables between switches, for each segment of the topology. ``scale`` is the share of its rate at
    which the link runs; values are converted to full rate.
    """

    combination: CombinationId
    topology: Topology
    ends: tuple[LinkEnd, ...]
    uplinks: tuple[tuple[Uplink, ...], ...]
    scale: float = 1.0

    @property
    def path(self) -> Path:
        return self.path_between(0, 1)

    def crossed(self, a: int, b: int) -> tuple[int, ...]:
        """Return the ends that traffic from ``a`` to ``b`` crosses, in order, including both NICs of a forwarder."""
        if self.topology.forwards and {a, b} == {1, 3}:
            return (3, 2, 0, 1) if a == 3 else (1, 0, 2, 3)
        return (a, b)

    def uplinks_between(self, a: int, b: int) -> tuple[Uplink, ...]:
        """Return the cables between switches that traffic between these two ends crosses."""
        crossed = self.crossed(a, b)
        found: list[Uplink] = []
        for segment, uplinks in zip(self.topology.segments, self.uplinks, strict=True):
            here = {self.ends[index].switch for index in crossed if index in segment}
            found += uplinks if len(here) > 1 else ()
        return tuple(found)

    def path_between(self, a: int, b: int) -> Path:
        """Return the path between two ends: the lowest speed and MTU of all interfaces and uplinks on it."""
        found = [self.ends[index] for index in self.crossed(a, b)]
        speeds = [end.speed_mbps for end in found] + [uplink.speed_mbps for uplink in self.uplinks_between(a, b)]
        return Path(
            speed_mbps=min(speeds),
            duplex="full" if all(end.duplex == "full" for end in found) else None,
            mtu=min(end.mtu for end in found),
            timestamps=all(end.timestamps for end in found),
        )
