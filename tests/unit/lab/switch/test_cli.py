"""Speeds, counters, MAC addresses and port names in the formats of switches."""

from __future__ import annotations

import pytest

from pytest_pinet.lab.switch.cli import count, mac, same_port, speed_mbps


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("1000", 1000),
        ("a-100", 100),
        ("a-1000", 1000),
        ("a-2.5G", 2500),
        ("1000M", 1000),
        ("10G", 10_000),
        ("10Gig", 10_000),
        ("2.5Gbps", 2500),
        ("100Mbps", 100),
        ("10Gb/s", 10_000),
        ("auto", None),
        ("a-", None),
        ("N/A", None),
        ("--", None),
        ("9" * 400 + "Gbps", None),
        (None, None),
    ],
)
def test_speed(text: str | None, speed: int | None) -> None:
    assert speed_mbps(text) == speed


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("43,228,258", 43_228_258),
        ("5 880 759 393", 5_880_759_393),
        ("", None),
        ("n/a", None),
        ("9" * 5000, None),
        (None, None),
    ],
)
def test_count(text: str | None, number: int | None) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    "text", ["dca6.3200.0001", "dca632-000001", "DC:A6:32:00:00:01", "dc-a6-32-00-00-01", "dc a6 32 00 00 01"]
)
def test_mac(text: str) -> None:
    assert mac(text) == "dc:a6:32:00:00:01"


@pytest.mark.parametrize("text", ["10.65.1.11", "Gi1/0/16", "", None])
def test_no_mac(text: str | None) -> None:
    assert mac(text) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Gi1/0/1", "GigabitEthernet1/0/1", True),
        ("gigabitEthernet 1/0/1", "Gi1/0/1", True),
        ("gi1", "gi1", True),
        ("ether1", "ether10", False),
        ("Gi1/0/1", "Te1/0/1", False),
        ("Gi1/0/1", "1/0/1", False),
        ("0/1", "0/1", True),
        ("1", "11", False),
        ("sfp-sfpplus1", "sfp-sfpplus1", True),
        ("lan", "LAN", True),
        ("lan", "wan", False),
    ],
)
def test_same_port(one: str, other: str, same: bool) -> None:
    assert same_port(one, other) is same
    assert same_port(other, one) is same
