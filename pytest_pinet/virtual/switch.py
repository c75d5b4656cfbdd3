"""A virtual switch: Linux bridges in a namespace of its own, managed over ssh like a real one."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.model.lab import Switch
from pytest_pinet.virtual import boot_files
from pytest_pinet.virtual.container import Container
from pytest_pinet.virtual.link_models import arbiter, from_port
from pytest_pinet.virtual.loopback import SSH_PORT, Relay
from pytest_pinet.virtual.namespaces import Netlink, NetNamespace, ip
from pytest_pinet.virtual.spec import BRIDGE

# A host of a virtual switch in a tagged VLAN, without 802.1Q in this machine's kernel.
#
# The host's interface is a tap. This process adds the tag to its frames and sends them by the bridge, and removes the
# tag from frames of this VLAN that the bridge delivers. ssh needs no more than this.


_ETH_P_ALL, _8021Q = 0x0003, 0x8100
_SOL_PACKET, _AUXDATA, _VNET_HDR = 263, 8, 15
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000
# struct tpacket_auxdata of <linux/if_packet.h>: status, lengths and offsets, the VLAN's tag and its type.
_AUX = struct.Struct("IIIHHHH")
_VLAN_VALID = 1 << 4
# struct virtio_net_hdr: offloads of a frame that is larger than the MTU, or has no checksum yet.
_OFFLOADS = 10
_MACS = 12
_LARGEST = 70_000


class TaggedHost:
    """The interface of the switch's own host in one VLAN."""

    def __init__(self, namespace: NetNamespace, vlan: int, address: str) -> None:
        self._namespace = namespace
        self._vlan = vlan
        self._address = address
        self._tap = -1
        self._bridge: socket.socket | None = None

    async def build(self) -> None:
        """Create the interface and start to forward. The bridge must exist. Raises LabError."""
        device = f"vlan{self._vlan}"
        with self._namespace.entered():
            self._tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
            fcntl.ioctl(self._tap, _TUNSETIFF, struct.pack("16sH22x", device.encode(), flags))
            bridge = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_ALL))
        self._bridge = bridge
        bridge.bind((BRIDGE, _ETH_P_ALL))
        for option in (_AUXDATA, _VNET_HDR):
            bridge.setsockopt(_SOL_PACKET, option, 1)
        # A bridge delivers only frames to its own address.
        mac = ":".join(f"{byte:02x}" for byte in bridge.getsockname()[4])
        await ip(
            self._namespace,
            [f"link set dev {device} address {mac} up", f"address add {self._address} dev {device}"],
        )
        loop = asyncio.get_running_loop()
        loop.add_reader(self._tap, self._send)
        loop.add_reader(bridge.fileno(), self._receive)

    def close(self) -> None:
        """Stop forwarding. The interface ends."""
        loop = asyncio.get_running_loop()
        if self._bridge is not None:
            loop.remove_reader(self._bridge.fileno())
            self._bridge.close()
            self._bridge = None
        if self._tap >= 0:
            loop.remove_reader(self._tap)
            os.close(self._tap)
            self._tap = -1

    def _send(self) -> None:
        assert self._bridge is not None
        # A full queue drops frames, as a wire does.
        with suppress(OSError):
            frame = os.read(self._tap, _LARGEST)
            head, rest = frame[: _OFFLOADS + _MACS], frame[_OFFLOADS + _MACS :]
            self._bridge.send(head + struct.pack("!HH", _8021Q, self._vlan) + rest)

    def _receive(self) -> None:
        assert self._bridge is not None
        with suppress(OSError):
            frame, ancillary, _, address = self._bridge.recvmsg(_LARGEST, socket.CMSG_SPACE(_AUX.size))
            if address[2] == socket.PACKET_OUTGOING:
                return
            for level, kind, data in ancillary:
                if (level, kind) != (_SOL_PACKET, _AUXDATA):
                    continue
                status, *_, tag, _ = _AUX.unpack(data[: _AUX.size])
                if status & _VLAN_VALID and tag & 0xFFF == self._vlan:
                    os.write(self._tap, frame)


READY_TIMEOUT_S = 10.0
# MTU of the ports, as in most gigabit switches. The ends choose the size of their frames.
LARGEST_MTU = 9216
_POLL_S = 0.005


class VirtualSwitch:
    """A virtual switch. ``management`` reaches its ssh server; ``drawer`` is a namespace for loose cable ends.

    ``first_index`` is the kernel's index of its first port. Indices are unique in the lab, and a port keeps its index.
    """

    def __init__(
        self,
        spec: Switch,
        directory: Path,
        management: Relay,
        drawer: NetNamespace,
        first_index: int,
    ) -> None:
        self.spec = spec
        self.management = management
        self.namespace = NetNamespace()
        self.drawer = drawer
        # The ports that have led to nodes.
        self.node_ports: set[str] = set()
        # By VLAN (None: no tag), the address of the switch in the network by which boards with one port are reached.
        self.gateways: dict[int | None, str] = {}
        self._hosts: list[TaggedHost] = []
        # Ports that lead to other switches.
        self.uplinks: set[str] = set()
        # Whether the management does not answer.
        self.dead = False
        self._netlink = Netlink(self.namespace)
        self._replaced: set[str] = set()
        self._directory = directory
        self._first_index = first_index
        self.container: Container | None = None

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
        inputs = [from_port(other) for other in sorted(self.node_ports | self.uplinks) if other != port]
        return [bucket, *arbiter(port, rate_bps, inputs)]

    def index(self, port: str) -> int:
        """Return the kernel's index of a port. It stays the same when cables are pulled."""
        return self._first_index + self.spec.ports.index(port)

    async def boot(self, keys: Path, speeds_mbps: Mapping[str, int]) -> None:
        """Start the management, on loopback. Raises LabError if it does not come up."""
        boot_files.write_switch(self._directory, self.spec, keys, speeds_mbps)
        log = self._directory.with_suffix(".log")
        log.touch()
        environment = {
            "ROLE": "switch",
            "DEVICES": "",
            "PORTS": ",".join(self.spec.ports),
        }
        self.container = await Container.start(self.spec.name, self.namespace, self._directory, environment, str(log))
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not await self._has_ssh():
            if not self.container.running or asyncio.get_running_loop().time() > deadline:
                raise LabError(
                    f"the ssh service of switch {self.spec.name} did not start within {READY_TIMEOUT_S:g} s",
                    f"look at {log}",
                )
            await asyncio.sleep(_POLL_S)
        self.management.connect_to(self.namespace)

    async def _has_ssh(self) -> bool:
        with self.namespace.tcp_socket() as sock:
            sock.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", SSH_PORT))
            except OSError:
                return False
            return True

    def set_dead(self, dead: bool) -> None:
        """Let the management not answer, or answer again. Forwarding is not changed."""
        self.dead = dead
        self.management.freeze(dead)

    def groups(self) -> dict[str, str | None]:
        """Return the bridge that each port is really in, even if the switch's management reports another one."""
        links = self._netlink.links()
        names = {link.index: link.name for link in links.values()}
        masters = {port: links[port].master for port in self.spec.ports if port in links}
        return {port: None if master is None else names.get(master) for port, master in masters.items()}

    @asynccontextmanager
    async def replacing(self, port: str) -> AsyncIterator[None]:
        """Keep the settings of a port while its device is replaced by another one. Raises LabError."""
        links = self._netlink.links()
        before = links[port]
        bridge = next((link.name for link in links.values() if link.index == before.master), None)
        self._replaced.add(port)
        try:
            await self._announce()
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
        if self.container is not None:
            await self.container.command(["sh", "-c", f"echo {speed_mbps} > /run/pinet/phy/{port}/speed"])

    def take_from_drawer(self, device: str, port: str) -> None:
        """Move a loose cable end from the drawer to one of the switch's ports."""
        with closing(Netlink(self.drawer)) as drawer:
            drawer.move(drawer.links()[device].index, self.namespace, port, self.index(port))

    async def stop(self) -> None:
        """Stop the management. Ports and bridges end with the daemon."""
        self.management.connect_to(None)
        for host in self._hosts:
            host.close()
        self._netlink.close()
        if self.container is not None:
            await self.container.kill()
            self.container = None
