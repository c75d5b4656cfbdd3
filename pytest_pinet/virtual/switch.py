"""A virtual switch: Linux bridges in a namespace of its own, managed over ssh or SNMP like a real one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.model.lab import Switch
from pytest_pinet.virtual import boot_files
from pytest_pinet.virtual.agentx import SubAgent
from pytest_pinet.virtual.container import Container
from pytest_pinet.virtual.credentials import SnmpAccess
from pytest_pinet.virtual.firmware import BRIDGE, SwitchFaults, SwitchFirmware
from pytest_pinet.virtual.namespaces import NetNamespace, ip
from pytest_pinet.virtual.netlink import Netlink
from pytest_pinet.virtual.pdu import Outlet
from pytest_pinet.virtual.relay import SSH_PORT, Relay
from pytest_pinet.virtual.shaping import arbiter, count_arrivals, from_port
from pytest_pinet.virtual.spec import way_to_manage
from pytest_pinet.virtual.switch_objects import SwitchObjects
from pytest_pinet.virtual.tagged import TaggedHost
from pytest_pinet.virtual.udp_relay import UdpRelay

READY_TIMEOUT_S = 10.0
# MTU of the ports, as in most gigabit switches. The ends choose the size of their frames.
LARGEST_MTU = 9216
_POLL_S = 0.005


class VirtualSwitch:
    """A virtual switch. ``management`` reaches its ssh or SNMP agent; ``drawer`` is a namespace for loose cable ends.

    ``first_index`` is the kernel's index of its first port. Indices are unique in the lab, and a port keeps its index.
    """

    def __init__(
        self,
        spec: Switch,
        directory: Path,
        management: Relay | UdpRelay,
        drawer: NetNamespace,
        first_index: int,
    ) -> None:
        self.spec = spec
        self.management = management
        # A second way to the same agent, for a client that can use only one port and one community (labgrid's poe_mib).
        self.poe_relay: UdpRelay | None = None
        self.namespace = NetNamespace()
        self.drawer = drawer
        # The ports that lead to nodes. Each function returns how many frames the cable has broken.
        self.broken_frames: dict[str, Callable[[], int]] = {}
        # By VLAN (None: no tag), the address of the switch in the network by which boards with one port are reached.
        self.gateways: dict[int | None, str] = {}
        self._hosts: list[TaggedHost] = []
        # Ports that lead to other switches.
        self.uplinks: set[str] = set()
        self.firmware = SwitchFirmware(spec.ports, self.namespace, self._damaged)
        self._replaced: set[str] = set()
        self._directory = directory
        self._first_index = first_index
        self.container: Container | None = None
        self._agent = SubAgent(SwitchObjects(self.firmware))

    @property
    def relays(self) -> list[Relay | UdpRelay]:
        """All ways to the management."""
        return [self.management] if self.poe_relay is None else [self.management, self.poe_relay]

    def power(self, outlets: Mapping[str, Outlet], relay: UdpRelay) -> None:
        """Let the ports power these nodes. ``relay`` is the way to the agent for the client that switches them."""
        self.firmware.power(outlets)
        self.poe_relay = relay

    async def build(self, cabled: dict[str, str]) -> None:
        """Create the bridge and all ports. ``cabled`` holds the ``ip`` words of the far ends by port."""
        # A switch is no host: it must send nothing of its own on the ports that it forwards between.
        for scope in ("all", "default"):
            self.namespace.set_sysctl(f"net.ipv6.conf.{scope}.disable_ipv6", "1")
        lines = [f"link add name {BRIDGE} type bridge stp_state 0 forward_delay 0", f"link set dev {BRIDGE} up"]
        for port in self.spec.ports:
            if port in self.uplinks:
                continue
            # The far end of a free port stays in the drawer, down. The kernel chooses its name.
            far_end = cabled.get(port, f"netns {self.drawer.path}")
            lines.append(f"link add name {port} index {self.index(port)} mtu {LARGEST_MTU} type veth peer {far_end}")
            lines.append(f"link set dev {port} master {BRIDGE} up")
        lines += [f"address add {gateway} dev {BRIDGE}" for vlan, gateway in self.gateways.items() if vlan is None]
        await ip(self.namespace, lines)
        self._hosts = [TaggedHost(self.namespace, vlan, way) for vlan, way in self.gateways.items() if vlan is not None]
        for host in self._hosts:
            await host.build()

    def queues(self, port: str, rate_bps: float, bucket: str) -> list[str]:
        """Return ``tc`` lines for a new device of a port: its ``bucket``, and a queue for each other used port."""
        inputs = [from_port(other) for other in (*self.broken_frames, *sorted(self.uplinks)) if other != port]
        return [bucket, *arbiter(port, rate_bps, inputs), *count_arrivals(port)]

    def index(self, port: str) -> int:
        """Return the kernel's index of a port. It stays the same when cables are pulled."""
        return self._first_index + self.spec.ports.index(port)

    async def boot(self, keys: Path, speeds_mbps: Mapping[str, int], access: SnmpAccess) -> None:
        """Start the management, on loopback. Raises LabError if it does not come up."""
        self.firmware.negotiate(speeds_mbps)
        boot_files.write_switch(self._directory, self.spec, keys, speeds_mbps, access)
        log = self._directory.with_suffix(".log")
        log.touch()
        environment = {
            "ROLE": "switch",
            "DEVICES": "",
            "PORTS": ",".join(self.spec.ports),
            "MANAGEMENT": way_to_manage(self.spec),
            "AGENTX_PORT": str(boot_files.AGENTX_PORT),
        }
        self.container = await Container.start(self.spec.name, self.namespace, self._directory, environment, str(log))
        snmp = way_to_manage(self.spec) == "snmp"
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while (sock := await self._connected(boot_files.AGENTX_PORT if snmp else SSH_PORT)) is None:
            if not self.container.running or asyncio.get_running_loop().time() > deadline:
                raise LabError(
                    f"the ssh or SNMP service of switch {self.spec.name} did not start within {READY_TIMEOUT_S:g} s",
                    f"look at {log}",
                )
            await asyncio.sleep(_POLL_S)
        if snmp:
            await self._agent.connect(*await asyncio.open_connection(sock=sock))
        else:
            sock.close()
        for relay in self.relays:
            relay.connect_to(self.namespace)

    async def _connected(self, port: int) -> socket.socket | None:
        sock = self.namespace.tcp_socket()
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            return None
        return sock

    def set_faults(self, faults: SwitchFaults) -> None:
        """Apply ``faults`` to the management. Forwarding is not changed."""
        self.firmware.set_faults(faults)
        for relay in self.relays:
            relay.freeze(faults.dead)

    def _damaged(self) -> dict[str, int]:
        return {port: count() for port, count in self.broken_frames.items()}

    @asynccontextmanager
    async def replacing(self, port: str) -> AsyncIterator[None]:
        """Keep the settings and counters of a port while its device is replaced by another one. Raises LabError."""
        links = self.firmware.snapshot(fresh=True).links
        before = links[port]
        bridge = next((link.name for link in links.values() if link.index == before.master), None)
        self._replaced.add(port)
        try:
            await self._announce()
            with self.firmware.exchanging(port):
                yield
        finally:
            self._replaced.remove(port)
        lines = [f"link set dev {port} address {before.mac} mtu {before.mtu}"]
        lines += [f"link set dev {port} master {bridge}"] if bridge is not None else []
        await ip(self.namespace, [*lines, f"link set dev {port} {'up' if before.admin_up else 'down'}"])
        if self.container is not None:
            for value in ("speed", "duplex"):
                source = f"/run/pinet/phy/{port}/{value}"
                await self.container.command(["mount", "--bind", source, f"/sys/class/net/{port}/{value}"])
        await self._announce()

    async def _announce(self) -> None:
        """Run LLDP on all ports. It leaves out ports in replacement: lldpd would keep listening on the old device."""
        if self.container is not None:
            pattern = ",".join(port for port in self.spec.ports if port not in self._replaced)
            with suppress(LabError):  # without lldpd, cables can still be pulled
                await self.container.command(["lldpcli", "configure", "system", "interface", "pattern", pattern])

    async def negotiated(self, port: str, speed_mbps: int) -> None:
        """Set the PHY speed of a port, while another cable is plugged in."""
        self.firmware.negotiate({port: speed_mbps})
        if self.container is not None:
            await self.container.command(["sh", "-c", f"echo {speed_mbps} > /run/pinet/phy/{port}/speed"])

    def take_from_drawer(self, device: str, port: str) -> None:
        """Move a loose cable end from the drawer to one of the switch's ports."""
        drawer = Netlink(self.drawer)
        try:
            drawer.move(drawer.links()[device].index, self.namespace, port, self.index(port))
        finally:
            drawer.close()

    async def stop(self) -> None:
        """Stop the management. Ports and bridges end with the daemon."""
        for relay in self.relays:
            relay.connect_to(None)
        for host in self._hosts:
            host.close()
        await self._agent.close()
        self.firmware.close()
        if self.container is not None:
            await self.container.kill()
            self.container = None
