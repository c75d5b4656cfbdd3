"""The daemon that creates the virtual hardware: ``python -m pytest_pinet.virtual.daemon DIRECTORY``.

It reads the lab from ``spec.pickle`` in that directory, writes its ports to ``ports.json`` as soon as they are bound,
and answers on ``control.sock`` when the lab is complete. It holds all resources by file descriptors, so that the kernel
frees them when the daemon ends.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.virtual.cable import Cable, VirtualUplink
from pytest_pinet.virtual.container import ProcessId, end
from pytest_pinet.virtual.control import ControlServer, Machines
from pytest_pinet.virtual.loopback import Console, Pdu, Relay
from pytest_pinet.virtual.namespaces import NetNamespace, tc
from pytest_pinet.virtual.node import Folders, VirtualNode
from pytest_pinet.virtual.runtime import Runtime
from pytest_pinet.virtual.spec import LabSpec, NodeSpec
from pytest_pinet.virtual.switch import VirtualSwitch

_log = logging.getLogger("pinet-daemon")


# The module that creates emulated boards. It is imported only if the lab has some.
EMULATED = "pytest_pinet.emulated.node"
# The last user of a lab stops it. If that user was killed, the lab stops itself after so many looks at its users.
UNUSED_LOOKS, LOOK_S = 3, 4.0
# Each switch has its own range of port indices, so that an index is unique in every namespace.
_INDICES_PER_SWITCH = 1000


class Daemon:
    """One virtual lab."""

    def __init__(self, runtime: Runtime, spec: LabSpec) -> None:
        self._runtime = runtime
        self._lab = spec.lab
        scale = spec.lab.scale or 1.0
        self._drawer = NetNamespace()
        self.switches = {
            switch.name: VirtualSwitch(
                switch,
                runtime.path / "boot" / f"switch-{switch.name}",
                Relay(),
                self._drawer,
                number * _INDICES_PER_SWITCH + 1,
            )
            for number, switch in enumerate(spec.lab.switches.values(), start=1)
        }
        self.nodes = {node.node.name: self._node(node, spec) for node in spec.nodes}
        self._pdu = Pdu(dict(enumerate(self.nodes.values(), start=1)))
        self.uplinks = [
            VirtualUplink(uplink, (self.switches[uplink.ports[0].switch], self.switches[uplink.ports[1].switch]), scale)
            for uplink in spec.lab.uplinks.values()
        ]
        index = count()
        for own in spec.nodes:
            node = self.nodes[own.node.name]
            stations = [nic.mac for other in spec.nodes if other is not own for nic in other.interfaces]
            node.plug(
                [
                    Cable(next(index), nic, self.switches[nic.interface.port.switch], node.namespace, stations, scale)
                    for nic in own.interfaces
                ]
            )
            if node.way is not None:
                node.cable_of(node.way.device).switch.gateways[node.way.vlan] = node.way.gateway
        self._stopped = asyncio.Event()
        self._abandoned = False

    def _node(self, spec: NodeSpec, lab: LabSpec) -> VirtualNode:
        """Create a virtual or emulated board, as the specification says."""
        runtime, name = self._runtime, spec.node.name
        console = Console(runtime.path / f"console-{name}.log", runtime.path.stat().st_uid)
        boot = runtime.path / "boot" / name
        # A board with a virtual clock must not wait for its peer, because it counts the wait as its own time.
        hurried = any(one.node.clock == VIRTUAL for one in lab.nodes)
        if not spec.node.is_emulated:
            folders = Folders(boot, runtime.path / "cards" / name, runtime.keys)
            return VirtualNode(spec, folders, console, self._remember, hurried)
        if lab.image is None:
            raise LabError(f"{name} runs in QEMU, but its lab was started without a card image")
        folders = Folders(boot, runtime.cards(lab.image) / name, runtime.keys)
        emulated = importlib.import_module(EMULATED)
        node: VirtualNode = emulated.EmulatedNode(spec, folders, console, self._remember, Path(lab.image))
        return node

    def _write_ports(self) -> None:
        """Write all ports to ``ports.json`` early, so that the exporter can start while the lab is built."""
        own = ProcessId.of(os.getpid())
        self._runtime.write_json(
            "ports.json",
            {
                "process": vars(own) if own else None,
                "pdu": self._pdu.port,
                "nodes": {n: {"console": v.console.port, "ssh": v.relay.port} for n, v in self.nodes.items()},
                "switches": {name: switch.management.port for name, switch in self.switches.items()},
            },
        )

    async def build(self) -> None:
        """Create switches, cables and NICs, and start to listen. Raises LabError."""
        for switch in self.switches.values():
            cables = self._cables_of(switch)
            await switch.build({cable.port: cable.far_end for cable in cables})
        for uplink in self.uplinks:
            await uplink.build()
        await asyncio.gather(*(self._start(switch) for switch in self.switches.values()))
        for node in self.nodes.values():
            await node.console.serve()
            await node.relay.serve()
        await self._pdu.serve()

    def _cables_of(self, switch: VirtualSwitch) -> list[Cable]:
        return [cable for node in self.nodes.values() for cable in node.cables if cable.switch is switch]

    async def _start(self, switch: VirtualSwitch) -> None:
        """Shape the traffic that the switch's ports send, and start the switch's management."""
        cables = self._cables_of(switch)
        lines = [line for cable in cables for line in cable.switch_queues()]
        lines += [line for uplink in self.uplinks for line in uplink.queues(switch)]
        await tc(switch.namespace, lines)
        await switch.management.serve()
        speeds = {cable.port: cable.spec.speed_mbps for cable in cables}
        speeds |= {
            port: uplink.spec.speed_mbps
            for uplink in self.uplinks
            if (port := uplink.spec.port_on(switch.spec.name)) is not None
        }
        await switch.boot(self._runtime.keys, speeds)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then remove everything."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        self._write_ports()
        try:
            await self.build()
            machines = Machines(self.nodes, self.switches, self._pdu)
            await ControlServer(self._lab.name, machines).serve(self._runtime.control)
            owner = self._runtime.path.stat()
            os.chown(self._runtime.control, owner.st_uid, owner.st_gid)
            self._remember()
            _log.info("lab %s is up", self._lab.name)
            await self._end_of_use()
        finally:
            await self._stop()
            if self._abandoned:
                self._runtime.remove_abandoned()

    async def _end_of_use(self) -> None:
        """Wait for a signal, or until the lab has been without a user for a while: its last user was killed."""
        looks = 0
        while looks < UNUSED_LOOKS:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), LOOK_S)
                return
            looks = looks + 1 if self._runtime.is_abandoned(last_look=looks + 1 == UNUSED_LOOKS) else 0
        _log.info("no process uses the lab")
        self._abandoned = True

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
        """Write down the processes that must end with the lab, for the cleanup after a crash."""
        containers = [n.container for n in self.nodes.values()] + [s.container for s in self.switches.values()]
        identities = [i for c in containers if c is not None for i in c.identities()]
        self._runtime.write_json("machines.json", {"processes": [vars(identity) for identity in identities]})


def main(arguments: list[str]) -> int:
    """Run the lab in the directory ``arguments[0]``."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    os.umask(0o022)
    os.environ["PATH"] = f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', '')}"
    runtime = Runtime(Path(arguments[0]))
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(Daemon(runtime, LabSpec.read(runtime.spec)).run())
    except LabError as error:
        _log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
