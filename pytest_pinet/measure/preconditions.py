"""Preconditions for a valid measurement at the ends of a link, checked before, between and after traffic."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.errors import InvalidMeasurement, with_act
from pytest_pinet.evidence.preconditions import BUSY_S, read_all
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.judge.preconditions import broke_during, broken, notes, socket_trouble
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.conditions import Conditions, Trouble
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.traffic import Traffic

# The longest wait for busy ends to become quiet before a repeat.
QUIET_TIMEOUT_S = 10.0


class Preconditions:
    """Reads the state of all ends on construction. Raises InvalidMeasurement for a bus or power supply with a fault."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._before = self._read()
        self._seen: list[Conditions] = []
        refuse([trouble for i, one in enumerate(self._before) for trouble in broken(one, bus=self._bus(i))])

    def _bus(self, end: int) -> Bus | None:
        """Return the bus of an end's NIC; None with a virtual clock, where the bus has no meaningful speed."""
        here = self._link.ends[end].endpoint
        return None if here.node.clock == VIRTUAL else here.interface.bus

    def _read(self, busy_s: float = 0.0) -> list[Conditions]:
        return read_all([(end.shell, end.device) for end in self._link.ends], busy_s)

    @property
    def before(self) -> Sequence[Conditions]:
        """The state of the ends before the traffic, by their numbers."""
        return self._before

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
        pairs = zip(self._before, self._read(), strict=True)
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
                refuse(socket_trouble(measured.flow.sockets, path.mtu, path.timestamps, end=end))
        return broke


def refuse(troubles: Sequence[Trouble]) -> None:
    """Raise InvalidMeasurement with all troubles, if there are any."""
    if troubles:
        raise InvalidMeasurement("\n".join(dict.fromkeys(with_act(one.text, one.act) for one in troubles)))
