"""Hosts of virtual switches in a tagged VLAN: they reach hosts with the same tag, and no others."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pytest_pinet.virtual.namespaces import NetNamespace, ip
from pytest_pinet.virtual.spec import BRIDGE
from pytest_pinet.virtual.switch import TaggedHost

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@asynccontextmanager
async def two_switches(*vlans: int) -> AsyncIterator[tuple[NetNamespace, NetNamespace]]:
    """Two switches with a cable between them, and a host in each."""
    near, far = NetNamespace(), NetNamespace()
    for one in (near, far):
        await ip(one, [f"link add name {BRIDGE} type bridge stp_state 0", f"link set dev {BRIDGE} up"])
    await ip(near, [f"link add name p1 type veth peer name p1 netns {far.path}"])
    for one in (near, far):
        await ip(one, [f"link set dev p1 master {BRIDGE} up"])
    hosts = [
        TaggedHost(one, vlan, f"10.9.0.{number}/24")
        for number, (one, vlan) in enumerate(zip((near, far), vlans, strict=True), 1)
    ]
    try:
        for host in hosts:
            await host.build()
        yield near, far
    finally:
        for host in hosts:
            host.close()
        near.close()
        far.close()


async def ping(namespace: NetNamespace, size: int) -> int:
    argv = ["nsenter", f"--net={namespace.path}", "ping", "-c1", "-W2", "-M", "do", "-s", str(size), "10.9.0.2"]
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL)
    return await asyncio.wait_for(process.wait(), 10)


@pytest.mark.parametrize("size", [56, 1472])
def test_hosts_with_the_same_tag_reach_each_other(size: int) -> None:
    async def check() -> int:
        async with two_switches(4000, 4000) as (near, _):
            return await ping(near, size)

    assert asyncio.run(check()) == 0


def test_hosts_with_different_tags_do_not() -> None:
    async def check() -> int:
        async with two_switches(4000, 4001) as (near, _):
            return await ping(near, 56)

    assert asyncio.run(check()) == 1


def test_large_packets_with_offloads_pass() -> None:
    """TCP sends segments of 64 KiB without a checksum into the tap, which must not break them."""

    async def check() -> bytes:
        async with two_switches(7, 7) as (near, far):
            with far.entered():
                server = await asyncio.start_server(lambda _, writer: answer(writer), "10.9.0.2", 8000)
            sock = near.tcp_socket()
            sock.setblocking(False)
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, ("10.9.0.2", 8000)), 5)
            reader, writer = await asyncio.open_connection(sock=sock)
            data = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            server.close()
            return data

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(range(256)) * 4000)
        await writer.drain()
        writer.close()

    assert asyncio.run(check()) == bytes(range(256)) * 4000
