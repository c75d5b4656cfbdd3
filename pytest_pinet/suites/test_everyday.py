"""The first gate of any NIC of any board, Wi-Fi too: what people report when a kernel or a driver got worse.

The profile chooses the level: ``fast`` takes less than a minute for a NIC, ``standard`` about five, ``soak`` hours.
Limits hold for every healthy NIC; more specific limits of the lab file take precedence (docs/reference/suites.md).
"""

import pytest

from pytest_pinet.errors import Inconclusive
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate

pytestmark = pytest.mark.pinet
FAST, STANDARD, SOAK = (pytest.mark.everyday(level) for level in ("fast", "standard", "soak"))
EACH_WAY = pytest.mark.parametrize("direction", ["tx", "rx"])
# Limits of the lab file are for plain traffic, so calls with other traffic have limits of their own.
# A wired round trip takes a millisecond at most, also on USB 2. Wi-Fi waits for its turn in the air.
WIRED, WIRELESS = "5 ms", "30 ms"


def is_wireless(link: Link) -> bool:
    return link.combination.dut.interface.nic.wireless


def is_emulated(link: Link) -> bool:
    """Return whether no part of the line rate can be expected: an emulated processor is slower than any link."""
    return link.combination.dut.node.is_emulated


@FAST
@EACH_WAY
@pytest.mark.pinet(min="90% of published")
def test_line_rate(link: Link, gate: Gate, direction: str) -> None:
    gate.tcp(link, direction)


@FAST
def test_ping(link: Link, gate: Gate) -> None:
    gate.ping(link, count=10, interval=0.2, loss="0%", latency=WIRELESS if is_wireless(link) else WIRED)


@STANDARD
@pytest.mark.pinet(min="70% of published")
def test_both_ways(link: Link, gate: Gate) -> None:
    gate.tcp(link, "bidir", max_drops=0)


@STANDARD
@EACH_WAY
def test_packets(link: Link, gate: Gate, direction: str) -> None:
    """Counts small packets, whose number a processor limits. Only a baseline or another build judges their number."""
    try:
        gate.packets(link, direction, profile="fast")
    except Inconclusive as reason:
        if not any(words in str(reason) for words in ("the sender limits", "the receiving program limits")):
            raise
        pytest.skip("the board receives all small packets that its peer sends: no value")


@STANDARD
@pytest.mark.parametrize("load", [None, "rx"], ids=["idle", "loaded"])
def test_latency(link: Link, gate: Gate, load: str | None) -> None:
    """Measures late round trips. Beside a TCP stream, packets wait in the queues of the link."""
    wireless = is_wireless(link)
    after = ("200 ms" if wireless else "20 ms") if load is None else "500 ms" if wireless else "200 ms"
    gate.latency(link, load, after=after, late="1%" if load is None else "5%")


@STANDARD
def test_idle(link: Link, gate: Gate) -> None:
    """Leaves the link idle, then sends: lost pings (raspberrypi/linux 6855), a frozen receiver (7304)."""
    wireless = is_wireless(link)
    first = None if wireless or is_emulated(link) else "10%"
    gate.idle(link, idle_loss="1%" if wireless else "0%", first_answer="1 s", first_second=first)


@STANDARD
def test_recovery(link: Link, gate: Gate) -> None:
    """Replugs the cable at the far end five times: no traffic afterwards (raspberrypi/linux 7200)."""
    gate.recovery(link, count=5, goodput="0%" if is_emulated(link) else "10%")


@STANDARD
def test_path(link: Link, gate: Gate) -> None:
    """Sends over a path of 20 ms: 3 to 5 Mbit/s through a router, line rate in the LAN (raspberrypi/linux 7566)."""
    for direction in ("rx", "tx"):
        gate.tcp(link, direction, path={"delay": "20 ms"}, min="30% of published")


@STANDARD
@pytest.mark.pinet(min="90% of published")
def test_ipv6(link: Link, gate: Gate) -> None:
    for direction in ("tx", "rx"):
        gate.tcp(link, direction, family=6)


@STANDARD
@pytest.mark.pinet(min="90% of published")
def test_vlan(link: Link, gate: Gate) -> None:
    """Tags all frames. Skipped if a switch port drops them; if only one of two builds loses them, that build fails."""
    for direction in ("tx", "rx"):
        gate.tcp(link, direction, path={"vlan": 7})


@SOAK
@pytest.mark.pinet(min="70% of published")
def test_long_both_ways(link: Link, gate: Gate) -> None:
    """Sends both ways for 15 min: a Realtek RTL8153 reset within 10 min (raspberrypi/linux 5239)."""
    gate.tcp(link, "bidir", duration="15 min", profile="fast", max_drops=0)


@SOAK
@pytest.mark.pinet(min="90% of published")
def test_without_a_drop(link: Link, gate: Gate) -> None:
    """Keeps the link busy for 10 min: EEE took it down every 2 min (raspberrypi/linux 7372)."""
    gate.tcp(link, duration="10 min", profile="fast", max_drops=0)


@SOAK
@pytest.mark.pinet(link_required=False)
def test_boots(link: Link, gate: Gate) -> None:
    """Boots 33 times: one boot of seven had no link (raspberrypi/linux 6420), or slow pings (3850)."""
    gate.boots(link)


@SOAK
@pytest.mark.pinet(topology=["pair", "chain"])
def test_background(link: Link, gate: Gate) -> None:
    """Sends or forwards for a minute while other traffic comes in: a queue stopped (raspberrypi/linux 7024)."""
    with gate.background(link, "rx"):
        gate.tcp(link, "tx", duration="60 s", profile="fast", min="1%", max_drops=0)


@SOAK
@EACH_WAY
@pytest.mark.pinet(topology="chain", tuning={"nat": "masquerade"}, tuning_required=True)
def test_nat(link: Link, gate: Gate, direction: str) -> None:
    """Forwards with address translation: 200 instead of 325 Mbit/s, on one processor (openwrt 17611)."""
    gate.tcp(link, direction, min="20% of published")


@SOAK
@pytest.mark.pinet(tuning=[{"speed": mbps} for mbps in (10, 100, 1000)], tuning_required=True)
def test_speeds(link: Link, gate: Gate) -> None:
    """Sends at each speed: a link of 10 Mbit/s carried nothing (armbian 8575)."""
    for direction in ("tx", "rx"):
        gate.tcp(link, direction, min="90% of published")
