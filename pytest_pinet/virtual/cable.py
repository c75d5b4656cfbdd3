"""Cables between a node's NIC and a switch port, with rates and faults, and between two switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import LabError
from pytest_pinet.model.lab import PortRef, Uplink
from pytest_pinet.virtual.link_models import (
    PLAIN_MTU,
    Shape,
    arbiter,
    bus_bucket,
    bus_lines,
    chunk,
    node_queue,
    port_queue,
    to_address,
    token_bucket,
    wire_rate,
)
from pytest_pinet.virtual.namespaces import NetNamespace, ip, nft, tc
from pytest_pinet.virtual.pi_firmware import BootSettings
from pytest_pinet.virtual.spec import BRIDGE, InterfaceSpec
from pytest_pinet.virtual.switch import LARGEST_MTU, VirtualSwitch

_LOSS_STEPS = 1_000_000


@dataclass(frozen=True)
class Faults:
    """Faults seen from the node (tx: the node sends). Rates are factors of the link model, losses are probabilities."""

    tx_rate: float = 1.0
    rx_rate: float = 1.0
    tx_loss: float = 0.0
    rx_loss: float = 0.0
    down: bool = False

    def degraded(self, rate: float | None, loss: float | None, down: bool, direction: str | None) -> Faults:
        """Return the faults with more faults added. ``direction`` is ``tx``, ``rx`` or None for both."""
        changes: dict[str, float] = {}
        for way in ("tx", "rx") if direction is None else (direction,):
            if rate is not None:
                changes[f"{way}_rate"] = rate
            if loss is not None:
                changes[f"{way}_loss"] = loss
        return replace(self, down=self.down or down, **changes)

    def words(self) -> list[str]:
        """Describe each fault in a few words. Empty if there is none."""
        found = []
        for what, tx, rx, good in (("rate", self.tx_rate, self.rx_rate, 1.0), ("loss", self.tx_loss, self.rx_loss, 0)):
            if tx == rx and tx != good:
                found.append(f"{what} {tx * 100:g}%")
            else:
                found += [f"{way} {what} {v * 100:g}%" for way, v in (("tx", tx), ("rx", rx)) if v != good]
        if self.down:
            found.append("cable pulled")
        return found


class Cable:
    """A cable of a node: one veth pair, which can be pulled and plugged.

    ``index`` is unique in the lab; ``node_side`` is the present namespace of the node's end.

    ``stations`` are the MAC addresses of all NICs of the other nodes. ``scale`` is the share of the full rates at which
    the cable runs.
    """

    def __init__(
        self,
        index: int,
        nic: InterfaceSpec,
        switch: VirtualSwitch,
        node_side: NetNamespace,
        stations: Sequence[str],
        scale: float,
    ) -> None:
        self.spec = nic.interface
        self.mac = nic.mac
        self.scale = scale
        self.faults = Faults()
        # The node's boot settings and the present MTU select the shape of the link model.
        self._model = nic.model
        self._boot = BootSettings(0)
        self.mtu = PLAIN_MTU
        self._silent = False
        self._stations = stations
        self._node_side = node_side
        self._index = index
        self._pulled = False
        self._filtered = False
        self._plug_into(switch, self.spec.port.port)

    def _plug_into(self, switch: VirtualSwitch, port: str) -> None:
        """Set the switch and port. They differ from ``spec`` while cables are swapped."""
        self.switch, self.port = switch, port
        switch.node_ports.add(port)

    @property
    def far_end(self) -> str:
        """Return the ``ip`` words of the node's end, for the switch that creates the pair."""
        return f"name {self.spec.device} address {self.mac} netns {self._node_side.path}"

    async def move_to(self, namespace: NetNamespace, boot: BootSettings) -> None:
        """Move the node's end into the new namespace of a boot with these settings. It has no old settings."""
        self._boot = boot
        device = self.spec.device
        await ip(self._node_side, [f"link set dev {device} down", f"link set dev {device} netns {namespace.path}"])
        self._node_side = namespace
        self.mtu = PLAIN_MTU
        lines = [f"link set dev {device} mtu {self.mtu} gso_max_segs 65535 gso_max_size {chunk(self.scale)}"]
        for bus_device in self._bus_devices if self.shape.has_bus else ():
            lines += [
                f"link add name {bus_device} type ifb",
                f"link set dev {bus_device} addrgenmode none",
                f"link set dev {bus_device} up",
            ]
        await ip(namespace, lines)

    @property
    def shape(self) -> Shape:
        """The shape from the link model for the node's boot settings and the MTU, at the lab's scale."""
        return self._model.shape(self._boot, self.mtu).scaled(self.scale)

    async def set_mtu(self, mtu: int) -> None:
        """Adapt the shaping to a new MTU of the device, because the frame size changes the share of headers."""
        before, self.mtu = self._buckets(), mtu
        if self._buckets() != before:
            await self.set_rates()
            await tc(self._node_side, self._bus_bucket())

    async def set_rates(self) -> None:
        """Set the rates of both ends from the link model and the faults."""
        await tc(self._node_side, [self._node_bucket()])
        if not self._pulled:
            await tc(self.switch.namespace, [self._switch_bucket()])

    async def queue_node_side(self) -> None:
        """Create the queues of the node's end. The move to another namespace removed them."""
        await tc(
            self._node_side,
            [
                self._node_bucket(),
                *arbiter(self.spec.device, self.shape.wire_bps, [to_address(mac) for mac in self._stations]),
            ],
        )

    def switch_queues(self) -> list[str]:
        """Return ``tc`` lines for a new switch end."""
        return self.switch.queues(self.port, self.shape.wire_bps, self._switch_bucket())

    def _buckets(self) -> list[str]:
        return [self._node_bucket(), self._switch_bucket(), *self._bus_bucket()]

    def _bus_bucket(self) -> list[str]:
        return bus_bucket(self._bus_devices[0], self.shape, self.mtu)

    def _node_bucket(self) -> str:
        shape, factor = self.shape, self.faults.tx_rate
        rate = shape.wire_bps if factor == 1.0 else factor * shape.tx_bps
        return token_bucket(self.spec.device, rate, node_queue(rate), self.mtu)

    def _switch_bucket(self) -> str:
        shape, factor = self.shape, self.faults.rx_rate
        rate = shape.wire_bps if factor == 1.0 else factor * shape.rx_bps
        return token_bucket(self.port, rate, port_queue(rate), self.mtu)

    async def attach_bus(self) -> None:
        """Redirect the traffic of a moved end through its bus, if it has one."""
        if self.shape.has_bus:
            await tc(self._node_side, bus_lines(self.spec.device, self._bus_devices, self.shape, self.mac))

    async def set_faults(self, faults: Faults) -> None:
        """Apply ``faults`` to the cable."""
        before, self.faults = self.faults, faults
        if faults.down and not self._pulled:
            await self._pull()
        elif self._pulled and not faults.down:
            await self._plug()
        elif (before.tx_rate, before.rx_rate) != (faults.tx_rate, faults.rx_rate):
            await self.set_rates()
        await self.filter()

    async def silence(self, silent: bool) -> None:
        """Drop all packets, because the node hangs; if not silent, drop only the packets of the faults."""
        self._silent = silent
        await self.filter()

    async def filter(self) -> None:
        """Drop packets according to the faults, or all packets if the node is silent.

        The drops happen at the switch port, after the sender's queue, as on a wire. The sender's TCP would notice a
        drop in its own network stack. A node also cannot undo what the switch does.
        """
        tx, rx = (1.0, 1.0) if self._silent else (self.faults.tx_loss, self.faults.rx_loss)
        if not (tx or rx or self._filtered):
            return
        table = self._table
        rules = f"add table {table}\ndelete table {table}\n"
        if tx or rx:
            chains = "".join(
                f'chain {way} {{ type filter hook {hook} device "{self.port}" priority 0; {_drop(loss)}\n}}\n'
                for way, hook, loss in (("tx", "ingress", tx), ("rx", "egress", rx))
                if loss
            )
            rules += f"table {table} {{\n{chains}}}\n"
        await nft(self.switch.namespace, rules)
        self._filtered = bool(tx or rx)

    @property
    def displaced(self) -> bool:
        """Whether the cable is plugged into another port than its own."""
        return PortRef(self.switch.spec.name, self.port) != self.spec.port

    async def swap_with(self, other: Cable) -> None:
        """Exchange the ports of two cables. Raises LabError while one of them is pulled."""
        if self._pulled or other._pulled:
            raise LabError("a pulled cable cannot be swapped", "run `pinet lab restore`, then swap the cables")
        ends = [(cable, cable.switch, cable.port) for cable in (self, other)]
        async with self.switch.replacing(self.port), other.switch.replacing(other.port):
            for cable, switch, _ in ends:
                await cable._drop_filter()
                await ip(switch.namespace, cable._to_drawer)
            for cable, (_, switch, port) in zip((self, other), reversed(ends), strict=True):
                switch.take_from_drawer(cable._loose, port)
                cable._plug_into(switch, port)
            for cable in (self, other):
                await tc(cable.switch.namespace, cable.switch_queues())
                await cable.set_rates()
                await cable.switch.negotiated(cable.port, cable.spec.speed_mbps)
                await cable.filter()

    async def _drop_filter(self) -> None:
        if self._filtered:
            await nft(self.switch.namespace, f"delete table {self._table}\n")
            self._filtered = False

    async def _pull(self) -> None:
        """Replace the switch's end by a device without link partner, so that no setting can bring the link up."""
        switch, port = self.switch, self.port
        stand_in = f"name {port} index {switch.index(port)}"
        far_end = f"name stub{self._index} netns {switch.drawer.path}"
        async with switch.replacing(port):
            await ip(switch.namespace, [*self._to_drawer, f"link add {stand_in} type veth peer {far_end}"])
        self._pulled = True

    async def _plug(self) -> None:
        """Put the switch's own end back."""
        switch, port = self.switch, self.port
        async with switch.replacing(port):
            await ip(switch.namespace, [f"link del dev {port}"])
            await ip(switch.drawer, [f"link set dev {self._loose} name {port} netns {switch.namespace.path}"])
            self._pulled = False
            # The move between namespaces removed the queues.
            await tc(switch.namespace, self.switch_queues())
        await self.set_rates()

    @property
    def _table(self) -> str:
        return f"netdev pinet{self._index}"

    @property
    def _loose(self) -> str:
        return f"loose{self._index}"

    @property
    def _to_drawer(self) -> list[str]:
        port = self.port
        return [f"link set dev {port} down", f"link set dev {port} name {self._loose} netns {self.switch.drawer.path}"]

    @property
    def _bus_devices(self) -> tuple[str, str]:
        """The ifb devices: one for traffic from the node, one for traffic to it. A shared bus uses only the first."""
        return f"bus{self._index}", f"back{self._index}"


class VirtualUplink:
    """A cable between two switches: one veth pair. Both ends send at ``scale`` times the wire's rate."""

    def __init__(self, spec: Uplink, ends: tuple[VirtualSwitch, VirtualSwitch], scale: float) -> None:
        self.spec = spec
        self._scale = scale
        self._ends = tuple(zip(ends, (port.port for port in spec.ports), strict=True))
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


def _drop(loss: float) -> str:
    share = "" if loss >= 1 else f"numgen random mod {_LOSS_STEPS} < {round(loss * _LOSS_STEPS)} "
    return f"{share}drop"
