"""A cable between two switches."""

from __future__ import annotations

from pytest_pinet.virtual.firmware import BRIDGE
from pytest_pinet.virtual.link_models import wire_rate
from pytest_pinet.virtual.namespaces import ip
from pytest_pinet.virtual.shaping import port_queue, token_bucket
from pytest_pinet.virtual.spec import UplinkSpec
from pytest_pinet.virtual.switch import LARGEST_MTU, VirtualSwitch


class VirtualUplink:
    """A cable between two switches: one veth pair. Both ends send at ``scale`` times the wire's rate."""

    def __init__(self, spec: UplinkSpec, ends: tuple[VirtualSwitch, VirtualSwitch], scale: float) -> None:
        self.spec = spec
        self._scale = scale
        self._ends = tuple(zip(ends, (port for _, port in spec.ends), strict=True))
        for switch, port in self._ends:
            switch.uplinks.add(port)

    async def build(self) -> None:
        """Connect both switches, which must be built already."""
        (near, port), (far, far_port) = self._ends
        far_end = f"name {far_port} index {far.index(far_port)} netns {far.namespace.path}"
        near_end = f"name {port} index {near.index(port)} mtu {LARGEST_MTU}"
        await ip(near.namespace, [f"link add {near_end} type veth peer mtu {LARGEST_MTU} {far_end}"])
        for switch, own in self._ends:
            await ip(switch.namespace, [f"link set dev {own} master {BRIDGE} up"])

    def queues(self, switch: VirtualSwitch) -> list[str]:
        """Return ``tc`` lines for the ends at this switch. Empty if the uplink has none there."""
        rate = self._scale * wire_rate(self.spec.speed_mbps)
        lines: list[str] = []
        for end, port in self._ends:
            if end is switch:
                lines += switch.queues(port, rate, token_bucket(port, rate, port_queue(rate), LARGEST_MTU))
        return lines
