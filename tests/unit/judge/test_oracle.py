from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.judge.oracle import (
    PacketSizes,
    highest_limit,
    pcie_context,
    pcie_leaves,
    pcie_rate,
    physical_limit,
    window_bound,
)
from pytest_pinet.model.evidence import PcieLink
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction


# facts/measuring.md 2.7, to the digits given there.
@pytest.mark.parametrize(
    ("mtu", "timestamps", "expected"),
    [
        (1500, True, {100: 94.15, 1000: 941.48, 2500: 2353.7, 5000: 4707.4, 10000: 9414.8}),
        (1500, False, {100: 94.93, 1000: 949.28, 2500: 2373.2, 5000: 4746.4, 10000: 9492.8}),
        (9000, True, {100: 99.00, 1000: 990.04, 2500: 2475.1, 5000: 4950.2, 10000: 9900.4}),
        (9000, False, {100: 99.14, 1000: 991.37, 2500: 2478.4, 5000: 4956.9, 10000: 9913.7}),
    ],
)
def test_tcp_goodput_is_the_published_table(mtu: int, timestamps: bool, expected: dict[int, float]) -> None:
    for speed, mbps in expected.items():
        rounding = 0.005 if speed <= 1000 else 0.052
        assert PacketSizes(mtu, timestamps).goodput(speed).bps / 1e6 == pytest.approx(mbps, abs=rounding)


def test_udp_has_smaller_headers_than_tcp() -> None:
    assert round(PacketSizes(1500, False, udp=True).goodput(1000).bps / 1e6, 2) == 957.09


def test_both_directions_at_once_share_the_wire_with_their_acknowledgements() -> None:
    both = physical_limit(1000, PacketSizes(1500, True), Bus.SOC, Direction.BIDIR)
    assert round(both.goodput.bps / 1e6) == 938
    assert both.because == "1000 Mbit/s link, MTU 1500, TCP timestamps, both directions at once"


def test_the_bus_is_the_limit_if_it_is_slower_than_the_wire() -> None:
    usb2 = physical_limit(1000, PacketSizes(1500, True), Bus.USB2)
    assert usb2.goodput.bps == 13 * 512 * 8000 * 8
    assert usb2.because == "usb2 bus, 426.0 Mbit/s at most"
    assert physical_limit(10000, PacketSizes(1500, True), Bus.PCIE2X1).goodput.bps == 4e9


def test_the_wire_is_the_limit_if_the_bus_is_faster() -> None:
    oracle = physical_limit(100, PacketSizes(1500, True), Bus.USB2)
    assert oracle.because == "100 Mbit/s link, MTU 1500, TCP timestamps"
    assert round(oracle.goodput.bps / 1e6, 2) == 94.15


def test_the_reason_of_a_udp_limit_names_udp() -> None:
    assert physical_limit(1000, PacketSizes(1500, True, udp=True), Bus.SOC).because == "1000 Mbit/s link, MTU 1500, UDP"


def test_no_setting_exceeds_the_highest_limit() -> None:
    highest = highest_limit(1000, 9000, Bus.SOC).goodput
    for mtu in (576, 1500, 9000):
        for timestamps in (True, False):
            for direction in Direction:
                assert physical_limit(1000, PacketSizes(mtu, timestamps), Bus.SOC, direction).goodput <= highest


def test_a_small_segment_carries_less() -> None:
    # 1000 bytes of MSS: 988 of payload with timestamps in 1078 on the wire.
    assert physical_limit(1000, PacketSizes(1500, True, segment=1000), Bus.SOC).goodput.bps == pytest.approx(
        1e9 * 988 / 1078
    )
    assert physical_limit(1000, PacketSizes(1500, True, segment=8960), Bus.SOC).goodput.bps == pytest.approx(
        941.48e6, rel=1e-5
    )
    # 64-byte frames: 18 bytes of UDP payload in 84 on the wire.
    assert physical_limit(100, PacketSizes(1500, True, udp=True, segment=18), Bus.SOC).goodput.bps == pytest.approx(
        1e8 * 18 / 84
    )


# facts/pi-networking.md 0: a 64 KiB window sustains 941 Mbit/s only while RTT <= 0.557 ms, 200 KiB while <= 1.74 ms.
@pytest.mark.parametrize(("window", "rtt_s", "shown"), [(65536, 0.557e-3, "64 KiB"), (204800, 1.74e-3, "200 KiB")])
def test_a_window_limits_the_bytes_per_round_trip(window: int, rtt_s: float, shown: str) -> None:
    bound = window_bound(window, rtt_s)
    assert bound.goodput.bps == pytest.approx(941.4e6, rel=1e-3)
    assert bound.because == f"window {shown} over {rtt_s * 1000:.3g} ms allows {bound.goodput}"


# facts/measuring.md 2.7, PCIe 2.0 x1; the table calls MTU and largest payload of a packet.
@pytest.mark.parametrize(
    ("mtu", "payload", "least", "most"),
    [
        (1500, 128, 2.99, 3.14),
        (1500, 256, 3.24, 3.41),
        (1500, 512, 3.38, 3.56),
        (9000, 128, 3.16, 3.33),
        (9000, 256, 3.43, 3.61),
        (9000, 512, 3.58, 3.77),
    ],
)
def test_pcie_goodput_matches_the_published_table(mtu: int, payload: int, least: float, most: float) -> None:
    found = pcie_leaves(PcieLink(5.0, 1, payload), PacketSizes(mtu, True))
    assert found is not None
    assert [round(rate.bps / 1e9, 2) for rate in found] == [least, most]


def test_an_unknown_pcie_payload_makes_the_range_wider() -> None:
    found = pcie_leaves(PcieLink(5.0, 1), PacketSizes(1500, True))
    assert found is not None
    assert [round(rate.bps / 1e9, 2) for rate in found] == [2.99, 3.56]


def test_pcie_is_reported_beside_the_limit() -> None:
    limit = physical_limit(10000, PacketSizes(1500, True), Bus.PCIE2X1).goodput
    assert limit.bps == 4e9
    assert pcie_context(limit, PcieLink(5.0, 1, 128), PacketSizes(1500, True)) == (
        "PCIe 5 GT/s x1 with payloads of 128 bytes allows 2.99 Gbit/s to 3.14 Gbit/s"
    )
    assert (
        pcie_context(limit, PcieLink(5.0, 1), PacketSizes(1500, True))
        == "PCIe 5 GT/s x1 allows 2.99 Gbit/s to 3.56 Gbit/s"
    )
    # A 2.5 Gbit/s link fits through the bus. Without a model there is no statement.
    assert pcie_context(Bitrate(2.35e9), PcieLink(5.0, 1, 128), PacketSizes(1500, True)) is None
    assert pcie_context(limit, PcieLink(64.0, 1), PacketSizes(1500, True)) is None


def test_small_packets_reduce_the_goodput_of_the_bus() -> None:
    # 512 bytes of UDP: 540 of packet and 554 of frame, 5 packets of 128 on the bus: 714 bytes.
    context = pcie_context(Bitrate(4e9), PcieLink(5.0, 1, 128), PacketSizes(1500, True, udp=True, segment=512))
    assert context is not None
    assert context.endswith(f"allows {Bitrate(4e9 * 512 / 714 * 0.95)} to {Bitrate(4e9 * 512 / 714)}")


@pytest.mark.parametrize(("gtps", "bps"), [(2.5, 2e9), (5.0, 4e9), (8.0, 8e9 * 128 / 130), (16.0, 16e9 * 128 / 130)])
def test_the_line_code_reduces_the_rate_of_pcie_lanes(gtps: float, bps: float) -> None:
    carried = pcie_rate(PcieLink(gtps, 2))
    assert carried is not None
    assert carried.bps == pytest.approx(2 * bps)


@pytest.mark.parametrize(
    ("gtps", "lanes", "payload"), [(0.0, 1, 128), (float("nan"), 1, 128), (5.0, 0, 128), (5.0, 1, 0)]
)
def test_impossible_pcie_links_are_refused(gtps: float, lanes: int, payload: int) -> None:
    with pytest.raises(ValueError, match="PCIe"):
        PcieLink(gtps, lanes, payload)


def test_the_highest_limit_for_both_directions_includes_acknowledgements() -> None:
    # facts/pi-networking.md 0: "A gate asking 941/941 bidirectional can never pass."
    both = highest_limit(1000, 1500, Bus.SOC, both_ways=True)
    assert 938e6 < both.goodput.bps < 941e6
    assert both.goodput < highest_limit(1000, 1500, Bus.SOC).goodput


@given(st.sampled_from([10, 100, 1000, 2500, 10000]), st.integers(576, 9000))
def test_each_header_and_each_acknowledgement_reduces_the_limit(speed: int, mtu: int) -> None:
    both_ways = PacketSizes(mtu, True).goodput(speed, both_ways=True)
    assert (
        both_ways
        < PacketSizes(mtu, True).goodput(speed)
        < PacketSizes(mtu, False).goodput(speed)
        < PacketSizes(mtu, False, udp=True).goodput(speed)
    )


def test_a_nic_counts_the_headers_of_each_frame() -> None:
    assert PacketSizes(1500, True).counted_share == 1448 / 1514
    assert PacketSizes(9000, False).counted_share == 8960 / 9014
    assert PacketSizes(1500, True, udp=True, segment=1400).counted_share == 1400 / 1442


def test_ipv6_has_20_bytes_more_of_headers() -> None:
    six = physical_limit(1000, PacketSizes(1500, True, family=6), Bus.SOC)
    assert six.goodput.bps == pytest.approx(1e9 * (1500 - 60 - 12) / 1538)
    assert six.because == "1000 Mbit/s link, MTU 1500, IPv6, TCP timestamps"
    assert PacketSizes(1500, False, udp=True, family=6).goodput(1000).bps == pytest.approx(1e9 * (1500 - 48) / 1538)
    assert PacketSizes(1500, True, family=6).counted_share == 1428 / 1514
    assert physical_limit(100, PacketSizes(1500, True, segment=1000, family=6), Bus.SOC).goodput.bps == pytest.approx(
        1e8 * 988 / 1098
    )
    link = PcieLink(5.0, 1, 128)
    assert pcie_leaves(link, PacketSizes(1500, True, family=6))[0] < pcie_leaves(link, PacketSizes(1500, True))[0]  # type: ignore[index]
