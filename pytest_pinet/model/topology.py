"""The topologies, and the facts about a link of one: judging knows nothing else about a lab.

The ends of a topology are numbered; 0 is always the interface under test.

=========  ============================================================  ====================================
pair       0 and one peer
pairs:N    N disjoint pairs at once: 0 and 1, 2 and 3, ...               a segment for each pair
opposed    two pairs at once; the second sends the opposite way          a segment for each pair
incast:N   N senders to one receiver, 0                                  one segment
outcast:N  one sender, 0, to N receivers                                 one segment
mesh:N     N ends; each sends to and receives from all others at once    one segment
chain      0 and 2 are two NICs of one node that forwards between        0 with 1, 2 with 3
           1 and 3
=========  ============================================================  ====================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import Uplink
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.traffic import Direction

LARGEST = 64


@dataclass(frozen=True)
class TopologyFlow:
    """Traffic between two ends, given by their numbers; ``direction`` is seen from ``a``.

    ``counted``: the flow is part of the sum for the device under test.
    """

    a: int
    b: int
    direction: Direction
    counted: bool = True


_OPPOSITE = {Direction.TX: Direction.RX, Direction.RX: Direction.TX, Direction.BIDIR: Direction.BIDIR}


@dataclass(frozen=True)
class Topology:
    """One topology; ``name`` is used in ids (``incast:5``).

    ``segments`` are the groups of ends that can reach only each other. ``pairs`` are the ends of each flow. If flows
    are ``shared``, they share a NIC, so a limit of this NIC applies only to their sum. ``directions`` are the possible
    directions, the default first.
    """

    name: str
    segments: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    shared: bool = False
    directions: tuple[Direction, ...] = tuple(Direction)

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    @property
    def ends(self) -> int:
        return sum(map(len, self.segments))

    @property
    def forwards(self) -> bool:
        """Whether ends 0 and 2 are NICs of one node that forwards between them."""
        return self.kind == "chain"

    @property
    def nodes(self) -> int:
        return self.ends - self.forwards

    def runs(self, direction: Direction) -> tuple[TopologyFlow, ...]:
        """Return all flows that run at once. Raises ValueError for a direction that this topology does not have."""
        if direction not in self.directions:
            accepted = " or ".join(map(str, self.directions))
            raise ValueError(
                f"direction {str(direction)!r} is not possible in topology {self.name}; accepted: {accepted}"
            )
        opposed = self.kind == "opposed"
        return tuple(
            # Of flows that share a NIC, the sum of the device under test has only its own.
            TopologyFlow(a, b, _OPPOSITE[direction] if opposed and a else direction, counted=not self.shared or a == 0)
            for a, b in self.pairs
        )

    def ways(self, requested: Direction | None = None) -> list[Direction]:
        """Return the requested direction, or the default ones of a command. Raises ValueError for an impossible one."""
        if requested is not None:
            self.runs(requested)
            return [requested]
        return [way for way in (Direction.TX, Direction.RX) if way in self.directions] or list(self.directions)

    def __str__(self) -> str:
        return self.name


def _pairs(name: str, count: int) -> Topology:
    segments = tuple((2 * i, 2 * i + 1) for i in range(count))
    return Topology(name, segments, segments)


def _star(name: str, count: int, direction: Direction) -> Topology:
    ends = tuple(range(count + 1))
    return Topology(name, (ends,), tuple((0, other) for other in ends[1:]), True, (direction,))


def _mesh(name: str, count: int) -> Topology:
    ends = tuple(range(count))
    return Topology(name, (ends,), tuple(combinations(ends, 2)), True, (Direction.BIDIR,))


# Topologies without a number, and topologies with a number: the smallest number (the default) and the factory.
_FIXED: dict[str, Topology] = {
    "pair": _pairs("pair", 1),
    "opposed": _pairs("opposed", 2),
    # Direction tx of end 0: traffic that leaves through end 0 goes from end 3 to end 1.
    "chain": Topology("chain", ((0, 1), (2, 3)), ((3, 1),)),
}
_COUNTED: dict[str, tuple[int, Callable[[str, int], Topology]]] = {
    "pairs": (2, _pairs),
    "incast": (2, lambda name, count: _star(name, count, Direction.RX)),
    "outcast": (2, lambda name, count: _star(name, count, Direction.TX)),
    "mesh": (3, _mesh),
}
KINDS: tuple[str, ...] = ("pair", "pairs", "incast", "outcast", "mesh", "chain", "opposed")
FORM = "pair, pairs:N, incast:N, outcast:N, mesh:N, chain or opposed"


def parse_topology(text: str) -> Topology:
    """Parse ``pair`` or ``incast:5``. Without a number, the smallest is used. Raises ValueError."""
    kind, colon, number = text.partition(":")
    if kind in _FIXED and not colon:
        return _FIXED[kind]
    if kind not in _COUNTED:
        raise ValueError(f"{text!r} is not a topology; expected {FORM}")
    least, make = _COUNTED[kind]
    if not colon:
        return make(f"{kind}:{least}", least)
    if not number.isascii() or not number.isdigit() or not least <= int(number) <= LARGEST:
        example = f"{kind}:{least + 1}"
        raise ValueError(f"{text!r}: the N of topology {kind}:N must be {least} to {LARGEST}, such as {example!r}")
    return make(f"{kind}:{int(number)}", int(number))


def all_names() -> list[str]:
    """Return every possible name of a topology, for matching globs."""
    counted = [f"{kind}:{n}" for kind, (least, _) in _COUNTED.items() for n in range(least, LARGEST + 1)]
    return [*_FIXED, *counted]


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
            duplex=next((end.duplex for end in found if end.duplex != "full"), "full"),
            mtu=min(end.mtu for end in found),
            timestamps=all(end.timestamps for end in found),
        )
