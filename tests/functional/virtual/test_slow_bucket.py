"""A slow token bucket in the kernel: which packets pass whole, and how much passes at once."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from contextlib import suppress

import pytest

from pytest_pinet.virtual.link_models import node_queue, token_bucket, wire_rate
from pytest_pinet.virtual.namespaces import NetNamespace, ip, tc

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


async def cable(
    near: NetNamespace, far: NetNamespace, rate_bps: float, mtu: int = 1500, shaped_for: int = 1500
) -> None:
    await ip(near, [f"link add name eth0 mtu {mtu} type veth peer name eth0 mtu {mtu} netns {far.path}"])
    for number, end in enumerate((near, far), 1):
        await ip(end, [f"address add 198.18.0.{number}/24 dev eth0", "link set dev eth0 up"])
        await tc(end, [token_bucket("eth0", rate_bps, node_queue(rate_bps), shaped_for)])


def pings(near: NetNamespace, size: int) -> bool:
    argv = ["nsenter", f"--net={near.path}", "ping", "-c3", "-i0.2", "-W1", "-M", "do", "-s", str(size), "198.18.0.2"]
    return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0


def arrived(receiver: socket.socket) -> int:
    """Return the bytes of all datagrams that have arrived, and wait for the first one."""
    receiver.settimeout(5)
    found = len(receiver.recv(2000))
    receiver.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            found += len(receiver.recv(2000))
    return found


@pytest.mark.parametrize(("mtu", "shaped_for", "passes"), [(9000, 9000, True), (9000, 1500, False), (1500, 1500, True)])
def test_a_packet_passes_a_bucket_made_for_its_mtu(mtu: int, shaped_for: int, passes: bool) -> None:
    near, far = NetNamespace(), NetNamespace()
    try:
        asyncio.run(cable(near, far, 0.1 * wire_rate(1000, mtu), mtu, shaped_for))
        assert pings(near, 56)
        assert pings(near, mtu - 28) is passes
    finally:
        near.close()
        far.close()


def udp_socket(namespace: NetNamespace) -> socket.socket:
    with namespace.entered():
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


def test_traffic_that_begins_gets_little_more_than_the_rate() -> None:
    """With 80 kB at once, 3 s of traffic at 10 Mbit/s were 2 % above the physical limit."""
    rate_bps = 0.1 * wire_rate(100)
    near, far = NetNamespace(), NetNamespace()
    try:
        asyncio.run(cable(near, far, rate_bps))
        with udp_socket(far) as receiver, udp_socket(near) as sender:
            receiver.bind(("198.18.0.2", 0))
            begin_s = time.monotonic()
            with suppress(BlockingIOError):
                for _ in range(100):
                    sender.sendto(bytes(1400), receiver.getsockname())
            received = arrived(receiver)
            seconds = time.monotonic() - begin_s
        assert received * 8 < rate_bps * (seconds + 0.015)
    finally:
        near.close()
        far.close()
