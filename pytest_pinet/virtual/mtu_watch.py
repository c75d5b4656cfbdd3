"""Watch the MTU of network devices for changes."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.netlink import mtus_in

_LINK_CHANGES = 1  # RTMGRP_LINK
_log = logging.getLogger("pinet-daemon")


class MtuWatch:
    """A watch on a namespace. Calls ``follow`` with a device and its MTU for each message of the kernel, in order."""

    def __init__(self, namespace: NetNamespace, follow: Callable[[str, int], Awaitable[None]]) -> None:
        with namespace.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.setblocking(False)
        self._socket.bind((0, _LINK_CHANGES))
        self._task = asyncio.get_running_loop().create_task(self._listen(follow))

    async def _listen(self, follow: Callable[[str, int], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                told = mtus_in(await loop.sock_recv(self._socket, 1 << 16))
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    _log.error("nobody follows MTUs here any more: %s", error)
                    return
                continue  # the socket's buffer overflowed. The next message about a device contains its MTU again
            for device, mtu in told.items():
                try:
                    await follow(device, mtu)
                except LabError as error:
                    _log.error("%s with MTU %d: %s", device, mtu, error)

    def close(self) -> None:
        self._task.cancel()
        self._socket.close()
