"""Watches the network devices of a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.netlink import LinkInfo, LinkWatch


class OwnNamespace:
    """The namespace of this process."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        yield


def test_a_watch_reads_all_devices_at_the_start_and_ends_when_its_socket_is_closed() -> None:
    seen: list[Mapping[str, LinkInfo]] = []

    async def run() -> None:
        async def follow(links: Mapping[str, LinkInfo]) -> None:
            seen.append(links)
            watch._socket.close()

        watch = LinkWatch(cast(NetNamespace, OwnNamespace()), follow)
        await asyncio.wait_for(watch._task, 5)
        watch.close()

    asyncio.run(run())
    assert [links["lo"].mtu for links in seen] == [65536]
