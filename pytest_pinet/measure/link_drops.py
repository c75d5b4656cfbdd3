"""Raises errors for links that drop during a measurement: DroppedLink if the link under test alone is at fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_pinet.errors import DroppedLink, LabError, LinkError
from pytest_pinet.judge.drops import DropRule
from pytest_pinet.lab.link.link import Link, await_links, without_carrier
from pytest_pinet.lab.link.link_checks import CARRIER_TIMEOUT_S
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import EventKind


class LinkDrops:
    """The drops in the ``connections`` of one measurement, a list that grows. ``link_ups`` as in ``Runs``."""

    def __init__(self, link: Link, connections: Sequence[Connection], link_ups: bool, limit: Limit | None) -> None:
        self._link = link
        self._connections = connections
        self._link_ups = link_ups
        self._rule = DropRule(_own_carriers(link), limit)

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
        if max(event.seconds for event in lost.link_events if event.kind is EventKind.LINK_DOWN) > CARRIER_TIMEOUT_S:
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
        why = f"did not come back within {CARRIER_TIMEOUT_S:.0f} s after {after}"
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


def _own_carriers(link: Link) -> frozenset[int]:
    """Return the ends whose carrier is that of the link under test.

    These are the ends of its node. Two ports that are wired by hand can be the ends of one cable: then also the peer.
    """
    dut = link.dut
    switch = link.switches.get(dut.port.switch)
    if switch is not None and not switch.capabilities and len(switch.ports) == len(link.ends) == 2:
        return frozenset((0, 1))
    return frozenset(i for i, end in enumerate(link.ends) if end.endpoint.node is dut.endpoint.node)
