"""The link models compared with published values."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_pinet.judge.oracle import PacketSizes, pcie_leaves
from pytest_pinet.model.evidence import PcieLink
from pytest_pinet.virtual.cable import Faults
from pytest_pinet.virtual.link_models import (
    BusLane,
    Shape,
    arbiter,
    burst,
    bus_bucket,
    bus_lines,
    chunk,
    from_port,
    goodput,
    model_of,
    node_queue,
    port_queue,
    to_address,
    token_bucket,
    wire_rate,
)
from pytest_pinet.virtual.pi_firmware import BootSettings

STOCK = BootSettings(1500)


def shape_of(board: str, nic: str, speed_mbps: int, boot: BootSettings = STOCK, mtu: int = 1500) -> Shape:
    return model_of(board, nic, speed_mbps).shape(boot, mtu)


def bidirectional(tx: BusLane, rx: BusLane, most_rx: float = float("inf")) -> tuple[float, float]:
    """Return the goodput of both directions at once (Mbit/s without timestamps), where both lines meet unless rx is
    capped.
    """
    a, b = (goodput(lane.rate_bps, timestamps=False) / 1e6 for lane in (tx, rx))
    got_rx = min((b - rx.charge * a) / (1 - tx.charge * rx.charge), most_rx)
    return a - tx.charge * got_rx, got_rx


@pytest.mark.parametrize(
    ("speed", "mtu", "mbps"),
    [(100, 1500, 98.4395), (1000, 1500, 984.395), (2500, 1500, 2460.99), (1000, 9000, 997.345)],
)
def test_the_layer_2_rate_of_a_wire(speed: int, mtu: int, mbps: float) -> None:
    assert wire_rate(speed, mtu) / 1e6 == pytest.approx(mbps, rel=1e-5)


@pytest.mark.parametrize(("speed", "mbps"), [(100, 94.15), (1000, 941.5), (2500, 2353.7), (10_000, 9414.8)])
def test_the_goodput_of_a_wire_with_timestamps(speed: int, mbps: float) -> None:
    assert goodput(wire_rate(speed)) / 1e6 == pytest.approx(mbps, rel=1e-4)


def test_the_goodput_of_a_gigabit_wire_without_timestamps() -> None:
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
def test_models_reproduce_published_goodput(board: str, nic: str, speed: int, tx: float, rx: float) -> None:
    shape = shape_of(board, nic, speed)
    assert goodput(shape.tx_bps) / 1e6 == pytest.approx(tx, rel=1e-3)
    assert goodput(shape.rx_bps) / 1e6 == pytest.approx(rx, rel=1e-3)


@pytest.mark.parametrize(
    ("nic", "clock", "tx", "rx"),
    [
        ("ax88179", 1500, 736, 949),
        ("ax88179", 2000, 834, 949),
        ("rtl8153", 1500, 949, 933),
        ("rtl8153", 2000, 949, 949),
    ],
)
def test_models_reproduce_published_goodput_of_usb3_adapters(nic: str, clock: int, tx: float, rx: float) -> None:
    shape = shape_of("pi4b", nic, 1000, BootSettings(clock))
    assert goodput(shape.tx_bps, timestamps=False) / 1e6 == pytest.approx(tx, rel=1e-3)
    assert goodput(shape.rx_bps, timestamps=False) / 1e6 == pytest.approx(rx, rel=1e-3)


@pytest.mark.parametrize(
    ("nic", "clock", "bidir", "capped_tx"),
    [
        ("ax88179", 1500, (163, 902), None),  # its source received 496 of 400 Mbit/s at the same time
        ("ax88179", 2000, (269, 880), 552),
        ("rtl8153", 1500, (538, 847), 774),
        ("rtl8153", 2000, (743, 908), 819),
    ],
)
def test_models_reproduce_published_bidirectional_goodput_of_usb3_adapters(
    nic: str, clock: int, bidir: tuple[float, float], capped_tx: float | None
) -> None:
    lanes = shape_of("pi4b", nic, 1000, BootSettings(clock)).lanes
    assert lanes is not None
    assert bidirectional(*lanes) == pytest.approx(bidir, rel=0.1)
    if capped_tx is not None:
        assert bidirectional(*lanes, most_rx=400)[0] == pytest.approx(capped_tx, rel=0.1)


@pytest.mark.parametrize(
    ("payload", "mtu", "published"), [(128, 1500, 3020), (512, 1500, 3420), (512, 9000, 3590), (128, 9000, None)]
)
def test_10g_on_a_cm4_depends_on_payload_and_mtu_within_the_limits_of_pcie(
    payload: int, mtu: int, published: float | None
) -> None:
    shape = shape_of("cm4", "aqc107", 10_000, BootSettings(1500, payload), mtu)
    mbps = goodput(shape.tx_bps, mtu) / 1e6
    if published is not None:
        assert mbps == pytest.approx(published, rel=1e-3)
    left = pcie_leaves(PcieLink(5.0, 1, payload), PacketSizes(mtu, True))
    assert left is not None
    assert left[0].bps <= mbps * 1e6 <= left[1].bps


def test_jumbo_frames_have_more_goodput() -> None:
    assert goodput(shape_of("pi5", "macb", 1000, mtu=9000).tx_bps, 9000) / 1e6 == pytest.approx(990, rel=1e-3)


def test_a_switch_model_reproduces_its_published_goodput() -> None:
    shape = model_of("pi4b", "genet", 1000, "gigablox").shape(STOCK)
    assert shape.model == "wire-1000 at gigablox"
    assert goodput(shape.tx_bps) / 1e6 == pytest.approx(925.6, abs=0.1)
    for mbps in (906, 941):
        assert abs(goodput(shape.rx_bps) / 1e6 / mbps - 1) < 0.03
    assert model_of("pi3b", "lan9514", 100, "gigablox").shape(STOCK).wire_bps == wire_rate(100)
    assert model_of("pi4b", "genet", 1000, "other").shape(STOCK).wire_bps == wire_rate(1000)


def test_the_name_of_a_variant_contains_its_condition() -> None:
    assert shape_of("cm4", "aqc107", 10_000, BootSettings(1500, 512), 9000).model == "pcie2x1-10g (MPS 512, MTU 9000)"
    assert shape_of("pi4b", "ax88179", 1000, BootSettings(1999)).model == "usb3-ax88179"


def test_a_slower_link_caps_every_model() -> None:
    assert shape_of("pi4b", "ax88179", 100).tx_bps == wire_rate(100)
    assert shape_of("cm4", "aqc107", 1000).wire_bps == wire_rate(1000)


def test_an_unknown_nic_runs_at_its_link_speed() -> None:
    assert shape_of("pi9", "nobody", 5000) == Shape("wire-5000", wire_rate(5000))


def test_sizes_of_queues_and_buckets() -> None:
    assert burst(wire_rate(100)) == 80_000
    assert burst(1e9) == 500_000
    assert [port_queue(wire_rate(speed)) for speed in (100, 1000, 2500)] == [128_000, 512_000, 2_000_000]
    assert node_queue(wire_rate(100)) == 200_000


def test_a_bus_redirects_both_directions_of_the_nic() -> None:
    shape = shape_of("pi4b", "ax88179", 1000)
    lines = bus_lines("eth1", ("bus0", "back0"), shape, "02:00:00:00:00:01")
    assert sum("mirred egress redirect dev bus0" in line for line in lines) == 1
    assert sum("mirred egress redirect dev back0" in line for line in lines) == 1
    assert any("ceil 763200000bit" in line and "dev bus0" in line for line in lines)
    assert any("limit 131072" in line for line in lines)


def test_a_random_share_of_each_direction_is_copied_to_the_other_lane() -> None:
    shape = shape_of("pi4b", "ax88179", 1000)
    copies = [line for line in bus_lines("eth1", ("bus0", "back0"), shape, "02:00:00:00:00:01") if "mirror" in line]
    for line, hook, share, lane in zip(copies, ("ingress", "egress"), (0.628, 0.25), ("bus0", "back0"), strict=True):
        assert f" {hook} " in line
        assert f",53 1 0 {round(share * 2**32)}," in line
        assert f"mirror dev {lane} " in line


def test_usb_2_has_one_queue_for_both_directions() -> None:
    shape = shape_of("pi3b", "ax88179", 1000)
    lines = bus_lines("eth1", ("bus0", "back0"), shape, "02:00:00:00:00:01")
    assert sum("mirred egress redirect dev bus0" in line for line in lines) == 2
    assert not any("back0" in line for line in lines)


def test_faults_are_combined_and_described() -> None:
    faults = Faults().degraded(rate=0.9, loss=None, down=False, direction="tx")
    assert faults.words() == ["tx rate 90%"]
    assert faults.degraded(rate=0.9, loss=0.01, down=True, direction=None).words() == [
        "rate 90%",
        "loss 1%",
        "cable pulled",
    ]
    assert Faults().words() == []


@pytest.mark.parametrize("nic", ["genet", "ax88179"])
def test_scaling_a_shape_scales_all_rates(nic: str) -> None:
    full = shape_of("pi4b", nic, 1000)
    tenth = full.scaled(0.1)
    assert (tenth.tx_bps, tenth.rx_bps) == pytest.approx((full.tx_bps / 10, full.rx_bps / 10))
    assert tenth.wire_bps == pytest.approx(full.wire_bps / 10)
    assert full.scaled(1.0) == full
    assert (tenth.lanes is None) == (full.lanes is None)
    if full.lanes is not None and tenth.lanes is not None:
        assert (tenth.lanes[0].charge, tenth.lanes[0].limit) == (full.lanes[0].charge, full.lanes[0].limit)


def test_scaling_a_usb_2_bus() -> None:
    assert shape_of("pi3b", "ax88179", 1000).scaled(0.1).bus_bps == pytest.approx(33.56e6)


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
