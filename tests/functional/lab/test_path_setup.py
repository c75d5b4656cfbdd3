"""What a gate call sets up on its path in the virtual lab: IPv6, delay and loss, background traffic."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import CapabilityError, InvalidMeasurement
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.end import change
from pytest_pinet.lab.link.link import Link, bounce
from pytest_pinet.lab.link.path_setup import set_up
from pytest_pinet.lab.link.rate_shaper import is_reduced
from pytest_pinet.measure.background import background
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, PathSetup, Ping, Traffic
from pytest_pinet.traffic import ping
from tests.support.gate_project import GateLab
from tests.support.visited_link import visited
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
SIX = PathSetup(6)


def kernel_has(name: str, path: str) -> bool:
    """Return whether this kernel has a module, loaded or in a file."""
    folder = Path("/lib/modules") / os.uname().release / "kernel"
    return Path(f"/sys/module/{name}").exists() or bool([*folder.glob(f"{path}.ko*")])


@pytest.fixture(scope="module")
def opened(gate_lab: GateLab) -> Iterator[tuple[LabAccess, Link]]:
    with visited(gate_lab) as found:
        yield found


@pytest.fixture
def link(opened: tuple[LabAccess, Link]) -> Iterator[Link]:
    link = opened[1]
    yield link
    for end in link.ends:
        conf = f"/proc/sys/net/ipv6/conf/{end.device}"
        left = end.shell.run(f"ip -6 addr show dev {end.device}; cat {conf}/keep_addr_on_down").stdout
        assert "2001:2:" not in left
        assert left.split()[-1] == "0"


def once(here: LabAccess, link: Link, traffic: Traffic) -> Connection:
    """Send the traffic once, with the checks of a measurement."""
    with set_up(link, traffic.setup) as used:
        context = MeasureContext(used, here.tool_for(traffic))
        with here.measuring(link.combination), Runs(context, traffic.seconds) as runs:
            one = runs.again(traffic)
            runs.finish(traffic)
    return one


def test_tcp_runs_over_ipv6(opened: tuple[LabAccess, Link], link: Link) -> None:
    one = once(opened[0], link, Traffic(Direction.BIDIR, duration_s=1.0, opposed=True, setup=SIX))
    assert {way: flow.sockets and flow.sockets.mss for m in one.measurements for way, flow in m.flows.items()} == {
        # 20 bytes less than over IPv4.
        Direction.TX: 1428,
        Direction.RX: 1428,
    }
    assert all(" -c 2001:2::c6" in text for name, text in one.measurements[0].raw.items() if "client.cmd" in name)


def test_udp_and_http_run_over_ipv6(opened: tuple[LabAccess, Link], link: Link) -> None:
    for traffic in (
        Traffic(Direction.RX, udp=True, bitrate=Bitrate(20e6), duration_s=1.0, setup=SIX),
        HttpTraffic(Direction.TX, streams=4, size=20_000, duration_s=2.0, setup=SIX),
    ):
        assert once(opened[0], link, traffic).towards(traffic.direction).goodput.bps > 1e6


def test_a_ping_goes_over_ipv6_also_after_a_link_up(link: Link) -> None:
    with set_up(link, SIX) as six:
        bounce(six)
        found, _ = ping.measure(six.dut.shell, Ping(2, 0.05), six.dut.ip, six.peer.ip, "peer")
    assert (found.received, six.peer.address.version) == (2, 6)


def test_ipv6_that_an_admin_has_disabled_is_disabled_again(link: Link) -> None:
    path = f"/proc/sys/net/ipv6/conf/{link.dut.device}/disable_ipv6"
    change(link.dut.shell, f"echo 1 > {path}")
    try:
        with set_up(link, SIX):
            assert link.dut.shell.run(f"cat {path}").stdout == "0\n"
        assert link.dut.shell.run(f"cat {path}").stdout == "1\n"
    finally:
        change(link.dut.shell, f"echo 0 > {path}")


def test_the_addresses_are_removed_after_an_error(link: Link) -> None:
    with pytest.raises(ZeroDivisionError), set_up(link, SIX):
        raise ZeroDivisionError


def test_a_small_mtu_carries_no_ipv6(link: Link) -> None:
    device, shell = link.dut.device, link.dut.shell
    change(shell, f"ip link set {device} mtu 1000")
    link.read_states()
    try:
        with (
            pytest.raises(CapabilityError, match="family=6 needs an MTU of at least 1280; this link has 1000"),
            set_up(link, SIX),
        ):
            pytest.fail("it was set up")
    finally:
        change(shell, f"ip link set {device} mtu 1500")
        link.read_states()


@pytest.mark.skipif(kernel_has("sch_netem", "net/sched/sch_netem"), reason="this kernel has netem")
def test_a_peer_without_netem_is_one_skip(link: Link) -> None:
    refused = (
        "path=: the kernel of pi3b-2 has no netem, which delay and loss need: Error: Specified qdisc kind is unknown"
    )
    with pytest.raises(CapabilityError, match=refused), set_up(link, PathSetup(delay_s=0.02)):
        pytest.fail("it was set up")
    assert not is_reduced(link.peer)


def in_background(link: Link, traffic: Traffic, raw: dict[str, str]) -> list[str]:
    """Ping beside this traffic, and return the note on it."""
    with background(link, traffic, raw) as notes:
        found, _ = ping.measure(link.dut.shell, Ping(20, 0.1), link.dut.ip, link.peer.ip, "peer")
        assert found.received == 20
    assert link.dut.shell.run("pgrep iperf3").stdout == link.peer.shell.run("pgrep iperf3").stdout == ""
    return notes


def test_traffic_in_the_background_has_its_goodput_in_a_note(link: Link) -> None:
    raw: dict[str, str] = {}
    (note,) = in_background(link, Traffic(Direction.TX, udp=True, bitrate=Bitrate(30e6), streams=2), raw)
    found = re.fullmatch(r"in the background ran udp-P2-b30M: tx (\S+) Mbit/s", note)
    assert found is not None, note
    assert float(found[1]) == pytest.approx(60, rel=0.3)
    (note,) = in_background(link, Traffic(Direction.BIDIR), raw)
    assert re.fullmatch(r"in the background ran tcp-P1-bidir: tx \S+ Mbit/s, rx \S+ Mbit/s", note), note
    assert raw["background.txt"].count("Kbits/sec") > 4


def _end_iperf3(link: Link) -> None:
    link.dut.shell.run("pkill iperf3")
    wait_until("the end of iperf3", lambda: not link.peer.shell.run("pgrep iperf3").stdout)


def test_a_measurement_whose_background_ended_is_invalid(link: Link) -> None:
    with (
        pytest.raises(InvalidMeasurement, match=r"background traffic from .*pi3b-1 .* ended before the measurement"),
        background(link, Traffic(Direction.TX), {}),
    ):
        _end_iperf3(link)


def test_the_background_ends_after_an_error(link: Link) -> None:
    with pytest.raises(ZeroDivisionError), background(link, Traffic(Direction.RX), {}):
        raise ZeroDivisionError
    assert link.dut.shell.run("pgrep iperf3").stdout == link.peer.shell.run("pgrep iperf3").stdout == ""


def test_traffic_beside_background_traffic_is_measured(opened: tuple[LabAccess, Link], link: Link) -> None:
    setup = PathSetup(background=Traffic(Direction.RX, udp=True, bitrate=Bitrate(20e6)))
    with background(link, setup.background, {}):
        one = once(opened[0], link, Traffic(Direction.TX, duration_s=1.0, setup=setup))
    assert one.towards(Direction.TX).goodput.bps > 1e6


@pytest.mark.skipif(kernel_has("8021q", "net/8021q/8021q"), reason="this kernel has 802.1Q")
def test_an_end_without_802_1q_is_one_skip(link: Link) -> None:
    with (
        pytest.raises(CapabilityError, match=r"vlan=7: the kernel of pi3b-\d has no 802\.1Q"),
        set_up(link, PathSetup(vlan=7)),
    ):
        pytest.fail("it was set up")
