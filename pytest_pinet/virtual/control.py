"""The server of the daemon's control socket: status and faults. The client is ``Runtime.ask``."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError, LabError, PinetError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.lab import PortRef
from pytest_pinet.virtual.cable import Cable, Faults
from pytest_pinet.virtual.link_models import goodput
from pytest_pinet.virtual.loopback import Pdu, PduFaults
from pytest_pinet.virtual.node import THROTTLING, VirtualNode
from pytest_pinet.virtual.switch import VirtualSwitch

# Faults of a virtual lab: the targets that requests name, and what faults do to each kind of target.


PDU = "pdu"
Request = Mapping[str, Any]
_NODE = ("freeze", "hang_console", "panic", "console_line", "drop_ssh", "throttle")
# Faults of a whole machine, not of an interface or outlet.
_WHOLE = {*_NODE, "dead"}


@dataclass(frozen=True)
class PduTarget:
    """Outlets of the PDU. ``whole`` means that the request named no outlet."""

    pdu: Pdu
    outlets: frozenset[int]
    whole: bool
    name = PDU
    kind = "the power distribution unit"
    accepted = ("dead", "lie")

    async def degrade(self, request: Request) -> list[str]:
        before = self.pdu.faults
        lying = self.outlets if request.get("lie") else frozenset()
        self.pdu.set_faults(PduFaults(before.dead or bool(request.get("dead")), before.lying | lying))
        return []

    async def restore(self) -> list[str]:
        before = self.pdu.faults
        self.pdu.set_faults(PduFaults(before.dead and not self.whole, before.lying - self.outlets))
        return [PDU] if self.pdu.faults != before else []


@dataclass(frozen=True)
class SwitchTarget:
    """A switch."""

    switch: VirtualSwitch
    whole = True
    kind = "a switch"
    accepted = ("dead",)

    @property
    def name(self) -> str:
        return self.switch.spec.name

    async def degrade(self, _request: Request) -> list[str]:
        self.switch.set_dead(True)
        return []

    async def restore(self) -> list[str]:
        was_dead = self.switch.dead
        self.switch.set_dead(False)
        return [self.name] if was_dead else []


@dataclass(frozen=True)
class NodeTarget:
    """A node (``whole``), or one of its cables."""

    machines: Machines
    node: VirtualNode
    cables: Sequence[Cable]
    whole: bool
    kind = "a node or an interface"
    accepted = ("rate", "loss", "down", "direction", "swap_with", *_NODE)

    @property
    def name(self) -> str:
        return self.node.spec.name

    def _names(self, cables: Sequence[Cable]) -> list[str]:
        return [f"{self.name}:{cable.spec.name}" for cable in cables]

    async def degrade(self, request: Request) -> list[str]:
        node = self.node
        if any(request.get(key) for key in ("loss", "freeze", "panic")) and shutil.which("nft") is None:
            raise LabError("the command nft, which drops packets, is missing", "apt install nftables")
        if request.get("swap_with"):
            await self._swap(request["swap_with"])
        if request.get("hang_console"):
            node.console.cut(True)
        if request.get("console_line"):
            node.print_line(request["console_line"])
        if request.get("drop_ssh"):
            node.relay.cut()
        if request.get("throttle"):
            await node.throttle(node.throttled | 1 << THROTTLING.index(request["throttle"]))
        match request.get("panic"):
            case "boot":
                node.panic_at_boot()
            case "now":
                await node.panic()
        if request.get("freeze"):
            await node.freeze()
        rate, loss, down = (request.get(key) for key in ("rate", "loss", "down"))
        if not (rate or loss or down):
            return []
        for cable in self.cables:
            faults = cable.faults.degraded(rate, loss, bool(down), request.get("direction"))
            await node.set_faults(cable, faults)
        return self._names(self.cables)

    async def _swap(self, other_name: str) -> None:
        if self.whole and len(self.cables) > 1:
            names = ", ".join(self._names(self.cables))
            raise ConfigError(f"--swap-with: {self.name} has several cables; name one: {names}")
        other = self.machines.target(other_name)
        if not isinstance(other, NodeTarget) or len(other.cables) != 1:
            raise ConfigError(f"--swap-with {other_name}: expected one interface, such as NODE:INTERFACE")
        (one,), (two,) = self.cables, other.cables
        if one is two:
            raise ConfigError(f"--swap-with {other_name}: a cable cannot be swapped with itself")
        await one.swap_with(two)

    async def restore(self) -> list[str]:
        node = self.node
        restored = []
        if self.whole and (node.frozen or node.panicked or node.panics_at_boot or node.console.dead):
            await node.thaw()
            await node.heal()
            node.console.cut(False)
            restored.append(self.name)
        if self.whole and node.throttled:
            await node.throttle(0)
            restored.append(self.name)
        for cable in self.cables:
            if cable.faults != Faults():
                await node.set_faults(cable, Faults())
                restored += self._names([cable])
            if cable.displaced:
                await self._plug_home(cable)
                restored += self._names([cable])
        return list(dict.fromkeys(restored))

    async def _plug_home(self, cable: Cable) -> None:
        """Plug a cable into its own port. The cable in that port moves to the other port."""
        cables = ((node, other) for node in self.machines.nodes.values() for other in node.cables)
        owner, home = next(
            (node, other) for node, other in cables if PortRef(other.switch.spec.name, other.port) == cable.spec.port
        )
        if home.faults.down:
            await owner.set_faults(home, replace(home.faults, down=False))
        await cable.swap_with(home)


Target = NodeTarget | SwitchTarget | PduTarget


@dataclass(frozen=True)
class Machines:
    """All machines of a lab by name."""

    nodes: Mapping[str, VirtualNode]
    switches: Mapping[str, VirtualSwitch]
    pdu: Pdu

    async def degrade(self, request: Request) -> list[str]:
        """Apply faults to ``target``. Return the names of the degraded parts. Raises ConfigError, LabError."""
        text = request["target"]
        target = self.target(text)
        wanted = {key for key in request if key not in ("op", "target") and request[key] not in (None, False)}
        wrong = sorted(wanted - set(target.accepted))
        if wrong:
            raise ConfigError(
                f"{_option(wrong[0])} is not a fault of {text!r}, which is {target.kind}; "
                f"accepted: {', '.join(map(_option, target.accepted))}"
            )
        for key in sorted(wanted & _WHOLE):
            if not target.whole:
                raise ConfigError(
                    f"{_option(key)} affects all of {target.name!r}, not only {text!r}; use {target.name!r} as target"
                )
        return await target.degrade(request) or [text]

    async def restore(self, request: Request) -> list[str]:
        """Remove all faults of ``target``, or of the whole lab without a target. Return the names of restored parts."""
        targets = [self.target(request["target"])] if request.get("target") else self._targets()
        return [name for target in targets for name in await target.restore()]

    def _targets(self) -> Iterator[Target]:
        yield self._whole_pdu()
        yield from map(SwitchTarget, self.switches.values())
        yield from map(self._whole_node, self.nodes.values())

    def _whole_pdu(self) -> PduTarget:
        return PduTarget(self.pdu, frozenset(self.pdu.outlets), whole=True)

    def _whole_node(self, node: VirtualNode) -> NodeTarget:
        return NodeTarget(self, node, node.cables, whole=True)

    def target(self, text: str) -> Target:
        """Parse NODE, NODE:INTERFACE, SWITCH, ``pdu`` or pdu/NODE. Raises ConfigError."""
        name, slash, part = text.partition("/")
        if slash and name == PDU:
            if part not in self.nodes:
                raise ConfigError(unknown("node", part, self.nodes))
            return PduTarget(self.pdu, frozenset({list(self.nodes).index(part) + 1}), whole=False)
        if text in self.switches:
            return SwitchTarget(self.switches[text])
        if text == PDU and PDU not in self.nodes:
            return self._whole_pdu()
        node_name, _, interface = text.partition(":")
        node = self.nodes.get(node_name)
        if node is None:
            if ":" in text:
                raise ConfigError(unknown("node", node_name, self.nodes))
            raise ConfigError(unknown("part of the lab", text, [*self.nodes, *self.switches, PDU]))
        if not interface:
            return self._whole_node(node)
        cables = [cable for cable in node.cables if interface in (cable.spec.name, cable.spec.device)]
        if not cables:
            names = [cable.spec.name for cable in node.cables]
            raise ConfigError(unknown("interface", interface, names, f"node {node_name}"))
        return NodeTarget(self, node, cables[:1], whole=False)


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


_log = logging.getLogger(__name__)


class ControlServer:
    """Answer lines of ``{"op": NAME, ...}`` with ``{"result": ...}``, or ``{"error": TEXT, "mistake": BOOL}``."""

    def __init__(self, lab: str, machines: Machines) -> None:
        self._lab = lab
        self._machines = machines

    async def serve(self, path: Path) -> None:
        """Start to accept clients."""
        await asyncio.start_unix_server(self._client, path)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            return {"result": await self._run(json.loads(line))}
        except PinetError as error:
            return {"error": str(error), "mistake": isinstance(error, ConfigError)}
        except Exception as error:  # after any error, the lab continues and the client gets the message
            _log.exception("control request failed")
            return {"error": f"the lab's daemon failed: {error!r}", "mistake": False}

    async def _run(self, request: dict[str, Any]) -> object:
        match request.get("op"):
            case "ping":
                return self._lab
            case "status":
                return self._status()
            case "degrade":
                return await self._machines.degrade(request)
            case "restore":
                return await self._machines.restore(request)
        raise ConfigError(f"the lab's daemon has no operation {request.get('op')!r}")

    def _status(self) -> dict[str, object]:
        machines = self._machines
        return {
            "lab": self._lab,
            "nodes": [_node_status(node) for node in machines.nodes.values()],
            "switches": [_switch_status(switch) for switch in machines.switches.values()],
            "pdu": _pdu_status(machines.pdu, list(machines.nodes)),
        }


def _pdu_status(pdu: Pdu, nodes: list[str]) -> dict[str, object]:
    faults = ["does not answer"] if pdu.faults.dead else []
    lying = [nodes[index - 1] for index in sorted(pdu.faults.lying)]
    if lying:
        faults.append("lies" if len(lying) == len(pdu.outlets) else f"lies about {', '.join(lying)}")
    return {"port": pdu.port, "faults": faults}


def _switch_status(switch: VirtualSwitch) -> dict[str, object]:
    return {
        "name": switch.spec.name,
        "ssh": switch.management.port,
        "up": switch.container is not None and switch.container.running,
        "faults": ["does not answer"] if switch.dead else [],
        "groups": switch.groups(),
    }


def _node_status(node: VirtualNode) -> dict[str, object]:
    faults = ["console hangs"] if node.console.dead else []
    faults += ["panics at boot"] if node.panics_at_boot else []
    faults += [f"firmware: {name}" for bit, name in enumerate(THROTTLING) if node.throttled >> bit & 1]
    faults += ["hangs in a kernel panic"] if node.panicked else []
    return {
        "name": node.spec.name,
        "board": node.spec.board.name,
        "place": node.spec.place,
        "user": node.spec.user,
        "outlet": node.spec.outlet,
        "power": "on" if node.on else "off",
        "frozen": node.frozen,
        "faults": faults,
        "console": node.console.port,
        "ssh": node.relay.port,
        "interfaces": [_interface_status(cable) for cable in node.cables],
    }


def _interface_status(cable: Cable) -> dict[str, object]:
    spec, shape = cable.spec, cable.shape
    plugged = [f"plugged into {cable.switch.spec.name}/{cable.port}"] if cable.displaced else []
    return {
        "name": spec.name,
        "device": spec.device,
        "switch": spec.port.switch,
        "port": spec.port.port,
        "speed_mbps": spec.speed_mbps,
        "model": shape.model,
        "mtu": cable.mtu,
        # Goodput of one TCP flow with timestamps, including faults. Like all goodput values, it is given at full link
        # rate.
        "tx_goodput_bps": goodput(shape.tx_bps, cable.mtu) / cable.scale * cable.faults.tx_rate,
        "rx_goodput_bps": goodput(shape.rx_bps, cable.mtu) / cable.scale * cable.faults.rx_rate,
        "faults": [*cable.faults.words(), *plugged],
    }
