"""Whose process is at the other end of a connection, or behind a datagram, within this machine."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_TABLE = Path("/proc/thread-self/net/tcp")
_MAPPED = f"{struct.unpack('=I', bytes((0, 0, 255, 255)))[0]:08X}"
_UDP_TABLES = (Path("/proc/thread-self/net/udp"), Path("/proc/thread-self/net/udp6"))


def peer_uid(sock: socket.socket) -> int | None:
    """The user who made the socket at the other end of an IPv4 loopback connection; None when it is gone already."""
    wanted = [_hex(sock.getpeername()), _hex(sock.getsockname())]
    for line in _TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def udp_uids(address: tuple[str, int]) -> frozenset[int]:
    """The users whose UDP sockets may have sent from this IPv4 address; none when the socket is gone already."""
    own, port = _hex(address).split(":")
    # Bound to this address or to any, in both tables; IPv6 writes an IPv4 address behind ffff.
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
