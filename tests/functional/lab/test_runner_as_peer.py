"""The machine that runs pytest as a leased node: iperf3 between it and a namespace that represents a board."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.node.kinds import RunnerSession
from pytest_pinet.lab.node.node_pool import NodePool
from pytest_pinet.model.lab import Node
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from pytest_pinet.tuning.setting import NoKnob
from tests.support.labgrid_server import connected, labgrid_server
from tests.support.shaped_link import ShapedLink, shaped_link

LAB = """\
pinet:
  switches:
    s: {backend: fixed, ports: p1-p4}
  nodes:
    here: {board: pi5, place: pi1, runner: true, interfaces: {onboard: {port: s/p1}}}
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    return load(file).nodes["here"]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[NodePool]:
    def no_target(_: Node) -> None:
        raise AssertionError("the runner has no target")

    with labgrid_server(tmp_path) as server, connected(server) as coordinator:
        pool = NodePool(coordinator, cast(Targets, SimpleNamespace(make=no_target)), lambda _: None, tmp_path)
        yield pool
        pool.keep_only(())
        assert pool.take_warnings() == []


def test_the_runner_is_leased_and_answers_like_any_node(pool: NodePool, node: Node) -> None:
    (session,) = pool.get([node], 5)
    assert isinstance(session, RunnerSession)
    assert session.ready
    assert session.shell.run("echo $((6*7)); exit 3").stdout == "42\n"
    process = session.shell.spawn("sleep 60")
    process.stop()
    assert process.poll() is not None
    pool.leases.check(["pi1"])
    # It cannot be booted: a test that requests fresh nodes gets it unchanged.
    assert pool.get([node], 5, reset=True) == [session]
    with pytest.raises(NoKnob, match="here is the machine that runs pytest, so it is not booted"):
        session.boot_with(Tuning((("arm_freq", "2000"),)))


@pytest.fixture
def link() -> Iterator[ShapedLink]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    with shaped_link("100mbit") as made:
        yield made


@pytest.mark.parametrize("way", [Direction.TX, Direction.RX, Direction.BIDIR])
def test_traffic_runs_between_the_runner_and_a_board(
    pool: NodePool, node: Node, link: ShapedLink, way: Direction
) -> None:
    """Run its commands in the namespace at the other end of the cable, so that no traffic leaves this host."""
    (session,) = pool.get([node], 5)
    shell = session.shell
    shell.argv = ["ip", "netns", "exec", link.peer.namespace, *shell.argv]
    try:
        traffic = replace(Traffic(way, duration_s=1, warmup_s=0), bitrate=Bitrate.mbps(20))
        job = TrafficJob(link.dut, shell, link.dut_address, link.peer_address, traffic)
        found = Iperf3().measure(job)
    finally:
        shell.argv = shell.argv[4:]
    assert list(found.flows) == list(way.parts)
    for flow in found.flows.values():
        assert flow.goodput.bps == pytest.approx(20e6, rel=0.3)
