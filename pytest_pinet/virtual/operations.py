"""The operations of the control socket: status, faults, stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_pinet.virtual.cable import Cable
from pytest_pinet.virtual.control import Operation
from pytest_pinet.virtual.degrade import Degrade
from pytest_pinet.virtual.link_models import goodput
from pytest_pinet.virtual.machines import Machines
from pytest_pinet.virtual.node import THROTTLING, VirtualNode
from pytest_pinet.virtual.pdu import Pdu
from pytest_pinet.virtual.switch import VirtualSwitch


class Operations:
    """All operations. ``changed`` is called when processes may have changed, ``stop`` to end the lab."""

    def __init__(self, lab: str, machines: Machines, changed: Callable[[], None], stop: Callable[[], None]) -> None:
        self._lab = lab
        self._machines = machines
        self._degrade = Degrade(machines, changed)
        self._stop = stop

    def table(self) -> dict[str, Operation]:
        """Return all operations by name."""
        return {
            "ping": self.ping,
            "status": self.status,
            "degrade": self._degrade.degrade,
            "restore": self._degrade.restore,
            "stop": self.stop,
        }

    async def ping(self, _request: Mapping[str, object]) -> str:
        return self._lab

    async def stop(self, _request: Mapping[str, object]) -> None:
        self._stop()

    async def status(self, _request: Mapping[str, object]) -> dict[str, object]:
        return {
            "lab": self._lab,
            "nodes": [_node_status(node) for node in self._machines.nodes.values()],
            "switches": [_switch_status(switch) for switch in self._machines.switches.values()],
            "pdu": _pdu_status(self._machines.pdu, list(self._machines.nodes)),
        }


def _pdu_status(pdu: Pdu, nodes: list[str]) -> dict[str, object]:
    faults = ["does not answer"] if pdu.faults.dead else []
    lying = [nodes[index - 1] for index in sorted(pdu.faults.lying)]
    if lying:
        faults.append("lies" if len(lying) == len(pdu.outlets) else f"lies about {', '.join(lying)}")
    return {"port": pdu.port, "faults": faults}


def _switch_status(switch: VirtualSwitch) -> dict[str, object]:
    now = switch.firmware.snapshot()
    names = {link.index: link.name for link in now.links.values()}
    masters = {port: now.links[port].master for port in switch.spec.ports if port in now.links}
    return {
        "name": switch.spec.name,
        switch.spec.management: switch.management.port,
        "up": switch.container is not None and switch.container.running,
        "faults": switch.firmware.faults.words(),
        # The bridge that each port is really in, even if the switch's management reports another one.
        "groups": {port: names.get(master) if master is not None else None for port, master in masters.items()},
    }


def _node_status(node: VirtualNode) -> dict[str, object]:
    return {
        "name": node.spec.name,
        "board": node.spec.board,
        "place": node.spec.place,
        "outlet": node.spec.outlet,
        "power": "on" if node.on else "off",
        "frozen": node.frozen,
        "faults": _node_faults(node),
        "console": node.console.port,
        "ssh": node.relay.port,
        "interfaces": [_interface_status(cable) for cable in node.cables],
    }


def _node_faults(node: VirtualNode) -> list[str]:
    found = []
    if node.console.dead:
        found.append("console hangs")
    if node.panics_at_boot:
        found.append("panics at boot")
    found += [f"firmware: {name}" for bit, name in enumerate(THROTTLING) if node.throttled >> bit & 1]
    if node.panicked:
        found.append("hangs in a kernel panic")
    return found


def _interface_status(cable: Cable) -> dict[str, object]:
    spec, shape = cable.spec, cable.shape
    plugged = [f"plugged into {cable.switch.spec.name}/{cable.port}"] if cable.displaced else []
    return {
        "name": spec.name,
        "device": spec.device,
        "switch": spec.switch,
        "port": spec.port,
        "speed_mbps": spec.speed_mbps,
        "model": shape.model,
        "mtu": cable.mtu,
        # Goodput of one TCP flow with timestamps, including faults. Like all goodput values, it is given at full link
        # rate.
        "tx_goodput_bps": goodput(shape.tx_bps, cable.mtu) / cable.scale * cable.faults.tx_rate,
        "rx_goodput_bps": goodput(shape.rx_bps, cable.mtu) / cable.scale * cable.faults.rx_rate,
        "faults": [*cable.faults.words(), *plugged],
    }
