"""Ports on the host's loopback, and the users at the other end of a local connection or datagram."""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import ABC, abstractmethod
from pathlib import Path

_TABLE = Path("/proc/thread-self/net/tcp")
_MAPPED = f"{struct.unpack('=I', bytes((0, 0, 255, 255)))[0]:08X}"
_UDP_TABLES = (Path("/proc/thread-self/net/udp"), Path("/proc/thread-self/net/udp6"))


class TcpServer(ABC):
    """A TCP port of the host's loopback. It is bound at once, and accepts clients after ``serve``."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listener.bind(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Start to accept clients."""
        await asyncio.start_server(self._client, sock=self._listener)

    @abstractmethod
    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it disconnects."""


def udp_socket(address: tuple[str, int] = ("127.0.0.1", 0)) -> socket.socket:
    """Return a bound, non-blocking UDP socket on the host's loopback. Raises OSError."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def peer_uid(sock: socket.socket) -> int | None:
    """Return the user who owns the other end of an IPv4 loopback connection, or None if it is closed."""
    wanted = [_hex(sock.getpeername()), _hex(sock.getsockname())]
    for line in _TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def udp_uids(address: tuple[str, int]) -> frozenset[int]:
    """Return the users whose UDP sockets may have sent from this IPv4 address. Empty if the socket is closed."""
    own, port = _hex(address).split(":")
    # A socket can be bound to this address or to any, in both tables. IPv6 writes an IPv4 address after ffff.
    hosts = {own, "0" * 8, "0" * 32, f"{'0' * 16}{_MAPPED}{own}"}
    rows = [line.split() for table in _UDP_TABLES if table.exists() for line in table.read_text().splitlines()[1:]]
    return frozenset(int(fields[7]) for fields in rows if fields[1] in {f"{host}:{port}" for host in hosts})


def _hex(address: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
