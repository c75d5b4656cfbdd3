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


def peer_uid(sock: socket.socket) -> int | None:
    """Return the user who owns the other end of an IPv4 loopback connection, or None if it is closed."""
    wanted = [_hex(sock.getpeername()), _hex(sock.getsockname())]
    for line in _TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def _hex(address: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
