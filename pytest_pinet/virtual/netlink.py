"""Read and watch the network devices of a namespace by rtnetlink, with one request for each table."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.namespaces import NetNamespace

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
