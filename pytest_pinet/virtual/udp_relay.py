"""A loopback UDP port of the host that reaches an SNMP agent inside a namespace."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections import OrderedDict
from contextlib import suppress

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.loopback import udp_socket, udp_uids
from pytest_pinet.virtual.namespaces import NetNamespace

AGENT = ("127.0.0.1", 161)
# Each client gets a socket in the namespace. With too many clients, the one that was silent longest loses it.
MOST_CLIENTS = 256
_POE_ATTEMPTS = 8
_Address = tuple[str, int]


def poe_socket(owner: str) -> socket.socket:
    """Return a socket on port 161 of an unused loopback address. labgrid's poe_mib can use no other port.

    The address is the same for each start of the same ``owner``. Raises LabError if all tried addresses are in use.
    """
    for attempt in range(_POE_ATTEMPTS):
        first, second, third = hashlib.sha256(f"{owner}#{attempt}".encode()).digest()[:3]
        with suppress(OSError):
            return udp_socket((f"127.{first % 254 + 1}.{second}.{third % 254 + 1}", AGENT[1]))
    raise LabError(
        "another process uses UDP port 161 of all loopback addresses; nodes with `outlet: poe_mib` need this port",
        "stop the machine's own snmpd, or let it listen on one address only (agentAddress udp:127.0.0.1:161)",
    )


class UdpRelay:
    """Forward datagrams of the user ``owner`` and of root to the agent, and the answers back. Ignore other users.

    ``source`` is the address that the agent sees. A ``dead`` relay drops everything.
    """

    def __init__(self, owner: int, sock: socket.socket | None = None, source: str = "127.0.0.1") -> None:
        self._socket = sock or udp_socket()
        self._owner = owner
        self._source = source
        self._namespace: NetNamespace | None = None
        self._clients: OrderedDict[_Address, asyncio.DatagramTransport] = OrderedDict()
        self._near: asyncio.DatagramTransport | None = None
        self.dead = False

    @property
    def address(self) -> _Address:
        host, port = self._socket.getsockname()
        return str(host), int(port)

    @property
    def port(self) -> int:
        return self.address[1]

    async def serve(self) -> None:
        """Start to accept datagrams."""
        loop = asyncio.get_running_loop()
        self._near, _ = await loop.create_datagram_endpoint(lambda: _Near(self), sock=self._socket)

    def connect_to(self, namespace: NetNamespace | None) -> None:
        """Change the namespace."""
        self._namespace = namespace
        for transport in self._clients.values():
            transport.close()
        self._clients.clear()

    async def _far(self, client: _Address) -> asyncio.DatagramTransport | None:
        if self._namespace is None:
            return None
        sock = self._namespace.udp_socket()
        sock.bind((self._source, 0))
        sock.connect(AGENT)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Far(self, client), sock=sock)
        return transport

    async def to_agent(self, data: bytes, client: _Address) -> None:
        users = udp_uids(client)
        if self.dead or not users or not users <= {self._owner, 0}:
            return
        transport = self._clients.get(client)
        if transport is None or transport.is_closing():
            transport = await self._far(client)
            if transport is None:
                return
            self._clients[client] = transport
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)[1].close()
        self._clients.move_to_end(client)
        transport.sendto(data)

    def to_client(self, data: bytes, client: _Address) -> None:
        if self._near is not None and not self.dead:
            self._near.sendto(data, client)


class _Near(asyncio.DatagramProtocol):
    def __init__(self, relay: UdpRelay) -> None:
        self._relay = relay
        self._tasks: set[asyncio.Task[None]] = set()

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        task = asyncio.ensure_future(self._relay.to_agent(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Far(asyncio.DatagramProtocol):
    def __init__(self, relay: UdpRelay, client: _Address) -> None:
        self._relay = relay
        self._client = client

    def datagram_received(self, data: bytes, addr: _Address) -> None:
        self._relay.to_client(data, self._client)
