from __future__ import annotations

import pytest

from pytest_pinet.judge.oracle import highest_limit, physical_limit, tcp_goodput, udp_goodput
from pytest_pinet.model.hardware import Bus
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
        assert tcp_goodput(speed, mtu, timestamps).bps / 1e6 == pytest.approx(mbps, abs=rounding)


def test_udp_carries_less_header() -> None:
    assert round(udp_goodput(1000, 1500).bps / 1e6, 2) == 957.09


def test_both_directions_at_once_share_the_wire_with_their_acknowledgements() -> None:
    both = physical_limit(1000, 1500, True, Bus.SOC, Direction.BIDIR)
    assert round(both.goodput.bps / 1e6) == 938
    assert both.because == "1000 Mbit/s link, MTU 1500, TCP timestamps, both directions at once"


def test_the_bus_is_the_limit_where_it_is_slower_than_the_wire() -> None:
    usb2 = physical_limit(1000, 1500, True, Bus.USB2)
    assert usb2.goodput.bps == 13 * 512 * 8000 * 8
    assert usb2.because == "usb2 bus, 426.0 Mbit/s at most"
    assert physical_limit(10000, 1500, True, Bus.PCIE2X1).goodput.bps == 4e9


def test_the_wire_is_the_limit_where_the_bus_is_faster() -> None:
    oracle = physical_limit(100, 1500, True, Bus.USB2)
    assert oracle.because == "100 Mbit/s link, MTU 1500, TCP timestamps"
    assert round(oracle.goodput.bps / 1e6, 2) == 94.15


def test_udp_says_so() -> None:
    assert physical_limit(1000, 1500, True, Bus.SOC, udp=True).because == "1000 Mbit/s link, MTU 1500, UDP"


def test_no_setting_beats_the_highest_limit() -> None:
    highest = highest_limit(1000, 9000, Bus.SOC).goodput
    for mtu in (576, 1500, 9000):
        for timestamps in (True, False):
            for direction in Direction:
                assert physical_limit(1000, mtu, timestamps, Bus.SOC, direction).goodput <= highest


def test_a_small_segment_carries_less() -> None:
    # 1000 bytes of MSS: 988 of payload with timestamps in 1078 on the wire.
    assert physical_limit(1000, 1500, True, Bus.SOC, segment=1000).goodput.bps == pytest.approx(1e9 * 988 / 1078)
    assert physical_limit(1000, 1500, True, Bus.SOC, segment=8960).goodput.bps == pytest.approx(941.48e6, rel=1e-5)
    # 64-byte frames: 18 bytes of UDP payload in 84 on the wire.
    assert physical_limit(100, 1500, True, Bus.SOC, udp=True, segment=18).goodput.bps == pytest.approx(1e8 * 18 / 84)
