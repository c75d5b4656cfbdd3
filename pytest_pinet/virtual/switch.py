"""A virtual switch: a Linux bridge in a namespace of its own, managed over ssh like a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.virtual import boot_files
from pytest_pinet.virtual.commands import ip, run, tc
from pytest_pinet.virtual.container import Container
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.relay import Relay
from pytest_pinet.virtual.spec import SwitchSpec

BRIDGE = "br0"
READY_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class PortState:
    """How somebody set a port."""

    admin_up: bool
    bridge: str | None
    mtu: int
    mac: str


class VirtualSwitch:
    """``drawer`` is a namespace where loose ends of cables lie."""

    def __init__(self, spec: SwitchSpec, directory: Path, relay: Relay, drawer: NetNamespace) -> None:
        self.spec = spec
        self.relay = relay
        self.namespace = NetNamespace()
        self.drawer = drawer
        self._directory = directory
        self._container: Container | None = None

    @property
    def container(self) -> Container | None:
        return self._container

    async def build(self, cabled: dict[str, str]) -> None:
        """Make the bridge and all ports; ``cabled`` has the ``ip`` words of the far end by port."""
        # A switch is no host: it must not speak on the ports that it forwards between.
        for scope in ("all", "default"):
            self.namespace.set_sysctl(f"net.ipv6.conf.{scope}.disable_ipv6", "1")
        lines = [f"link add name {BRIDGE} type bridge stp_state 0 forward_delay 0", f"link set dev {BRIDGE} up"]
        for port in self.spec.ports:
            # The far end of a free port lies in the drawer, down for ever. The kernel names it.
            far_end = cabled.get(port, f"netns {self.drawer.path}")
            lines.append(f"link add name {port} type veth peer {far_end}")
            lines.append(f"link set dev {port} master {BRIDGE} up")
        await ip(self.namespace, lines)

    async def limit(self, lines: Sequence[str]) -> None:
        """Run ``tc`` lines here, to shape what the ports send."""
        await tc(self.namespace, lines)

    async def boot(self, keys: Path, speeds_mbps: dict[str, int]) -> None:
        """Start its management: ssh on loopback. Raises LabError when it does not come up."""
        boot_files.write_switch(self._directory, self.spec, keys, speeds_mbps)
        log = self._directory.with_suffix(".log")
        log.touch()
        self._container = await Container.start(
            self.spec.name, self.namespace, self._directory, {"ROLE": "switch", "DEVICES": ""}, str(log)
        )
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not await self._listens():
            if not self._container.running or asyncio.get_running_loop().time() > deadline:
                raise LabError(f"the management of switch {self.spec.name} did not come up in {READY_TIMEOUT_S:g} s")
            await asyncio.sleep(0.02)
        self.relay.connect_to(self.namespace)

    async def _listens(self) -> bool:
        sock = self.namespace.tcp_socket()
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", 22))
        except OSError:
            return False
        finally:
            sock.close()
        return True

    async def port_state(self, port: str) -> PortState:
        """How a port is set now."""
        out = await run(["nsenter", f"--net={self.namespace.path}", "ip", "-json", "link", "show", "dev", port])
        link = json.loads(out)[0]
        return PortState("UP" in link["flags"], link.get("master"), link["mtu"], link["address"])

    def settings_lines(self, port: str, state: PortState) -> list[str]:
        """``ip`` lines that set a port as ``state`` says."""
        lines = [f"link set dev {port} mtu {state.mtu}"]
        if state.bridge is not None:
            lines.append(f"link set dev {port} master {state.bridge}")
        return [*lines, f"link set dev {port} {'up' if state.admin_up else 'down'}"]

    async def show_phy(self, port: str) -> None:
        """Put the PHY's files over a port that was exchanged."""
        if self._container is not None:
            for value in ("speed", "duplex"):
                source = f"/run/pinet/phy/{port}/{value}"
                await self._container.command(["mount", "--bind", source, f"/sys/class/net/{port}/{value}"])

    async def stop(self) -> None:
        """End its management; ports and bridges go with the daemon."""
        self.relay.connect_to(None)
        if self._container is not None:
            await self._container.kill()
            self._container = None
