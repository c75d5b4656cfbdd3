"""The state of a virtual switch (VLANs and counters), and the packets that query it."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from pytest_pinet.virtual.agentx import Packet, PduType, encode_oid, encode_packet, encode_varbind
from pytest_pinet.virtual.credentials import SnmpAccess
from pytest_pinet.virtual.firmware import SwitchFaults, Vlan, VlanTable, with_lies
from pytest_pinet.virtual.kernel_lines import panic_at_boot, panic_in_traffic, stamped
from pytest_pinet.virtual.netlink import LinkInfo, QueueInfo
from pytest_pinet.virtual.port_counters import VirtualPortCounters
from pytest_pinet.virtual.shaping import arbiter, from_port, to_address, token_bucket
from pytest_pinet.virtual.switch_objects import SnmpType, Value, bitmap, ports_of


def test_a_port_forwards_only_if_all_three_settings_agree() -> None:
    table = VlanTable.fresh([1, 2])
    assert (table.home(1), table.home(2)) == (1, 1)
    table.pvid[2] = 10
    assert table.home(2) is None
    table.vlans[10] = Vlan(b"", frozenset({2}))
    assert table.home(2) is None
    table.vlans[10].untagged = frozenset({2})
    assert table.home(2) == 10


def test_a_copy_is_independent() -> None:
    table = VlanTable.fresh([1])
    copy = table.copy()
    copy.pvid[1] = 7
    copy.vlans[1].egress = frozenset()
    assert (table.pvid[1], table.home(1)) == (1, 1)


@pytest.mark.parametrize("ports", [set(), {1}, {8}, {9}, {1, 8, 9, 16}])
def test_a_port_list_is_decoded_as_it_was_encoded(ports: set[int]) -> None:
    assert ports_of(bitmap(ports, 8)) == ports


def test_the_first_port_is_the_highest_bit() -> None:
    assert bitmap({1, 10}, 2) == b"\x80\x40"


@pytest.mark.parametrize(
    "value",
    [
        Value(SnmpType.INTEGER, -5),
        Value(SnmpType.OCTETS, b"odd"),
        Value(SnmpType.OCTETS, b""),
        Value(SnmpType.COUNTER64, 2**63),
        Value(SnmpType.GAUGE32, 2**32 - 1),
        Value(SnmpType.NO_SUCH_INSTANCE),
    ],
)
@pytest.mark.parametrize("name", [(1, 3, 6, 1, 2, 1, 17), (1, 0, 8802, 1), (1, 3)])
def test_a_value_is_decoded_as_it_was_encoded(name: tuple[int, ...], value: Value) -> None:
    request = Packet(encode_packet(PduType.TEST_SET, 1, 2, 3, b""), encode_varbind(name, value))
    assert request.varbinds() == [(name, value)]


def test_an_oid_below_internet_is_encoded_in_short_form() -> None:
    assert encode_oid((1, 3, 6, 1, 2, 1)) == b"\x01\x02\x00\x00" + b"\x00\x00\x00\x01"


def test_a_response_has_the_numbers_of_its_request() -> None:
    request = Packet(encode_packet(PduType.GET, 1, 22, 333, b""))
    data = request.answered(error=12, index=2)
    answer = Packet(data[:20], data[20:])
    assert (answer.type, answer.session, answer.transaction, answer.number) == (PduType.RESPONSE, 1, 22, 333)
    assert answer.length == 8
    assert answer.numbers("IHH") == (0, 12, 2)


def link(rx_packets: int = 0, rx_bytes: int = 0, tx_bytes: int = 0) -> dict[str, LinkInfo]:
    return {"p1": LinkInfo(7, "p1", "02:00:00:00:00:01", 1500, True, True, None, rx_packets, rx_bytes, tx_bytes)}


NOTHING: MappingProxyType[str, int] = MappingProxyType({})


def test_octets_are_counted_as_on_a_wire() -> None:
    counters = VirtualPortCounters(lambda: 0.0, lambda: NOTHING)
    # Two packets of ten full segments: 1448 bytes of payload per segment, and 66 bytes of headers counted once per
    # packet.
    received = 2 * (66 + 10 * 1448)
    found = counters.read(link(2, received), ({7: QueueInfo(3000, 2, 5)}, {7: QueueInfo(received, 20, 0)}))["p1"]
    assert found.in_octets == 20 * 1518
    assert (found.out_octets, found.out_discards) == (3008, 5)


def test_counters_never_decrease() -> None:
    counters = VirtualPortCounters(lambda: 0.0, lambda: NOTHING)
    for rx_bytes, shown in ((1000, 1000), (400, 1400), (500, 1500), (0, 1500), (1, 1501)):
        assert counters.read(link(rx_bytes=rx_bytes), ({}, {}))["p1"].in_octets == shown


def test_segments_are_counted_after_the_queue_was_replaced() -> None:
    """As after a cable was swapped or plugged in again: the device has counted for hours, but its queue begins at 0."""
    counters = VirtualPortCounters(lambda: 0.0, lambda: NOTHING)
    packet = 66 + 10 * 1448
    counters.read(link(5000, 5000 * packet), ({}, {7: QueueInfo(0, 50_000, 0)}))
    before = counters.read(link(5000, 5000 * packet), ({}, {7: QueueInfo(0, 0, 0)}))["p1"].in_octets
    after = counters.read(link(5002, 5002 * packet), ({}, {7: QueueInfo(0, 20, 0)}))["p1"].in_octets
    assert after - before == 20 * 1518


@pytest.mark.parametrize("seen", [0, 1])
@pytest.mark.parametrize("stale_s", [0.0, 10.0])
def test_the_old_counts_of_a_returning_device_are_ignored(seen: int, stale_s: float) -> None:
    """Also if its new queue has seen a frame by the next reading. All segments count afterwards."""
    now = [0.0]
    counters = VirtualPortCounters(lambda: now[0], lambda: NOTHING)
    before = counters.read(link(5000, 5_000_000), ({}, {7: QueueInfo(0, 5000, 0)}))["p1"].in_octets
    counters.delay(stale_s)
    packet = 66 + 10 * 1448
    with counters.exchanging("p1"):
        counters.read(link(0, 0), ({}, {7: QueueInfo(0, 0, 0)}))
        counters.read(link(5000, 5_000_000), ({}, {}))
    counters.read(link(5000 + seen, 5_000_000 + seen * packet), ({}, {7: QueueInfo(0, 10 * seen, 0)}))
    now[0] = 11.0
    received = 5_000_000 + (seen + 2) * packet
    after = counters.read(link(5002 + seen, received), ({}, {7: QueueInfo(0, 10 * seen + 20, 0)}))["p1"].in_octets
    assert after - before == 20 * 1518


def test_stale_counters_are_updated_after_their_time() -> None:
    now = [0.0]
    counters = VirtualPortCounters(lambda: now[0], lambda: NOTHING)
    assert counters.read(link(rx_bytes=1), ({}, {}))["p1"].in_octets == 1
    counters.delay(3.0)
    now[0] = 2.9
    assert counters.read(link(rx_bytes=2), ({}, {}))["p1"].in_octets == 1
    now[0] = 3.1
    assert counters.read(link(rx_bytes=3), ({}, {}))["p1"].in_octets == 3


def test_faults_of_a_switch_are_described() -> None:
    assert SwitchFaults().words() == []
    assert with_lies(with_lies(SwitchFaults(dead=True), "p2"), "p1").words() == ["does not answer", "lies about p1, p2"]
    assert with_lies(SwitchFaults(stale_s=4), None).words() == ["lies", "counters 4 s old"]


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


def test_each_lab_has_its_own_secrets() -> None:
    one, two = SnmpAccess.make(), SnmpAccess.make()
    assert not set(vars(one).values()) & set(vars(two).values()) - {"pinet"}
    assert min(len(secret) for secret in (one.auth, one.priv)) >= 16


@pytest.mark.parametrize("lines", [panic_at_boot("Raspberry Pi 4"), panic_in_traffic("Raspberry Pi 4")])
def test_a_panic_has_a_first_line_a_trace_and_a_last_line(lines: list[str]) -> None:
    text = stamped(lines, 1.5)
    assert text.startswith("[    1.500000] ")
    assert "Kernel panic - not syncing: " in text
    assert "Hardware name: Raspberry Pi 4 (DT)" in text
    assert "Call trace:" in text
    assert lines[-1].startswith("---[ end Kernel panic - not syncing: ")
