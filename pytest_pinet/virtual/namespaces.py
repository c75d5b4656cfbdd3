"""Network namespaces without a name: a file descriptor keeps one alive, and nothing of it outlives the daemon."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists from Python 3.12 on only
_OWN = "/proc/thread-self/ns/net"


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


class NetNamespace:
    """A network namespace that this process holds by a file descriptor."""

    def __init__(self) -> None:
        home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.unshare(_CLONE_NEWNET), "unshare")
            try:
                self.fd = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
            finally:
                _check(_libc.setns(home, _CLONE_NEWNET), "setns")
        finally:
            os.close(home)

    @property
    def path(self) -> str:
        """A path that ``ip`` and ``nsenter`` take as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread is inside for the duration; nothing may await in between."""
        home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.setns(self.fd, _CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                _check(_libc.setns(home, _CLONE_NEWNET), "setns")
        finally:
            os.close(home)

    def tcp_socket(self) -> socket.socket:
        """A socket of this namespace; it stays there although we do not."""
        with self.entered():
            # With the protocol named, or asyncio leaves Nagle's algorithm on: 40 ms for each ssh command.
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)

    def udp_socket(self) -> socket.socket:
        """The same for datagrams; it does not block."""
        with self.entered():
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def set_sysctl(self, name: str, value: str) -> bool:
        """Write a setting of this namespace; False when the kernel refuses."""
        try:
            with self.entered():
                (Path("/proc/sys") / name.replace(".", "/")).write_text(value)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go; the kernel removes the namespace when nobody else uses it."""
        os.close(self.fd)
