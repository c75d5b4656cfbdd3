"""The shaping of slow links, and of links in a lab at a tenth of the rate."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_pinet.virtual.boot_settings import BootSettings
from pytest_pinet.virtual.link_models import model_of, wire_rate
from pytest_pinet.virtual.shaping import arbiter, bus_bucket, bus_lines, chunk, from_port, to_address, token_bucket

MAC = "02:00:00:00:00:01"


def words(line: str) -> dict[str, int]:
    """Return the numbers of a token bucket."""
    return {name: int(value) for name, value in re.findall(r"(rate|burst|limit|mtu) (\d+)", line)}


def test_the_tcp_chunk_is_scaled_with_the_rate() -> None:
    assert [chunk(scale) for scale in (1.0, 0.1, 0.01)] == [65_536, 6_554, 4_096]


def test_a_slow_bucket_accepts_jumbo_frames() -> None:
    slow = 0.1 * wire_rate(1000, 9000)
    assert words(token_bucket("p1", slow, 128_000, 9000))["mtu"] >= 9000 + 14
    # And plain packets one by one.
    assert words(token_bucket("p1", slow, 128_000))["mtu"] == 2000
    shape = model_of("pi3b", "ax88179", 1000).shape(BootSettings(1200)).scaled(0.1)
    assert words(bus_bucket("bus0", shape, 4000)[0])["mtu"] >= 4014


def test_scaling_a_bus_scales_all_rates_and_long_queues() -> None:
    def lines(scale: float) -> list[str]:
        shape = model_of("pi4b", "ax88179", 1000).shape(BootSettings(1500)).scaled(scale)
        return bus_lines("eth1", ("bus0", "back0"), shape, MAC)

    rates = [
        [int(bps) for line in lines(scale) for bps in re.findall(r"(?:rate|ceil) (\d+)bit", line)] for scale in (1, 0.1)
    ]
    assert len(rates[0]) == 12
    assert rates[1] == [pytest.approx(bps / 10, abs=1) for bps in rates[0]]
    queues = [re.findall(r"limit (\d+)", " ".join(lines(scale))) for scale in (1, 0.1)]
    # The queue limits of copies and of the lane itself, for each direction.
    assert queues == [["1000000", "131072", "1000000", "1000000"], ["1000000", "131072", "1000000", "131072"]]


def test_a_scaled_model_keeps_its_variants() -> None:
    model = model_of("cm4", "aqc107", 10_000)
    boots = [BootSettings(1500), replace(BootSettings(1500), payload=512)]
    assert [model.shape(boot).scaled(0.1).tx_bps * 10 for boot in boots] == [model.shape(boot).tx_bps for boot in boots]


def test_only_slow_ports_send_packet_by_packet() -> None:
    assert "peakrate" in token_bucket("p1", 98.4e6, 128_000)
    assert "peakrate" not in token_bucket("p1", 984e6, 512_000)


def test_contenders_have_their_own_queues_up_to_a_limit() -> None:
    lines = arbiter("p1", 98.4e6, [from_port(f"p{n}") for n in range(2, 7)])
    assert sum("bfifo" in line for line in lines) == 6  # and one for the rest
    assert sum("indev" in line for line in lines) == 5
    many = arbiter("eth0", 984e6, [to_address(f"02:00:00:00:00:{n:02x}") for n in range(100)])
    assert sum("bfifo" in line for line in many) == 33
    assert sum("ether dst" in line for line in many) == 100
