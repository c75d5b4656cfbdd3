"""The link models against the figures of facts/switches-and-links.md."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from pytest_pinet.virtual.faults import Faults
from pytest_pinet.virtual.link_models import Shape, goodput, shape_of, wire_rate
from pytest_pinet.virtual.shaping import burst, bus_lines, node_queue, port_queue


@pytest.mark.parametrize(
    ("speed", "mtu", "mbps"),
    [(100, 1500, 98.4395), (1000, 1500, 984.395), (2500, 1500, 2460.99), (1000, 9000, 997.345)],
)
def test_a_wire_carries_what_the_facts_say(speed: int, mtu: int, mbps: float) -> None:
    assert wire_rate(speed, mtu) / 1e6 == pytest.approx(mbps, rel=1e-5)


@pytest.mark.parametrize(("speed", "mbps"), [(100, 94.15), (1000, 941.5), (2500, 2353.7), (10_000, 9414.8)])
def test_goodput_of_a_wire_is_the_oracle_with_timestamps(speed: int, mbps: float) -> None:
    assert goodput(wire_rate(speed)) / 1e6 == pytest.approx(mbps, rel=1e-4)


def test_without_timestamps_a_gigabit_wire_gives_949() -> None:
    assert goodput(wire_rate(1000), timestamps=False) / 1e6 == pytest.approx(949.3, abs=0.05)


@pytest.mark.parametrize(
    ("board", "nic", "speed", "tx", "rx"),
    [
        ("pi3b", "lan9514", 100, 94.1, 94.1),
        ("pi3b+", "lan7515", 1000, 224, 224),
        ("pi3b", "ax88179", 1000, 321, 321),
        ("pi4b", "genet", 1000, 941.5, 941.5),
        ("cm4", "aqc107", 10_000, 3020, 3020),
        ("cm4", "rtl8125", 2500, 1920, 1920),
        ("pi5", "rtl8125", 2500, 2353.7, 2353.7),
        ("pi5", "aqc113", 10_000, 6040, 6040),
    ],
)
def test_goodput_of_boards_and_nics_is_what_was_published(
    board: str, nic: str, speed: int, tx: float, rx: float
) -> None:
    shape = shape_of(board, nic, speed)
    assert goodput(shape.tx_bps) / 1e6 == pytest.approx(tx, rel=1e-3)
    assert goodput(shape.rx_bps) / 1e6 == pytest.approx(rx, rel=1e-3)


@pytest.mark.parametrize(("nic", "tx", "rx"), [("ax88179", 736, 949), ("rtl8153", 949, 933)])
def test_usb3_adapters_give_what_was_published_without_timestamps(nic: str, tx: float, rx: float) -> None:
    shape = shape_of("pi4b", nic, 1000)
    assert goodput(shape.tx_bps, timestamps=False) / 1e6 == pytest.approx(tx, rel=1e-3)
    assert goodput(shape.rx_bps, timestamps=False) / 1e6 == pytest.approx(rx, rel=1e-3)


def test_a_slower_link_caps_every_model() -> None:
    assert shape_of("pi4b", "ax88179", 100).tx_bps == wire_rate(100)
    assert shape_of("cm4", "aqc107", 1000).wire_bps == wire_rate(1000)


def test_an_unknown_nic_runs_at_its_link_speed() -> None:
    assert shape_of("pi9", "nobody", 5000) == Shape("wire-5000", wire_rate(5000))


@pytest.mark.parametrize("nic", ["genet", "ax88179"])
def test_a_shape_survives_its_journey_to_the_daemon(nic: str) -> None:
    shape = shape_of("pi4b", nic, 1000)
    assert Shape.from_json(json.loads(json.dumps(asdict(shape)))) == shape
    assert Shape.from_json(shape_of("pi3b", "ax88179", 1000).to_json()).bus is not None


def test_queues_and_buckets_are_as_measured_best() -> None:
    assert burst(wire_rate(100)) == 80_000
    assert burst(1e9) == 500_000
    assert [port_queue(wire_rate(speed)) for speed in (100, 1000, 2500)] == [128_000, 512_000, 2_000_000]
    assert node_queue(wire_rate(100)) == 200_000


def test_a_bus_takes_both_directions_of_the_nic() -> None:
    shape = shape_of("pi4b", "ax88179", 1000)
    assert shape.bus is not None
    lines = bus_lines("eth1", "bus0", shape.bus, "02:00:00:00:00:01")
    assert sum("mirred egress redirect dev bus0" in line for line in lines) == 2
    assert any("prio 1" in line and "ceil 763200000bit" in line for line in lines)
    assert any("limit 131072" in line for line in lines)


def test_faults_add_up_and_say_what_they_are() -> None:
    faults = Faults().degraded(rate=0.9, loss=None, down=False, direction="tx")
    assert faults.words() == ["tx rate 90%"]
    assert faults.degraded(rate=0.9, loss=0.01, down=True, direction=None).words() == [
        "rate 90%",
        "loss 1%",
        "cable pulled",
    ]
    assert Faults().words() == []
