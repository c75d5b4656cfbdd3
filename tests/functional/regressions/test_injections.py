"""Each injection of `benchmarks.regressions` has the symptom that its report describes, and is gone afterwards."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.regressions import injections as inject
from benchmarks.regressions.bench import LAB_FILE, Bench, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"), pytest.mark.slow]

DUT_ADDRESS, NEAR_ADDRESS = "10.1.0.1", "10.1.0.2"
# The lab's scale: links of 1 Gbit/s carry 19 Mbit/s.
FULL_MBPS = 18.8


class Pings(NamedTuple):
    loss: float
    rtt_ms: float


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    file: Path = tmp_path_factory.mktemp("lab") / "pair.yaml"
    file.write_text(LAB_FILE.read_text())
    with running(file) as found:
        found.power(True, "dut", "near")
        address(found)
        yield found


@pytest.fixture(autouse=True)
def whole(lab: Bench) -> Iterator[None]:
    yield
    wait_until("the link to answer", lambda: pings(lab, 2).loss == 0)
    assert "injected" not in lab.switch.run("nft", "list", "tables")


def address(lab: Bench) -> None:
    for node, own in (("dut", DUT_ADDRESS), ("near", NEAR_ADDRESS)):
        lab.ssh(node, f"ip address replace {own}/24 dev {lab.device(node, 'onboard' if node == 'dut' else 'fast')}")
    wait_until("the peer to answer", lambda: pings(lab, 1).loss == 0)


def pings(lab: Bench, count: int, every_s: float = 0.05) -> Pings:
    text = lab.ssh("near", f"ping -q -n -W 2 -i {every_s} -c {count} {DUT_ADDRESS}")
    lost = re.search(r"([0-9.]+)% packet loss", text)
    rtt = re.search(r"= [0-9.]+/([0-9.]+)/", text)
    assert lost, text
    return Pings(float(lost[1]) / 100, float(rtt[1]) if rtt else 0.0)


def received_mbps(lab: Bench, options: str = "", seconds: float = 2) -> float:
    """Return what the board receives. With ``-R`` in ``options``: what it sends."""
    server = "timeout 30 sh -c 'until ss -ltn | grep -q :5201; do :; done'"
    lab.ssh("dut", f"pkill -x iperf3; iperf3 -s -1 -D; {server}")
    text = lab.ssh("near", f"iperf3 -c {DUT_ADDRESS} -J -t {seconds:g} --connect-timeout 5000 {options}")
    # On a slow link, iperf3 ends with another length than the one it should have.
    return float(json.loads(text).get("end", {}).get("sum_received", {}).get("bytes", 0)) * 8 / 1e6 / seconds


def carrier_changes(lab: Bench) -> int:
    return int(lab.ssh("dut", f"cat /sys/class/net/{lab.device('dut')}/carrier_changes"))


def test_idle_pings_are_lost_and_a_load_is_not_slower(lab: Bench) -> None:
    before = lab.ssh("dut", f"ip -s link show {lab.device('dut')}")
    with inject.lost_when_idle(0.12)(lab):
        assert 0.05 <= pings(lab, 300, 0.1).loss <= 0.2
        assert received_mbps(lab) > 0.9 * FULL_MBPS
    after = lab.ssh("dut", f"ip -s link show {lab.device('dut')}")
    assert errors(before) == errors(after)


def errors(text: str) -> list[list[str]]:
    """Return errors and drops of both directions."""
    lines = text.splitlines()
    return [lines[i + 1].split()[2:4] for i, line in enumerate(lines) if line.strip().startswith(("RX:", "TX:"))]


def test_a_link_that_was_idle_receives_at_116_kbit_s_until_it_is_opened_again(lab: Bench) -> None:
    device = lab.device("dut")
    with inject.slow_after_idle(3, 116e3)(lab):
        assert received_mbps(lab) > 0.9 * FULL_MBPS
        wait_until("the board to be slow after idle", lambda: limit(lab, "p1") == pytest.approx(116e3, rel=0.1))
        assert received_mbps(lab, seconds=3) < 0.5
        lab.ssh("dut", f"ip link set {device} down; sleep 1; ip link set {device} up")
        address(lab)
        assert received_mbps(lab) > 0.9 * FULL_MBPS


def limit(lab: Bench, device: str) -> float:
    """Return the rate in bit/s at which a switch port sends."""
    (root, *_) = json.loads(lab.switch.run("tc", "-j", "qdisc", "show", "dev", device, "root"))
    return 8.0 * float(root["options"]["rate"])


def test_a_link_goes_down_every_few_seconds(lab: Bench) -> None:
    before = carrier_changes(lab)
    with inject.flapping(period_s=3, down_s=0.5)(lab):
        wait_until("two drops of the link", lambda: carrier_changes(lab) - before >= 4)


def test_the_command_line_of_a_boot_is_that_of_the_board(lab: Bench) -> None:
    assert lab.command_line("dut") == lab.ssh("dut", "cat /proc/cmdline") != Path("/proc/cmdline").read_text()


def test_87_percent_are_lost(lab: Bench) -> None:
    with inject.lost(0.87)(lab):
        assert 0.8 <= pings(lab, 200, 0.02).loss <= 0.94


def test_round_trips_take_70_ms_longer_and_nothing_is_lost(lab: Bench) -> None:
    plain = pings(lab, 20)
    with inject.late(0.07)(lab):
        seen = pings(lab, 20)
        assert seen.loss == 0
        assert 65 <= seen.rtt_ms - plain.rtt_ms <= 110
        assert received_mbps(lab) > 4


def test_tx_is_frozen_while_the_board_receives(lab: Bench) -> None:
    device = lab.device("dut")

    def count(way: str) -> int:
        return int(lab.ssh("dut", f"cat /sys/class/net/{device}/statistics/{way}_packets"))

    with inject.frozen_tx(lab):
        # What the token bucket held before passes.
        pings(lab, 200, 0.005)
        sent, received = count("tx"), count("rx")
        lab.ssh("near", f"ping -q -f -w 2 -c 500 -s 1400 {DUT_ADDRESS}")
        assert count("rx") > received
        assert count("tx") - sent <= 10
        assert "backlog 0b" not in lab.ssh("dut", f"tc -s qdisc show dev {device} | grep -A2 tbf")


def test_nothing_passes_after_a_replug_until_the_device_is_opened_again(lab: Bench) -> None:
    device = lab.device("dut")
    with inject.dead_after_replug(lab):
        assert pings(lab, 5).loss == 0
        lab.degrade("near:fast", down=True)
        lab.restore("near:fast")
        wait_until("the peer's own replug to do no harm", lambda: pings(lab, 2).loss == 0)
        lab.degrade("dut:onboard", down=True)
        wait_until("the board to lose its carrier", lambda: not carrier(lab))
        lab.restore("dut:onboard")
        wait_until("the link to come back", lambda: carrier(lab))
        assert pings(lab, 10).loss == 1
        lab.ssh("dut", f"ip link set {device} down; sleep 1; ip link set {device} up")
        address(lab)


def carrier(lab: Bench) -> bool:
    link = lab.link("dut")
    return link is not None and link.carrier


def test_one_boot_of_three_has_no_link(lab: Bench) -> None:
    seen = []
    with inject.no_link_in_a_boot(3)(lab):
        for _ in range(3):
            reboot(lab)
            seen.append(carrier(lab))
    # The boot before the injection is its first one.
    assert seen == [True, False, True]
    reboot(lab)
    address(lab)


def reboot(lab: Bench) -> None:
    lab.power(False, "dut")
    wait_until("the power to be off", lambda: lab.boot_of("dut") == 0)
    # The injection looks at the power 20 times a second.
    threading.Event().wait(0.5)
    lab.power(True, "dut")
    lab.ssh("dut", "true")


def test_in_some_boots_pings_take_300_to_1000_ms(lab: Bench) -> None:
    with inject.late_in_some_boots(3, (0,), (0.3, 0.5, 1.0))(lab):
        reboot(lab)
        address(lab)
        assert pings(lab, 5).rtt_ms < 100
        reboot(lab)
        lab.ssh("dut", f"ip address replace {DUT_ADDRESS}/24 dev {lab.device('dut')}")
        pings(lab, 5)
        assert 300 <= pings(lab, 5, 1).rtt_ms <= 1300
    reboot(lab)
    address(lab)


def test_the_carrier_comes_seconds_after_the_boot(lab: Bench) -> None:
    with inject.late_carrier(8)(lab):
        reboot(lab)
        assert not carrier(lab)
        wait_until("the carrier", lambda: carrier(lab))
        assert float(lab.ssh("dut", "ps -o etimes= -p 1")) >= 7
    address(lab)


def test_a_nic_is_reset_under_load_in_both_directions_only(lab: Bench) -> None:
    before = carrier_changes(lab)
    with inject.reset_under_both_ways(load_s=4, gone_s=1)(lab):
        received_mbps(lab, seconds=7)
        assert carrier_changes(lab) == before
        received_mbps(lab, "--bidir", seconds=8)
        wait_until("the reset", lambda: carrier_changes(lab) >= before + 2)


def test_the_rate_falls_over_time(lab: Bench) -> None:
    with inject.decay(0.05, over_s=10)(lab):
        assert limit(lab, "p1") == pytest.approx(19.7e6, rel=0.05)
        received_mbps(lab, seconds=4)
        wait_until("the end of the decay", lambda: limit(lab, "p1") < 0.06 * 19.7e6)
        assert received_mbps(lab, "-R") < 0.1 * FULL_MBPS


def test_tx_stalls_and_recovers(lab: Bench) -> None:
    with inject.stalls(every_s=2, stall_s=6)(lab):
        wait_until("a stall", lambda: pings(lab, 20, 0.1).loss > 0)
        wait_until("the end of the stall", lambda: pings(lab, 5, 0.1).loss == 0)


@pytest.fixture
def chain(lab: Bench) -> None:
    """Let the board forward from near to far."""
    lab.power(True, "far")
    card = lab.device("dut", "pcie")
    near, far = lab.device("near", "fast"), lab.device("far", "fast")
    lab.ssh(
        "dut",
        f"ip address replace 10.2.0.1/24 dev {card}; sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.arp_ignore=1",
    )
    lab.ssh("near", f"ip address replace {NEAR_ADDRESS}/24 dev {near}; ip route replace 10.2.0.0/24 via {DUT_ADDRESS}")
    lab.ssh("far", f"ip address replace 10.2.0.2/24 dev {far}; ip route replace 10.1.0.0/24 via 10.2.0.1")
    lab.ssh("near", f"ip neighbour flush dev {near}")
    wait_until("far to answer near", lambda: "1 received" in lab.ssh("near", "ping -n -c 1 -W 2 10.2.0.2"))


def forwarded_mbps(lab: Bench, seconds: float = 2) -> float:
    server = "timeout 30 sh -c 'until ss -ltn | grep -q :5202; do :; done'"
    lab.ssh("far", f"pkill -x iperf3; iperf3 -s -1 -D -p 5202; {server}")
    text = lab.ssh("near", f"iperf3 -c 10.2.0.2 -p 5202 -J -t {seconds:g} --connect-timeout 5000")
    return float(json.loads(text).get("end", {}).get("sum_received", {}).get("bytes", 0)) * 8 / 1e6 / seconds


@pytest.mark.usefixtures("chain")
def test_forwarded_traffic_is_slower_and_own_traffic_is_not(lab: Bench) -> None:
    assert forwarded_mbps(lab) > 0.85 * FULL_MBPS
    with inject.slower_forwarding(0.62)(lab):
        wait_until("the injection", lambda: "injected" in lab.ssh("dut", "nft list tables"))
        assert 0.5 * FULL_MBPS < forwarded_mbps(lab) < 0.67 * FULL_MBPS
        assert received_mbps(lab, "-R") > 0.85 * FULL_MBPS
    assert "injected" not in lab.ssh("dut", "nft list tables")


@pytest.mark.usefixtures("chain")
def test_tx_is_frozen_by_forwarding_and_own_traffic_together_only(lab: Bench) -> None:
    with inject.frozen_tx_by_forwarding_and_local(lab):
        assert forwarded_mbps(lab, 3) > 0.85 * FULL_MBPS
        assert received_mbps(lab, "-R", 3) > 0.85 * FULL_MBPS
        both = threading.Thread(target=forwarded_mbps, args=(lab, 12))
        both.start()
        assert received_mbps(lab, "-R", 10) < 0.7 * FULL_MBPS
        both.join()
