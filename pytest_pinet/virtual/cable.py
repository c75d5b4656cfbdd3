"""A cable between a node's NIC and a switch port: its rates, its faults, pulled and plugged."""

from __future__ import annotations

from pytest_pinet.virtual.commands import ip, nft, tc
from pytest_pinet.virtual.faults import Faults
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.shaping import bus_lines, node_queue, port_queue, token_bucket
from pytest_pinet.virtual.spec import InterfaceSpec
from pytest_pinet.virtual.switch import VirtualSwitch

_LOSS_STEPS = 1_000_000


class Cable:
    """One veth pair. ``index`` is unique in the lab; ``node_side`` is where the node's end is now."""

    def __init__(self, index: int, spec: InterfaceSpec, switch: VirtualSwitch, node_side: NetNamespace) -> None:
        self.spec = spec
        self.switch = switch
        self.faults = Faults()
        self.silent = False
        self._node_side = node_side
        self._index = index
        self._pulled = False
        self._filtered = False

    @property
    def far_end(self) -> str:
        """The ``ip`` words of the node's end, for the switch that makes the pair."""
        return f"name {self.spec.device} address {self.spec.mac} netns {self._node_side.path}"

    async def move_to(self, namespace: NetNamespace) -> None:
        """Put the node's end into the namespace of a fresh boot, where nothing of the last one is left."""
        device = self.spec.device
        await ip(self._node_side, [f"link set dev {device} down", f"link set dev {device} netns {namespace.path}"])
        self._node_side = namespace
        lines = [f"link set dev {device} mtu 1500 gso_max_segs 65535"]
        if self.spec.shape.bus is not None:
            lines += [
                f"link add name {self._bus_device} type ifb",
                f"link set dev {self._bus_device} addrgenmode none",
            ]
            lines.append(f"link set dev {self._bus_device} up")
        await ip(namespace, lines)

    async def shape(self) -> None:
        """Set the rates of both ends as the link model and the faults say."""
        await self.shape_node_side()
        await self.shape_switch_side()

    async def shape_node_side(self) -> None:
        shape, factor = self.spec.shape, self.faults.tx_rate
        rate = shape.wire_bps if factor == 1.0 else factor * shape.tx_bps
        await tc(self._node_side, [token_bucket(self.spec.device, rate, node_queue(rate))])

    async def shape_switch_side(self) -> None:
        if not self._pulled:
            shape, factor = self.spec.shape, self.faults.rx_rate
            rate = shape.wire_bps if factor == 1.0 else factor * shape.rx_bps
            await tc(self.switch.namespace, [token_bucket(self.spec.port, rate, port_queue(rate))])

    async def attach_bus(self) -> None:
        """Lead the traffic of a freshly moved end through its bus, if it has one."""
        bus = self.spec.shape.bus
        if bus is not None:
            await tc(self._node_side, bus_lines(self.spec.device, self._bus_device, bus, self.spec.mac))

    async def set_faults(self, faults: Faults) -> None:
        """Make the cable as good or bad as ``faults`` says."""
        before, self.faults = self.faults, faults
        if faults.down and not self._pulled:
            await self._pull()
        elif self._pulled and not faults.down:
            await self._plug()
        elif (before.tx_rate, before.rx_rate) != (faults.tx_rate, faults.rx_rate):
            await self.shape()
        await self.filter()

    async def filter(self) -> None:
        """Drop what the faults drop, all of it when the node is silent.

        Always at the switch port, behind the sender's queue as on a wire: a drop in the sender's own stack would be
        told to its TCP, and a node cannot undo what the switch does.
        """
        tx, rx = (1.0, 1.0) if self.silent else (self.faults.tx_loss, self.faults.rx_loss)
        if not (tx or rx or self._filtered):
            return
        table = f"netdev pinet{self._index}"
        rules = f"add table {table}\ndelete table {table}\n"
        if tx or rx:
            chains = "".join(
                f'chain {way} {{ type filter hook {hook} device "{self.spec.port}" priority 0; {_drop(loss)}\n}}\n'
                for way, hook, loss in (("tx", "ingress", tx), ("rx", "egress", rx))
                if loss
            )
            rules += f"table {table} {{\n{chains}}}\n"
        await nft(self.switch.namespace, rules)
        self._filtered = bool(tx or rx)

    async def _pull(self) -> None:
        """Exchange the switch's end for one without a far end, so that no setting on either side heals the link."""
        switch, port = self.switch, self.spec.port
        state = await switch.port_state(port)
        await ip(
            switch.namespace,
            [
                f"link set dev {port} down",
                f"link set dev {port} name {self._loose} netns {switch.drawer.path}",
                f"link add name {port} address {state.mac} type veth peer name {self._stub} netns {switch.drawer.path}",
                *switch.settings_lines(port, state),
            ],
        )
        self._pulled = True
        await switch.show_phy(port)

    async def _plug(self) -> None:
        """Put the switch's own end back, set as the stand-in was set meanwhile."""
        switch, port = self.switch, self.spec.port
        state = await switch.port_state(port)
        await ip(switch.namespace, [f"link del dev {port}"])
        await ip(switch.drawer, [f"link set dev {self._loose} name {port} netns {switch.namespace.path}"])
        self._pulled = False
        # Moving a device between namespaces loses its queues.
        await self.shape()
        await ip(switch.namespace, switch.settings_lines(port, state))
        await switch.show_phy(port)

    @property
    def _loose(self) -> str:
        return f"loose{self._index}"

    @property
    def _stub(self) -> str:
        return f"stub{self._index}"

    @property
    def _bus_device(self) -> str:
        return f"bus{self._index}"


def _drop(loss: float) -> str:
    return "drop" if loss >= 1 else f"numgen random mod {_LOSS_STEPS} < {round(loss * _LOSS_STEPS)} drop"
