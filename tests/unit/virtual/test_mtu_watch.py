"""Tracks the MTUs of a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from pytest_pinet.virtual.mtu_watch import MtuWatch
from pytest_pinet.virtual.namespaces import NetNamespace


class Here:
    """The namespace of this process."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        yield


def test_a_watch_whose_socket_is_gone_ends_instead_of_asking_for_ever() -> None:
    async def follow(device: str, mtu: int) -> None:
        raise AssertionError(device)

    async def watch() -> None:
        watching = MtuWatch(cast(NetNamespace, Here()), follow)
        watching._socket.close()
        await asyncio.wait_for(watching._task, 5)

    asyncio.run(watch())
