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
_LARGEST = 65_535
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

    ``source`` is the address that the agent sees. A frozen relay drops everything.
    """

    def __init__(self, owner: int, sock: socket.socket | None = None, source: str = "127.0.0.1") -> None:
        self._socket = sock or udp_socket()
        self._owner = owner
        self._source = source
        self._namespace: NetNamespace | None = None
        self._clients: OrderedDict[_Address, socket.socket] = OrderedDict()
        self._frozen = False

    @property
    def address(self) -> _Address:
        host, port = self._socket.getsockname()
        return str(host), int(port)

    @property
    def port(self) -> int:
        return self.address[1]

    async def serve(self) -> None:
        """Start to accept datagrams."""
        asyncio.get_running_loop().add_reader(self._socket, self._to_agent)

    def connect_to(self, namespace: NetNamespace | None) -> None:
        """Change the namespace."""
        self._namespace = namespace
        while self._clients:
            self._drop_oldest()

    def freeze(self, frozen: bool) -> None:
        """Drop everything, or continue."""
        self._frozen = frozen

    def _drop_oldest(self) -> None:
        _, far = self._clients.popitem(last=False)
        asyncio.get_running_loop().remove_reader(far)
        far.close()

    def _to_agent(self) -> None:
        with suppress(OSError):
            data, client = self._socket.recvfrom(_LARGEST)
            users = udp_uids(client)
            if self._frozen or self._namespace is None or not users or not users <= {self._owner, 0}:
                return
            if client not in self._clients:
                self._clients[client] = self._connected(self._namespace, client)
                if len(self._clients) > MOST_CLIENTS:
                    self._drop_oldest()
            self._clients.move_to_end(client)
            self._clients[client].send(data)

    def _connected(self, namespace: NetNamespace, client: _Address) -> socket.socket:
        """Return a socket to the agent. Its answers go to the client."""
        far = namespace.udp_socket()
        far.bind((self._source, 0))
        far.connect(AGENT)
        asyncio.get_running_loop().add_reader(far, self._to_client, far, client)
        return far

    def _to_client(self, far: socket.socket, client: _Address) -> None:
        # The agent does not listen while the switch boots, and a client may be gone. Both lose the datagram.
        with suppress(OSError):
            data = far.recv(_LARGEST)
            if not self._frozen:
                self._socket.sendto(data, client)
