"""Chooses the interfaces for a combination. Every process that reads the same lab makes the same choice. No I/O."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from functools import cached_property

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.oracle import highest_limit
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import WALL, Interface, Lab, Uplink
from pytest_pinet.model.topology import Topology

# With these adapters both directions share a bus and the driver's work. Such a peer can limit the measurement.
_SHARED_BUSES = (Bus.USB2, Bus.USB3)
_ONBOARD = "onboard"
# The MTU that all nodes support. Jumbo frames need support from all nodes of a segment.
MTU = 1500


def capacity(interface: Interface, mtu: int | None = None) -> float:
    """Return the highest goodput of this interface in bit/s, by default with its largest MTU."""
    return highest_limit(interface.speed_mbps, mtu or interface.nic.mtu_max, interface.bus).goodput.bps


def _limits(peer: Interface, dut: Interface) -> bool:
    """Return whether the peer's bus can limit the measurement. It cannot if the device under test is on USB 2."""
    return peer.bus in _SHARED_BUSES and dut.bus is not Bus.USB2


class NotEnoughNodes(Exception):
    """The lab lacks something for this topology. The text says what. Collection handles this error."""


class EndpointSelector:
    """Chooses the ends of combinations in one lab.

    A peer must not limit the measurement: its capacity is at least that of the interface under test, if possible not
    over USB. Among equal peers the node that the fewest other combinations need is chosen, so that combinations can run
    side by side.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def combination(self, dut: Interface, topology: Topology) -> Combination:
        """Return the combination of a topology around this interface. Raises NotEnoughNodes."""
        if topology.forwards:
            chosen = self._chain(dut)
        elif topology.shared:
            chosen = [dut, *self._one_each(dut, topology)[: topology.ends - 1]]
        elif topology.ends == 2:
            chosen = [dut, self.peer(dut)]
        else:
            chosen = self._pairs(dut, topology)
        uplinks = tuple(self._uplinks([chosen[index] for index in segment]) for segment in topology.segments)
        self._check_uplinks(topology, uplinks)
        return Combination(topology, tuple(Endpoint(self._lab.nodes[i.node], i) for i in chosen), uplinks)

    def peer(self, dut: Interface) -> Interface:
        """Return the peer of a pair. Raises NotEnoughNodes."""
        found = self._peers.get(dut)
        if found is None:
            raise NotEnoughNodes(self._alone(dut, "pair", 2))
        if self._clock(dut) == WALL != self._clock(found):
            raise NotEnoughNodes(
                f"every peer of {dut.node} has a virtual clock, so measurements with it say nothing about {dut.node}"
            )
        return found

    def _clock(self, interface: Interface) -> str:
        return self._lab.nodes[interface.node].clock

    @cached_property
    def _peers(self) -> dict[Interface, Interface]:
        """A peer for every interface, chosen in the order of the file. Nodes that are already needed come last."""
        uses: Counter[str] = Counter()
        peers = {}
        seen = set()
        for dut in self._lab.interfaces():
            found = self._best_peer(dut, self._candidates(dut), uses)
            if found is None:
                continue
            peers[dut] = found
            kind = (self._lab.nodes[dut.node].board.name, dut.label)
            if kind not in seen:
                # Only the first interface of a kind is measured.
                seen.add(kind)
                uses.update((dut.node, found.node))
        return peers

    def _best_peer(
        self, dut: Interface, candidates: Iterable[Interface], uses: Counter[str] | None = None
    ) -> Interface | None:
        wanted = capacity(dut)
        used = uses if uses is not None else Counter[str]()

        def rank(peer: Interface) -> tuple[bool, bool, float, bool, bool, int, float]:
            possible = self._possible(dut, peer)
            enough = possible >= wanted
            return (
                # Two nodes with clocks of their own would measure the pace of each other's clock.
                self._clock(peer) != WALL,
                not enough,
                0.0 if enough else -possible,
                peer.port.switch != dut.port.switch,
                _limits(peer, dut),
                used[peer.node],
                capacity(peer),
            )

        return min(candidates, key=rank, default=None)

    def _possible(self, dut: Interface, peer: Interface, mtu: int | None = None) -> float:
        """Return the goodput that a peer, and the uplinks in between, can reach with this interface."""
        uplinks = self._reach[dut.port.switch][peer.port.switch]
        largest = mtu or dut.nic.mtu_max
        bottlenecks = [highest_limit(uplink.speed_mbps, largest, Bus.SOC).goodput.bps for uplink in uplinks]
        return min([capacity(peer, mtu), *bottlenecks])

    def _candidates(self, dut: Interface, without: Collection[str] = ()) -> list[Interface]:
        """Return the interfaces of other nodes that can be in one segment with this interface."""
        switches = self._reach[dut.port.switch]
        return [
            i
            for i in self._lab.interfaces()
            if i.node != dut.node and i.node not in without and i.port.switch in switches
        ]

    def _nics_by_node(self, dut: Interface, without: Collection[str] = ()) -> list[list[Interface]]:
        return list(grouped((one.node, one) for one in self._candidates(dut, without)).values())

    def _one_each(self, dut: Interface, topology: Topology) -> list[Interface]:
        """Return one interface of each other node, best first: it limits least, then it is near, then onboard.

        Raises NotEnoughNodes.
        """
        wanted = capacity(dut, MTU)

        def short(interface: Interface) -> float:
            return max(0.0, wanted - self._possible(dut, interface, MTU))

        def far(interface: Interface) -> bool:
            return interface.port.switch != dut.port.switch

        nics = self._nics_by_node(dut)
        if len(nics) + 1 < topology.nodes:
            raise NotEnoughNodes(self._alone(dut, topology.name, topology.nodes))
        chosen = [min(own, key=lambda i: (short(i), far(i), i.label != _ONBOARD)) for own in nics]
        return sorted(chosen, key=lambda i: (short(i), far(i), _limits(i, dut)))

    def _pairs(self, dut: Interface, topology: Topology) -> list[Interface]:
        others = self._one_each(dut, topology)
        wanted = capacity(dut, MTU)
        # Choose the slowest partner that is fast enough, so that faster ones remain for the other pairs.
        partner = min(
            others,
            key=lambda i: (
                max(0.0, wanted - self._possible(dut, i, MTU)),
                i.port.switch != dut.port.switch,
                _limits(i, dut),
                capacity(i),
            ),
        )
        # One interface for each other node: its onboard NIC if it has one.
        nics = self._nics_by_node(dut, without=(partner.node,))
        rest = [min(own, key=lambda i: (i.label != _ONBOARD, -capacity(i))) for own in nics]
        rest.sort(key=lambda i: (i.port.switch, -capacity(i)))
        chosen = [dut, partner]
        while len(chosen) < topology.ends:
            first = rest.pop(0)
            second = next((i for i in rest if i.port.switch == first.port.switch), rest[0])
            rest.remove(second)
            # The slower one is the device under test. The faster peer does not limit it.
            chosen += sorted((first, second), key=capacity)
        return chosen

    def _chain(self, dut: Interface) -> list[Interface]:
        own = [i for i in self._lab.nodes[dut.node].interfaces if i != dut]
        if not own:
            raise NotEnoughNodes(f"a chain forwards between two NICs of one node, but {dut.node} has only one")
        second = max(own, key=capacity)
        near = self._best_peer(dut, self._candidates(dut))
        if near is None:
            raise NotEnoughNodes(self._alone(dut, "chain", 3))
        far = self._best_peer(second, self._candidates(second, without=(near.node,)))
        if far is None:
            raise NotEnoughNodes(self._alone(second, "chain", 3))
        for end in (dut, near, second, far):
            # Without VLANs of their own, near and far would reach each other past the node under test.
            if end == self._lab.nodes[end.node].carrying:
                way = self._lab.nodes[end.node].management
                raise NotEnoughNodes(f"a chain moves all its ports to other VLANs, but {end} has management: {way}")
        return [dut, near, second, far]

    def _alone(self, dut: Interface, topology: str, nodes: int) -> str:
        there = sorted({dut.node, *(i.node for i in self._candidates(dut))})
        message = (
            f"{topology} needs {nodes} nodes that reach each other over switch {dut.port.switch}, "
            f"but lab {self._lab.name} has only {' and '.join(there) if len(there) < 3 else ', '.join(there)} there"
        )
        # No launcher connects the machine that runs pytest.
        if len(there) == 1 and self._lab.launcher is None and not any(n.runner for n in self._lab.nodes.values()):
            message += ": add a board, or the machine that runs pytest as a node with `runner: true`"
        return message

    @cached_property
    def _reach(self) -> dict[str, dict[str, tuple[Uplink, ...]]]:
        """For each switch, the switches that it can reach, and the uplinks in between; fewest uplinks first."""
        reach = {}
        for start in self._lab.switches:
            ways: dict[str, tuple[Uplink, ...]] = {start: ()}
            queue = deque([start])
            while queue:
                here = queue.popleft()
                for uplink in self._lab.uplinks.values():
                    if uplink.port_on(here) is None:
                        continue
                    there = next(port.switch for port in uplink.ports if port.switch != here)
                    if there not in ways:
                        ways[there] = (*ways[here], uplink)
                        queue.append(there)
            reach[start] = ways
        return reach

    def _uplinks(self, segment: Iterable[Interface]) -> tuple[Uplink, ...]:
        first, *others = segment
        ways = self._reach[first.port.switch]
        return tuple(dict.fromkeys(uplink for other in others for uplink in ways[other.port.switch]))

    def _check_uplinks(self, topology: Topology, segments: Iterable[tuple[Uplink, ...]]) -> None:
        uses = Counter(uplink.name for segment in segments for uplink in segment)
        twice = [name for name, count in uses.items() if count > 1]
        if twice:
            raise NotEnoughNodes(f"{topology} needs uplink {twice[0]} for two segments, but an uplink carries only one")
