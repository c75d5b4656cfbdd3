"""What the control socket can ask for: status, faults, stop."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.virtual.cable import Cable
from pytest_pinet.virtual.control import Operation
from pytest_pinet.virtual.faults import Faults
from pytest_pinet.virtual.link_models import goodput
from pytest_pinet.virtual.node import VirtualNode
from pytest_pinet.virtual.switch import VirtualSwitch


class Operations:
    """``changed`` is called when other processes run than before, ``stop`` when the lab is to end."""

    def __init__(
        self,
        lab: str,
        nodes: Mapping[str, VirtualNode],
        switches: Mapping[str, VirtualSwitch],
        changed: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._lab = lab
        self._nodes = nodes
        self._switches = switches
        self._changed = changed
        self._stop = stop

    def table(self) -> dict[str, Operation]:
        """Every operation by name."""
        return {
            "ping": self.ping,
            "status": self.status,
            "degrade": self.degrade,
            "restore": self.restore,
            "stop": self.stop,
        }

    async def ping(self, _request: Mapping[str, Any]) -> str:
        return self._lab

    async def stop(self, _request: Mapping[str, Any]) -> None:
        self._stop()

    async def status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "lab": self._lab,
            "nodes": [_node_status(node) for node in self._nodes.values()],
            "switches": [
                {"name": s.spec.name, "ssh": s.relay.port, "up": s.container is not None and s.container.running}
                for s in self._switches.values()
            ],
        }

    async def degrade(self, request: Mapping[str, Any]) -> list[str]:
        """Make what ``target`` names worse; returns the names of what is degraded now."""
        node, cables = self._select(request["target"])
        loss = request.get("loss")
        if (loss or request.get("freeze")) and shutil.which("nft") is None:
            raise LabError("nft is missing, which drops packets", "install the package nftables (apt install nftables)")
        if request.get("freeze"):
            await node.freeze()
            return [node.spec.name]
        for cable in cables:
            faults = cable.faults.degraded(
                request.get("rate"), loss, bool(request.get("down")), request.get("direction")
            )
            await node.set_faults(cable, faults)
        return [f"{node.spec.name}:{cable.spec.name}" for cable in cables]

    async def restore(self, request: Mapping[str, Any]) -> list[str]:
        """Undo all faults of ``target``, or of every node without one; returns the names of what was healed."""
        target = request.get("target")
        selected = [self._select(target)] if target else [(n, n.cables) for n in self._nodes.values()]
        healed = []
        for node, cables in selected:
            if node.frozen:
                await node.thaw()
                healed.append(node.spec.name)
            for cable in cables:
                if cable.faults != Faults():
                    await node.set_faults(cable, Faults())
                    healed.append(f"{node.spec.name}:{cable.spec.name}")
        self._changed()
        return healed

    def _select(self, target: str) -> tuple[VirtualNode, Sequence[Cable]]:
        """NODE or NODE:INTERFACE. Raises ConfigError with the nearest name."""
        name, _, interface = target.partition(":")
        node = self._nodes.get(name)
        if node is None:
            raise ConfigError(_unknown("node", name, self._nodes))
        if not interface:
            return node, node.cables
        for cable in node.cables:
            if interface in (cable.spec.name, cable.spec.device):
                return node, [cable]
        raise ConfigError(_unknown(f"interface of {name}", interface, [cable.spec.name for cable in node.cables]))


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    return f"no {what} is called {name!r}" + (
        f", did you mean {near[0]!r}?" if near else f"; there is {', '.join(names)}"
    )


def _node_status(node: VirtualNode) -> dict[str, Any]:
    return {
        "name": node.spec.name,
        "board": node.spec.board,
        "place": node.spec.place,
        "power": "on" if node.on else "off",
        "frozen": node.frozen,
        "console": node.console.port,
        "ssh": node.relay.port,
        "interfaces": [
            {
                "name": cable.spec.name,
                "device": cable.spec.device,
                "switch": cable.spec.switch,
                "port": cable.spec.port,
                "speed_mbps": cable.spec.speed_mbps,
                "model": cable.spec.shape.model,
                # What a single TCP flow with timestamps gets, faults counted.
                "tx_goodput_bps": goodput(cable.spec.shape.tx_bps) * cable.faults.tx_rate,
                "rx_goodput_bps": goodput(cable.spec.shape.rx_bps) * cable.faults.rx_rate,
                "faults": cable.faults.words(),
            }
            for cable in node.cables
        ],
    }
