"""The daemon that is the hardware: ``python -m pytest_pinet.virtual.daemon DIRECTORY``.

It finds what to build in ``spec.json`` there, tells its ports in ``ports.json`` as soon as they are bound, and answers
on ``control.sock`` when everything stands. Whatever it makes, it holds by file descriptors, so nothing outlives it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_pinet.virtual.cable import Cable
from pytest_pinet.virtual.console import Console
from pytest_pinet.virtual.control import ControlServer
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.node import VirtualNode
from pytest_pinet.virtual.operations import Operations
from pytest_pinet.virtual.pdu import Outlet, Pdu
from pytest_pinet.virtual.processes import ProcessId, end
from pytest_pinet.virtual.relay import Relay
from pytest_pinet.virtual.runtime import Runtime
from pytest_pinet.virtual.shaping import port_queue, token_bucket
from pytest_pinet.virtual.spec import LabSpec
from pytest_pinet.virtual.switch import VirtualSwitch

_log = logging.getLogger("pinet-daemon")


def _loopback() -> socket.socket:
    """A bound port of the host's loopback that does not listen yet."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    return sock


class Daemon:
    """One virtual lab."""

    def __init__(self, runtime: Runtime, spec: LabSpec) -> None:
        self._runtime = runtime
        self._spec = spec
        self._drawer = NetNamespace()
        owner = runtime.path.stat().st_uid
        self.switches = {
            s.name: VirtualSwitch(s, runtime.path / "boot" / f"switch-{s.name}", Relay(_loopback()), self._drawer)
            for s in spec.switches
        }
        self.nodes = {
            n.name: VirtualNode(
                n,
                runtime.path / "boot" / n.name,
                runtime.keys,
                Console(_loopback(), runtime.path / f"console-{n.name}.log", owner),
                Relay(_loopback()),
            )
            for n in spec.nodes
        }
        outlets: dict[int, Outlet] = dict(enumerate(self.nodes.values(), start=1))
        self._pdu = Pdu(_loopback(), outlets)
        count = 0
        for node in self.nodes.values():
            cables = []
            for interface in node.spec.interfaces:
                cables.append(Cable(count, interface, self.switches[interface.switch], node.namespace))
                count += 1
            node.cables = cables
            node.changed = self._remember
        self._stopped = asyncio.Event()

    def tell_ports(self) -> None:
        """Say where everything will listen, so that the exporter can start while the lab is built."""
        own = ProcessId.of(os.getpid())
        self._runtime.write_json(
            "ports.json",
            {
                "process": vars(own) if own else None,
                "pdu": self._pdu.port,
                "nodes": {n: {"console": v.console.port, "ssh": v.relay.port} for n, v in self.nodes.items()},
                "switches": {name: switch.relay.port for name, switch in self.switches.items()},
            },
        )

    async def build(self) -> None:
        """Make switches, cables and NICs, and start to listen. Raises LabError."""
        await asyncio.gather(*(self._build_switch(switch) for switch in self.switches.values()))
        for node in self.nodes.values():
            await node.console.serve()
            await node.relay.serve()
        await self._pdu.serve()

    async def _build_switch(self, switch: VirtualSwitch) -> None:
        cables = [c for n in self.nodes.values() for c in n.cables if c.switch is switch]
        await switch.build({cable.spec.port: cable.far_end for cable in cables})
        await switch.limit(
            [token_bucket(c.spec.port, c.spec.shape.wire_bps, port_queue(c.spec.shape.wire_bps)) for c in cables]
        )
        await switch.relay.serve()
        await switch.boot(self._runtime.keys, {cable.spec.port: cable.spec.speed_mbps for cable in cables})

    async def run(self) -> None:
        """Live until SIGTERM or SIGINT, then leave nothing behind."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        self.tell_ports()
        try:
            await self.build()
            operations = Operations(self._spec.name, self.nodes, self.switches, self._remember, self._stopped.set)
            await ControlServer(self._runtime.control, operations.table()).serve()
            owner = self._runtime.path.stat()
            os.chown(self._runtime.control, owner.st_uid, owner.st_gid)
            self._remember()
            _log.info("lab %s is up", self._spec.name)
            await self._stopped.wait()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        results = await asyncio.gather(
            *(node.power_off() for node in self.nodes.values()),
            *(switch.stop() for switch in self.switches.values()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                _log.error("while stopping: %s", result)
        state = self._runtime.read_json("state.json") or {}
        processes = state.get("processes", {})
        end([ProcessId(**processes[name]) for name in ("exporter", "coordinator") if name in processes], 2.0)

    def _remember(self) -> None:
        """Write down which processes must be gone when the lab is, for who cleans up after a crash."""
        containers = [n.container for n in self.nodes.values()] + [s.container for s in self.switches.values()]
        identities = [i for c in containers if c is not None for i in c.identities()]
        self._runtime.write_json("machines.json", {"processes": [vars(identity) for identity in identities]})


def main(arguments: list[str]) -> int:
    """Run the lab that ``arguments[0]`` describes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    os.umask(0o022)
    os.environ["PATH"] = f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', '')}"
    runtime = Runtime(Path(arguments[0]))
    data: Mapping[str, Any] | None = runtime.read_json("spec.json")
    if data is None:
        _log.error("no spec.json in %s", runtime.path)
        return 2

    async def run() -> None:
        await Daemon(runtime, LabSpec.from_json(data)).run()

    with suppress(KeyboardInterrupt):
        asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
