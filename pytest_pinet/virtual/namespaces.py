"""Network namespaces without a name, and system tools that run in them.

A file descriptor keeps each namespace alive, so none outlives the process that made it: the daemon of a virtual lab.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import LabError

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists only from Python 3.12
_OWN = "/proc/thread-self/ns/net"
TIMEOUT_S = 20.0


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@contextmanager
def _returning() -> Iterator[None]:
    """Move this thread back into its present namespace at the end."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _check(_libc.setns(home, _CLONE_NEWNET), "setns")
        os.close(home)


class NetNamespace:
    """A network namespace, kept alive by a file descriptor of this process."""

    def __init__(self) -> None:
        with _returning():
            _check(_libc.unshare(_CLONE_NEWNET), "unshare")
            self.fd = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def path(self) -> str:
        """A path for ``ip`` and ``nsenter``, valid while this process lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Move this thread into the namespace for a while. The code inside must not await."""
        with _returning():
            _check(_libc.setns(self.fd, _CLONE_NEWNET), "setns")
            yield

    def tcp_socket(self) -> socket.socket:
        """Open a TCP socket in this namespace. The socket stays there when the thread leaves."""
        with self.entered():
            # The protocol must be named. Without it, asyncio leaves Nagle's algorithm on: 40 ms for each ssh command.
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)

    def set_sysctl(self, name: str, value: str) -> bool:
        """Write a sysctl of this namespace. Return False if the kernel refuses."""
        try:
            with self.entered():
                (Path("/proc/sys") / name.replace(".", "/")).write_text(value)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor. The kernel removes the namespace when it has no other user."""
        os.close(self.fd)


async def run(argv: Sequence[str], text: str = "") -> str:
    """Run a command and return its output. Raises LabError if the command fails or does not end."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(text.encode()), TIMEOUT_S)
    except TimeoutError:
        process.kill()
        raise LabError(f"`{' '.join(argv)}` did not end within {TIMEOUT_S:g} s") from None
    if process.returncode != 0:
        raise LabError(f"`{' '.join(argv)}` failed: {err.decode(errors='replace').strip()}")
    return out.decode(errors="replace")


async def ip(namespace: NetNamespace, lines: Iterable[str]) -> None:
    """Run lines of ``ip`` in a namespace, in one process."""
    await _batch(namespace, "ip", lines)


async def tc(namespace: NetNamespace, lines: Iterable[str]) -> None:
    """Run lines of ``tc`` in a namespace, in one process."""
    await _batch(namespace, "tc", lines)


async def nft(namespace: NetNamespace, rules: str) -> None:
    """Load a rule set in a namespace, atomically."""
    await run(["nsenter", f"--net={namespace.path}", "nft", "-f", "-"], rules)


async def _batch(namespace: NetNamespace, tool: str, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if text:
        await run(["nsenter", f"--net={namespace.path}", tool, "-batch", "-"], text)


# Read and watch the network devices of a namespace by rtnetlink, with one request for each table.


_GET_LINK = 18
_NEW_LINK = 16
_REQUEST_DUMP, _REQUEST_ACK = 0x301, 0x5
_IFNAME, _MTU, _NET_NS_FD, _NEW_INDEX = 3, 4, 28, 49
_DONE, _ERROR = 3, 2
_MESSAGE = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_LINK = struct.Struct("=BxHiII")
_TYPE_MASK = 0x3FFF
_IFF_UP, _IFF_LOWER_UP = 1, 0x10000
_TIMEOUT_S = 5.0
_LINK_CHANGES = 1  # RTMGRP_LINK
_log = logging.getLogger("pinet-daemon")


@dataclass(frozen=True)
class LinkInfo:
    """A network device. ``master`` is the index of its bridge."""

    index: int
    name: str
    mac: str
    mtu: int
    admin_up: bool
    carrier: bool
    master: int | None


class Netlink:
    """A netlink socket in one namespace."""

    def __init__(self, namespace: NetNamespace) -> None:
        self._socket = _open(namespace, groups=0)
        self._socket.settimeout(_TIMEOUT_S)
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def links(self) -> dict[str, LinkInfo]:
        found = {}
        for body in self._request(_GET_LINK, _REQUEST_DUMP, _LINK.pack(0, 0, 0, 0, 0)):
            _, _, index, flags, _ = _LINK.unpack_from(body)
            own = dict(_attributes(body[_LINK.size :]))
            name = own[_IFNAME].rstrip(b"\0").decode()
            found[name] = LinkInfo(
                index=index,
                name=name,
                mac=own.get(1, b"").hex(":"),
                mtu=struct.unpack("=I", own[_MTU])[0],
                admin_up=bool(flags & _IFF_UP),
                carrier=bool(flags & _IFF_LOWER_UP),
                master=struct.unpack("=I", own[10])[0] if 10 in own else None,
            )
        return found

    def move(self, index: int, to: NetNamespace, name: str, new_index: int) -> None:
        """Move a device to another namespace, with a new name and index. Raises LabError."""
        body = _LINK.pack(0, 0, index, 0, 0)
        for kind, value in (
            (_NET_NS_FD, struct.pack("=I", to.fd)),
            (_IFNAME, name.encode() + b"\0"),
            (_NEW_INDEX, struct.pack("=i", new_index)),
        ):
            body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + b"\0" * (-len(value) % 4)
        for payload in self._request(_NEW_LINK, _REQUEST_ACK, body):
            raise LabError(f"unexpected answer of {len(payload)} bytes while a device was moved to {name}")

    def _request(self, kind: int, flags: int, body: bytes) -> Iterator[bytes]:
        """Send a request and return the kernel's answers. Raises LabError if the kernel refuses it."""
        self._sequence += 1
        self._socket.send(_MESSAGE.pack(_MESSAGE.size + len(body), kind, flags, self._sequence, 0) + body)
        while True:
            data = self._socket.recv(1 << 18)
            at = 0
            while at < len(data):
                length, found, _, sequence, _ = _MESSAGE.unpack_from(data, at)
                payload = data[at + _MESSAGE.size : at + length]
                at += length + -length % 4
                if sequence != self._sequence:
                    continue  # a late answer to a request that was given up
                if found == _ERROR:
                    (number,) = struct.unpack_from("=i", payload)
                    if number:
                        raise LabError(f"the kernel refused a netlink request: {os.strerror(-number)}")
                if found in (_DONE, _ERROR):
                    return
                yield payload


class LinkWatch:
    """A watch on a namespace. Calls ``follow`` with all devices at the start and after each change of a device."""

    def __init__(self, namespace: NetNamespace, follow: Callable[[Mapping[str, LinkInfo]], Awaitable[None]]) -> None:
        self._socket = _open(namespace, _LINK_CHANGES)
        self._socket.setblocking(False)
        self._netlink = Netlink(namespace)
        self._task = asyncio.get_running_loop().create_task(self._run(follow))

    async def _run(self, follow: Callable[[Mapping[str, LinkInfo]], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await follow(self._netlink.links())
            except LabError as error:
                _log.error("a change of a network device could not be applied: %s", error)
            try:
                await loop.sock_recv(self._socket, 1 << 16)
            except OSError as error:
                # After an overflow of the socket's buffer messages are lost. The loop reads all devices again.
                if error.errno != errno.ENOBUFS:
                    _log.error("changes of network devices are no longer watched: %s", error)
                    return

    def close(self) -> None:
        self._task.cancel()
        self._socket.close()
        self._netlink.close()


def _open(namespace: NetNamespace, groups: int) -> socket.socket:
    with namespace.entered():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    sock.bind((0, groups))
    return sock


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        yield kind & _TYPE_MASK, data[at + _ATTRIBUTE.size : at + length]
        at += max(length, 4) + -length % 4
