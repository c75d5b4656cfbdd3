"""What must hold at the ends before, between and after traffic: their state, and their links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_pinet.errors import DroppedLink, InvalidMeasurement, LabError, LinkError, with_act
from pytest_pinet.evidence.preconditions import BUSY_S, read_all
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.judge.events import DropRule
from pytest_pinet.judge.preconditions import broke_during, broken, notes, socket_trouble
from pytest_pinet.lab.link.link import Link, await_links, without_carrier
from pytest_pinet.lab.link.link_checks import carrier_timeout_s
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import Conditions, Trouble
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import EventKind
from pytest_pinet.model.traffic import Traffic

# The longest wait for busy ends to become quiet before a repeat.
QUIET_TIMEOUT_S = 10.0


class Preconditions:
    """Reads the state of all ends on construction. Raises InvalidMeasurement for a bus or power supply with a fault."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # The state of the ends before the traffic, by their numbers.
        self.before: Sequence[Conditions] = self._read()
        self._seen: list[Conditions] = []
        refuse([trouble for i, one in enumerate(self.before) for trouble in broken(one, bus=self._bus(i))])

    def _bus(self, end: int) -> Bus | None:
        """Return the bus of an end's NIC; None with a virtual clock, where the bus has no meaningful speed."""
        here = self._link.ends[end].endpoint
        return None if here.node.clock == VIRTUAL else here.interface.bus

    def _read(self, busy_s: float = 0.0) -> list[Conditions]:
        return read_all([(end.shell, end.device) for end in self._link.ends], busy_s)

    def look_for_others(self) -> None:
        """Check before a repeat for other work on the processors of the ends, and give it some time to end.

        It is no excuse: `judge.busy` finds what other programs used during the traffic.
        """
        now = self._read(BUSY_S)

        def quiet() -> bool:
            nonlocal now
            now = self._read(BUSY_S)
            return not any(broken(one) for one in now)

        if any(broken(one) for one in now):
            Deadline(QUIET_TIMEOUT_S).wait_until(quiet, interval_s=0.1)
        self._seen += now

    @property
    def notes(self) -> list[str]:
        """Notes about the ends that readers of the result need."""
        return notes(self._seen)

    def check_after(
        self, connections: Sequence[Connection], traffic: Traffic, links: Sequence[Link] = ()
    ) -> list[Trouble]:
        """Compare the ends with their state before the traffic. Check the segment sizes in the senders' kernels.

        Return each fault that occurred meanwhile; the values are then invalid. Raises InvalidMeasurement
        for segments smaller than the MTU allows when no MSS was requested.
        """
        pairs = zip(self.before, self._read(), strict=True)
        broke = [trouble for before, after in pairs for trouble in broke_during(before, after)]
        for number, one in enumerate(connections):
            link = links[number] if links else self._link
            if one.excluded:
                continue  # a link that is down has the smallest segments; this connection is not counted
            for measured in one.flows:
                # A requested MSS is checked in pytest_pinet.judge.preconditions and reported with the result.
                if measured.flow.sockets is None or traffic.udp or traffic.mss is not None:
                    continue
                path = link.facts.path_between(measured.sender, measured.receiver)
                end = str(link.ends[measured.sender].endpoint)
                family = traffic.setup.family
                refuse(socket_trouble(measured.flow.sockets, path.mtu, path.timestamps, end=end, family=family))
        return broke


def refuse(troubles: Sequence[Trouble]) -> None:
    """Raise InvalidMeasurement with all troubles, if there are any."""
    if troubles:
        raise InvalidMeasurement("\n".join(dict.fromkeys(with_act(one.text, one.act) for one in troubles)))


class LinkDrops:
    """The drops in the ``connections`` of one measurement, a list that grows. ``link_ups`` as in ``Runs``."""

    def __init__(self, link: Link, connections: Sequence[Connection], link_ups: bool, limit: Limit | None) -> None:
        self._link = link
        self._connections = connections
        self._link_ups = link_ups
        self._rule = DropRule(own_carriers(link), limit)

    @property
    def is_own(self) -> bool:
        """Whether only the link of the device under test dropped in the latest connection."""
        return bool(self._connections) and self._rule.is_own(self._connections[-1])

    def check(self) -> None:
        """Raise DroppedLink if the link of the device under test dropped too often, LinkError if others did."""
        connections = self._connections
        if self._rule.too_many(connections):
            raise self._too_many(connections)
        if self._rule.lab_is_faulty(connections):
            lost = [one.excluded for one in connections if one.excluded]
            raise LinkError(
                f"{lost[-1]}; this happened in {len(lost)} of {len(connections)} connections",
                "check cable, connector and power supply; if other kernels hold the link, the driver is at fault",
            )

    def blame(self, error: LabError, lost: Connection) -> None:
        """Raise DroppedLink if the link of the device under test ended the traffic of this connection with an error.

        It dropped too often, or is down for longer than a link needs to come up. Raises as ``await_links``.
        """
        if not self._rule.is_own(lost):
            return
        if self._rule.too_many([*self._connections, lost]):
            raise self._too_many([*self._connections, lost]) from error
        with self.coming_back("it dropped", lost):
            await_links(self._link)
        down_s = max(event.seconds for event in lost.link_events if event.kind is EventKind.LINK_DOWN)
        if down_s > carrier_timeout_s(self._link.ends):
            raise self._not_back("it dropped", lost) from error

    @contextmanager
    def coming_back(self, after: str, lost: Connection | None = None) -> Iterator[None]:
        """Raise DroppedLink for a LinkError if only the link of the device under test has no carrier then.

        ``after`` says what happened to the link, which had a carrier before; ``lost`` is the connection in which it
        dropped (default: the latest one).
        """
        try:
            yield
        except LinkError as error:
            if self._rule.is_alone(without_carrier(self._link)):
                raise self._not_back(after, lost) from error
            raise

    def _not_back(self, after: str, lost: Connection | None) -> DroppedLink:
        last = lost or self._connections[-1]
        why = f"did not come back within {carrier_timeout_s(self._link.ends):.0f} s after {after}"
        return self._dropped(last if self._rule.is_own(last) else None, why)

    def _too_many(self, connections: Sequence[Connection]) -> DroppedLink:
        limit, often = self._rule.limit, self._rule.drops(connections)
        own = [one for one in connections if self._rule.is_own(one)]
        times = f"dropped {often} times in" if often > len(own) else "dropped in"
        again = ", again on a fresh link-up" if len(own) > 1 and self._link_ups else ""
        at_most = f"; the limit is max_drops={limit.bound} ({limit.source})" if limit is not None else ""
        return self._dropped(own[-1], f"{times} {len(own)} of {len(connections)} connections{again}{at_most}")

    def _dropped(self, lost: Connection | None, why: str) -> DroppedLink:
        dut = self._link.dut
        drops = [] if lost is None else [event for event in lost.link_events if event.kind is EventKind.LINK_DOWN]
        longest = max(drops, key=lambda event: event.seconds, default=None)
        return DroppedLink(
            f"{f'{longest.text}: ' if longest else ''}the link of {dut.endpoint} {why}",
            f"the carrier cannot tell the NIC {dut.device} of node {dut.endpoint.node.name} and its driver from the "
            f"cable between it and port {dut.port}: change the cable, and try a build that is known to be good",
        )


def own_carriers(link: Link) -> frozenset[int]:
    """Return the ends whose carrier is that of the link under test.

    These are the ends of its node. Two ports that are wired by hand can be the ends of one cable: then also the peer.
    """
    dut = link.dut
    switch = link.switches.get(dut.port.switch)
    if switch is not None and not switch.capabilities and len(switch.ports) == len(link.ends) == 2:
        return frozenset((0, 1))
    return frozenset(i for i, end in enumerate(link.ends) if end.endpoint.node is dut.endpoint.node)
