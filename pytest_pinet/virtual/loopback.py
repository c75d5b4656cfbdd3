"""Find the user whose process is at the other end of a local connection, or sent a local datagram."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_TABLE = Path("/proc/thread-self/net/tcp")
_MAPPED = f"{struct.unpack('=I', bytes((0, 0, 255, 255)))[0]:08X}"
_UDP_TABLES = (Path("/proc/thread-self/net/udp"), Path("/proc/thread-self/net/udp6"))


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
    found = set()
    for table in _UDP_TABLES:
        if table.exists():
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1] in {f"{host}:{port}" for host in hosts}:
                    found.add(int(fields[7]))
    return frozenset(found)


def _hex(address: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
