"""A slow token bucket in the kernel: packets within the MTU pass whole, larger ones are split."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from pytest_pinet.virtual.link_models import wire_rate
from pytest_pinet.virtual.namespaces import NetNamespace, ip, tc
from pytest_pinet.virtual.shaping import node_queue, token_bucket

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


async def cable(near: NetNamespace, far: NetNamespace, mtu: int, shaped_for: int) -> None:
    await ip(near, [f"link add name eth0 mtu {mtu} type veth peer name eth0 mtu {mtu} netns {far.path}"])
    rate = 0.1 * wire_rate(1000, mtu)
    for number, end in enumerate((near, far), 1):
        await ip(end, [f"address add 198.18.0.{number}/24 dev eth0", "link set dev eth0 up"])
        await tc(end, [token_bucket("eth0", rate, node_queue(rate), shaped_for)])


def pings(near: NetNamespace, size: int) -> bool:
    argv = ["nsenter", f"--net={near.path}", "ping", "-c3", "-i0.2", "-W1", "-M", "do", "-s", str(size), "198.18.0.2"]
    return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0


@pytest.mark.parametrize(("mtu", "shaped_for", "passes"), [(9000, 9000, True), (9000, 1500, False), (1500, 1500, True)])
def test_a_packet_passes_a_bucket_that_knows_its_size(mtu: int, shaped_for: int, passes: bool) -> None:
    near, far = NetNamespace(), NetNamespace()
    try:
        asyncio.run(cable(near, far, mtu, shaped_for))
        assert pings(near, 56)
        assert pings(near, mtu - 28) is passes
    finally:
        near.close()
        far.close()
