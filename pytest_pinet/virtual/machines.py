"""The machines of a virtual lab, and the target names that select them for faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown
from pytest_pinet.virtual.cable import Cable
from pytest_pinet.virtual.node import VirtualNode
from pytest_pinet.virtual.pdu import Pdu
from pytest_pinet.virtual.switch import VirtualSwitch

PDU = "pdu"


@dataclass(frozen=True)
class NodeTarget:
    """A node (``whole``), or one of its cables."""

    node: VirtualNode
    cables: Sequence[Cable]
    whole: bool

    @property
    def name(self) -> str:
        return self.node.spec.name


@dataclass(frozen=True)
class SwitchTarget:
    """A switch, or one of its ports."""

    switch: VirtualSwitch
    port: str | None

    @property
    def name(self) -> str:
        return self.switch.spec.name

    @property
    def whole(self) -> bool:
        return self.port is None


@dataclass(frozen=True)
class PduTarget:
    """Outlets of the PDU. ``whole`` means that the request named no outlet."""

    outlets: frozenset[int]
    whole: bool
    name = PDU


Target = NodeTarget | SwitchTarget | PduTarget


@dataclass(frozen=True)
class Machines:
    """All machines of a lab by name."""

    nodes: Mapping[str, VirtualNode]
    switches: Mapping[str, VirtualSwitch]
    pdu: Pdu

    def target(self, text: str) -> Target:
        """Parse NODE, NODE:INTERFACE, SWITCH, SWITCH/PORT, ``pdu`` or pdu/NODE. Raises ConfigError."""
        name, slash, part = text.partition("/")
        if slash and name == PDU:
            if part not in self.nodes:
                raise ConfigError(unknown("node", part, self.nodes))
            return PduTarget(frozenset({list(self.nodes).index(part) + 1}), whole=False)
        if slash or name in self.switches:
            switch = self.switches.get(name)
            if switch is None:
                raise ConfigError(unknown("switch", name, self.switches))
            if slash and part not in switch.spec.ports:
                raise ConfigError(unknown("port", part, switch.spec.ports, f"switch {name}"))
            return SwitchTarget(switch, part or None)
        if text == PDU and PDU not in self.nodes:
            return PduTarget(frozenset(self.pdu.outlets), whole=True)
        node_name, _, interface = text.partition(":")
        node = self.nodes.get(node_name)
        if node is None:
            if ":" in text:
                raise ConfigError(unknown("node", node_name, self.nodes))
            raise ConfigError(unknown("part of the lab", text, [*self.nodes, *self.switches, PDU]))
        if not interface:
            return NodeTarget(node, node.cables, whole=True)
        return NodeTarget(node, [cable_of(node, interface)], whole=False)


def cable_of(node: VirtualNode, interface: str) -> Cable:
    """Return the cable of an interface, by its name or device. Raises ConfigError."""
    for cable in node.cables:
        if interface in (cable.spec.name, cable.spec.device):
            return cable
    names = [cable.spec.name for cable in node.cables]
    raise ConfigError(unknown("interface", interface, names, f"node {node.spec.name}"))
