"""The server of the daemon's control socket: status and faults. The client is ``Runtime.ask``."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.virtual.cable import Cable
from pytest_pinet.virtual.degrade import Machines
from pytest_pinet.virtual.link_models import goodput
from pytest_pinet.virtual.node import THROTTLING, VirtualNode
from pytest_pinet.virtual.pdu import Pdu
from pytest_pinet.virtual.switch import VirtualSwitch

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
