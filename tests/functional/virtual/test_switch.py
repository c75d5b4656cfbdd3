"""A switch of the virtual lab: its ports, and the machine behind its management."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_pinet.lab.switch.linux import neighbours_by_lldp
from tests.support.gate_project import wait_until
from tests.support.small_virtual_lab import Bench, bench_up

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_up(tmp_path_factory.mktemp("switch")) as found:
        yield found


@pytest.fixture
def pair(bench: Bench) -> Iterator[Bench]:
    """Yield a bench where left (port 1) and right (port 2) are on and have addresses."""
    bench.connect_pair()
    yield bench
    bench.restore()


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
