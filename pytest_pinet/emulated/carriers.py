"""Report the carrier of a cable to its emulated NIC. A tap device always has carrier, so QEMU cannot see it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.netlink import Netlink

_LINK_CHANGES = 1  # RTMGRP_LINK
_log = logging.getLogger("pinet-daemon")


class Carriers:
    """Call ``tell`` with the index of a device and its carrier, for missing carrier at the start and each change."""

    def __init__(
        self, namespace: NetNamespace, devices: Sequence[str], tell: Callable[[int, bool], Awaitable[None]]
    ) -> None:
        self._devices = tuple(devices)
        self._tell = tell
        with namespace.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.setblocking(False)
        self._socket.bind((0, _LINK_CHANGES))
        self._netlink = Netlink(namespace)
        # QEMU starts its NICs with the link up.
        self._told = dict.fromkeys(self._devices, True)
        self._task = asyncio.get_running_loop().create_task(self._follow())
        self._task.add_done_callback(_tell_trouble)

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            links = self._netlink.links()
            for index, device in enumerate(self._devices):
                up = device in links and links[device].carrier
                if up != self._told[device]:
                    self._told[device] = up
                    await self._tell(index, up)
            try:
                await loop.sock_recv(self._socket, 1 << 16)
            except OSError:
                # The socket's buffer overflowed and messages were lost. The loop reads the state of all links again.
                await asyncio.sleep(0.05)

    def close(self) -> None:
        self._task.cancel()
        self._socket.close()
        self._netlink.close()


def _tell_trouble(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("nobody follows carriers here any more", exc_info=task.exception())
