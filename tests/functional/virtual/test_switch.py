"""A switch of the virtual lab: its ports, and the machine behind its management."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch.linux import neighbours_by_lldp
from pytest_pinet.lab.switch.managed_switch import open_switch
from pytest_pinet.virtual.namespaces import NetNamespace, ip
from pytest_pinet.virtual.runtime import ssh_command, status
from pytest_pinet.virtual.spec import BRIDGE
from pytest_pinet.virtual.switch import TaggedHost
from tests.support.small_virtual_lab import FULL_MBPS, LEAST, MOST, SCALE, Bench, bench_up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def test_a_port_that_is_down_takes_the_link_down_at_once(pair: Bench) -> None:
    assert pair.switch("cat /sys/class/net/p2/speed").strip() == "100"
    pair.switch("ip link set p2 down")
    assert not pair.node_carrier("right")
    pair.switch("ip link set p2 up")
    wait_until("the carrier", lambda: pair.node_carrier("right"))


def test_lldp_reports_the_neighbours_after_a_boot(bench: Bench) -> None:
    def neighbours() -> set[tuple[str, str | None, str | None]]:
        found = neighbours_by_lldp(bench.switch("lldpcli -f json0 show neighbors"))
        return {(port, one.system, one.port) for port, one in found}

    bench.outlet("left", "0")
    wait_until("left to be gone", lambda: "left" not in {system for _, system, _ in neighbours()})
    bench.boot("left")
    # lldpd itself sends announcements every 30 s.
    wait_until("left to be there", lambda: ("p1", "left", "eth0") in neighbours())


def test_lldpd_does_not_change_host_names(bench: Bench) -> None:
    before = os.uname().nodename
    bench.boot("left")
    assert bench.ssh("left", "hostname").strip() == "left"
    assert os.uname().nodename == before


def test_a_port_keeps_its_number_and_state_when_its_cable_is_pulled(pair: Bench) -> None:
    state = "cat /sys/class/net/p2/ifindex; basename $(readlink /sys/class/net/p2/master); cat /sys/class/net/p2/speed"
    before = pair.switch(state)
    pair.degrade("right", down=True)
    assert not pair.carrier("p2")
    assert pair.switch(state).split()[:2] == before.split()[:2]
    pair.restore("right")
    assert pair.carrier("p2")
    assert pair.switch(state) == before


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


LINUX_LAB = Path(__file__).parents[3] / "lab" / "virtual-linux.yaml"


@pytest.fixture(scope="module")
def uplink_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    text = LINUX_LAB.read_text()
    assert text.count("  launcher: virtual\n") == 1
    slow = text.replace("  launcher: virtual\n", f"  launcher: virtual\n  scale: {SCALE}\n")
    with bench_up(tmp_path_factory.mktemp("uplink"), slow) as found:
        found.boot("pi3b-1", "pi3b-2")
        found.ssh("pi3b-1", "ip addr add 10.5.0.1/24 dev eth0")
        found.ssh("pi3b-2", "ip addr add 10.5.0.2/24 dev eth0")
        yield found


def reaches(uplink_bench: Bench) -> bool:
    argv = ssh_command(uplink_bench.lab.file, "pi3b-1", ["ping -c1 -W1 10.5.0.2"])
    return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0


def test_nodes_of_two_switches_reach_each_other_at_full_rate(uplink_bench: Bench) -> None:
    wait_until("the other switch's node to answer", lambda: reaches(uplink_bench))
    uplink_bench.serve_iperf("pi3b-2", "")
    end = json.loads(uplink_bench.ssh("pi3b-1", "iperf3 -c 10.5.0.2 -t 2 -C cubic -J"))["end"]
    assert LEAST * FULL_MBPS < end["sum_received"]["bits_per_second"] / 1e6 / SCALE < MOST * FULL_MBPS


def test_the_uplink_port_of_each_switch_can_be_moved(uplink_bench: Bench) -> None:
    found = status(uplink_bench.lab.file)
    assert found is not None
    assert {s["name"]: s["groups"]["p5"] for s in found["switches"]} == {"front": "br0", "back": "br0"}
    for command, reached in (
        ("ip link add br7 type bridge; ip link set br7 up; ip link set p5 master br7", False),
        ("ip link set p1 master br7", True),
        ("ip link set p1 master br0; ip link set p5 master br0; ip link del br7", True),
    ):
        uplink_bench.switch(command, "FRONT")
        wait_until(f"{command} to tell", lambda reached=reached: reaches(uplink_bench) is reached)  # type: ignore[misc]
    assert uplink_bench.switch("cat /sys/class/net/p5/speed", "BACK").strip() == "1000"


@pytest.mark.smoke
def test_the_linux_switch_backend_moves_and_restores_ports_over_ssh(
    uplink_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test has its own journal of changes to undo."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, value in uplink_bench.environment.items():
        monkeypatch.setenv(name, value)
    wait_until("the other switch's node to answer", lambda: reaches(uplink_bench))
    switch, undo = open_switch(uplink_bench.lab, "front"), UndoStack()
    home = switch.states(["p1", "p2", "p5"])
    assert len({state.vlan for state in home.values()}) == 1
    switch.wire([frozenset({"p1", "p2"})], undo)
    assert switch.state("p1").vlan == switch.state("p2").vlan != switch.state("p5").vlan
    wait_until("the uplink to be out of reach", lambda: not reaches(uplink_bench))
    assert undo.close() == []
    assert switch.states(["p1", "p2", "p5"]) == home
    wait_until("the other switch's node to answer again", lambda: reaches(uplink_bench))


def test_the_uplink_has_its_own_place(uplink_bench: Bench) -> None:
    argv = [
        sys.executable,
        "-m",
        "labgrid.remote.client",
        "-x",
        uplink_bench.environment["LG_COORDINATOR"],
        "-p",
        "trunk",
    ]
    shown = subprocess.run([*argv, "show"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "uplink=trunk" in shown
    assert shown.count("'interface': 'p5'") == 2


def test_linux_switches_report_their_neighbours_by_lldp(uplink_bench: Bench) -> None:
    def neighbours() -> dict[str, str]:
        found = json.loads(uplink_bench.switch("lldpcli -f json0 show neighbors", "FRONT"))["lldp"][0]["interface"]
        return {port["name"]: port["chassis"][0]["name"][0]["value"] for port in found}

    wait_until("LLDP", lambda: neighbours() == {"p1": "pi3b-1", "p5": "back"})
