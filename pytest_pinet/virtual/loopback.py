"""Whose process is at the other end of a TCP connection within this machine."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_TABLE = Path("/proc/thread-self/net/tcp")


def peer_uid(sock: socket.socket) -> int | None:
    """The user who made the socket at the other end of an IPv4 loopback connection; None when it is gone already."""
    wanted = [_hex(sock.getpeername()), _hex(sock.getsockname())]
    for line in _TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def _hex(address: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
