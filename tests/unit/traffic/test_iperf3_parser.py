"""Broken outputs: each gives its own error, and none gives a value."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import PinetError, TrafficError, UnsupportedError
from pytest_pinet.model.measurement import EventKind
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import _cpu_percent, _repeated
from pytest_pinet.traffic.iperf3_parser import flows
from pytest_pinet.traffic.iperf3_report import read
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole
from tests.support.iperf3_output import parse_client

DATA = Path(__file__).parents[2] / "data" / "iperf3"
GOOD = (DATA / "3.12-debian12" / "rev.json").read_text()
UDP = (DATA / "3.12-debian12" / "udprev.json").read_text()
TRAFFIC = Traffic(Direction.RX, duration_s=2, warmup_s=0)


def refused(stdout: str, traffic: Traffic = TRAFFIC, stderr: str = "", code: int = 0) -> str:
    with pytest.raises(TrafficError) as caught:
        parse_client(stdout, stderr, code, traffic, ("pi4b-1", "pi5-1"))
    assert len(caught.value.message) < 500
    assert len(caught.value.evidence) < 10_000
    return caught.value.message


def changed(change: Callable[[Any], object], text: str = GOOD) -> str:
    value = json.loads(text)
    change(value)
    return json.dumps(value)


def test_the_good_one_is_good() -> None:
    flow = parse_client(GOOD, "", 0, TRAFFIC)[Direction.RX]
    assert str(flow.goodput) == "95.8 Mbit/s"
    assert flow.retransmits == 0


@pytest.mark.parametrize(
    ("stdout", "sentence"),
    [
        ("", "the iperf3 client on pi4b-1 failed: it printed nothing"),
        (" \n", "it printed nothing"),
        ("hello\n" + GOOD, "it begins with 'hello\\n{"),
        (GOOD + GOOD, "after the JSON object comes '{"),
        (GOOD + "Killed\n", "after the JSON object comes 'Killed"),
        ("[1, 2]", "it begins with '[1, 2]'"),
        ("null", "it begins with 'null'"),
        ("{}", "it has no object 'start'"),
        ("{" * 100_000, "is not JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"start": {"version": "iperf 2.1"}, "start": 1}', "the key 'start' occurs twice"),
        (GOOD.replace("iperf 3.12", "ttcp 9"), "'ttcp 9' does not name an iperf version"),
        (GOOD.replace("11992336", "NaN"), "a value is NaN"),
        (GOOD.replace("11992336", "-Infinity"), "a value is -Infinity"),
        (GOOD.replace("11992336", "1e999"), "'bytes' is inf"),
        (GOOD.replace("11992336", "-11992336"), "'bytes' is -11992336"),
        (GOOD.replace("11992336", "1" * 30), "'bytes' is 111111111111111111111111111111"),
        (GOOD.replace("11992336", "1" * 5000), "Exceeds the limit"),
        (GOOD.replace("11992336", '"11992336"'), "it has no number 'bytes'"),
        (GOOD.replace("11992336", "true"), "it has no number 'bytes'"),
        (GOOD.replace("11992336", "1.5"), "'bytes' is 1.5, not a whole number"),
        (GOOD.replace("11992336", "21992336"), "its intervals have 33947024 bytes, but its final sum has 23947024"),
        (GOOD.replace('"TCP"', '"UDP"'), "iperf3 ran UDP, not TCP"),
    ],
)
def test_odd_text_is_refused(stdout: str, sentence: str) -> None:
    assert sentence in refused(stdout)


@pytest.mark.parametrize("length", [1, 100, 1000, len(GOOD) // 2, len(GOOD.rstrip()) - 1])
def test_the_error_of_a_truncated_output_names_its_length(length: int) -> None:
    message = refused(GOOD[:length])
    assert message.startswith("the output of the iperf3 client on pi4b-1 cannot be trusted: ")
    assert f"it ends in the middle, after {length} characters" in message or "is not JSON" in message


def test_ten_megabytes_of_garbage_are_refused_shortly() -> None:
    garbage = os.urandom(5_000_000).hex()
    assert "it begins with" in refused(garbage)
    assert "it ends in the middle" in refused('{"a": "' + garbage)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda v: v.pop("end"), "it has no object 'end'"),
        (lambda v: v.pop("intervals"), "it has no list 'intervals'"),
        (lambda v: v["end"].update(streams={}), "it has no list 'streams'"),
        (lambda v: v["end"].update(streams=[1]), "it has no list 'streams'"),
        (lambda v: v["end"].update(streams=[]), "0 of 1 streams ran"),
        (lambda v: v["intervals"].pop(), "it covers 1.00 s of 2 s"),
        (lambda v: v["intervals"].insert(0, v["intervals"][0]), "its intervals overlap by 1.0 s"),
        (lambda v: v["intervals"][1]["sum"].update(start=1.5), "its intervals leave a gap of 0.5 s"),
        (lambda v: v["intervals"][0]["streams"].append({"sender": False, "socket": 9, "bytes": 1}), "2 of 1 streams"),
        (lambda v: v["end"].update(sum_sent_bidir_reverse={}), "both directions ran, not one"),
        (lambda v: v["end"]["sum_sent"].update(retransmits=-1), "'retransmits' is -1"),
    ],
)
def test_missing_and_surplus_parts_are_named(change: Callable[[Any], object], sentence: str) -> None:
    assert sentence in refused(changed(change))


def test_traffic_without_a_received_byte_is_an_error() -> None:
    def silence(value: Any) -> None:
        value["end"]["sum_received"]["bytes"] = 0
        for interval in value["intervals"]:
            interval["sum"]["bytes"] = interval["streams"][0]["bytes"] = 0

    assert refused(changed(silence)) == "no byte arrived in direction rx after the warm-up"


def test_the_requested_direction_must_be_in_the_output() -> None:
    assert "only one direction ran, not both" in refused(GOOD, replace(TRAFFIC, direction=Direction.BIDIR))


def test_the_number_of_streams_must_be_right() -> None:
    assert "1 of 2 streams ran" in refused(GOOD, replace(TRAFFIC, streams=2))


def test_the_time_must_be_covered() -> None:
    assert "it covers 2.00 s of 3 s" in refused(GOOD, replace(TRAFFIC, duration_s=3))


def test_the_warmup_is_kept_but_not_counted() -> None:
    flow = parse_client(GOOD, "", 0, replace(TRAFFIC, duration_s=1, warmup_s=1))[Direction.RX]
    assert [s.warmup for s in flow.samples] == [True, False]
    assert flow.goodput.bps == pytest.approx(11954688 * 8 / 1.0000319, rel=1e-6)


def test_a_warmup_that_is_found_ends_where_the_rate_is_at_its_level() -> None:
    def slow_start(value: Any) -> None:
        first = value["intervals"][0]
        first["sum"]["bytes"] = first["streams"][0]["bytes"] = 4_000_000
        value["end"]["sum_received"]["bytes"] = 4_000_000 + value["intervals"][1]["sum"]["bytes"]
        value["end"]["sum_sent"]["bytes"] = value["end"]["sum_received"]["bytes"]

    traffic = replace(TRAFFIC, duration_s=1, warmup_s=None)
    flow = parse_client(GOOD, "", 0, traffic)[Direction.RX]
    assert [s.warmup for s in flow.samples] == [False, False]
    flow = parse_client(changed(slow_start), "", 0, traffic)[Direction.RX]
    assert [s.warmup for s in flow.samples] == [True, False]
    assert flow.goodput.bps == pytest.approx(11954688 * 8 / 1.0000319, rel=1e-6)


def fine(blocks: list[int], version: str) -> str:
    """Return the correct output with intervals of 0.1 s that hold these numbers of 128 KiB blocks."""
    value = json.loads(GOOD)
    value["start"]["version"] = version
    template = value["intervals"][0]
    value["intervals"] = []
    for index, count in enumerate(blocks):
        times = {"start": index / 10, "end": (index + 1) / 10, "seconds": 0.1, "bytes": count * 131072}
        interval = {"streams": [{**template["streams"][0], **times}], "sum": {**template["sum"], **times}}
        value["intervals"].append(interval)
    total = sum(blocks) * 131072
    value["end"]["sum_received"] |= {"bytes": total, "seconds": len(blocks) / 10}
    value["end"]["sum_sent"] |= {"bytes": total, "seconds": len(blocks) / 10}
    value["start"]["test_start"]["duration"] = len(blocks) / 10
    return json.dumps(value)


# 100 Mbit/s as a receiver with threads reports it, with a stall of 0.8 s.
BLOCKS = [8, 9, 10, 9, 9, 9, 9, 10, 9, 9] + [0] * 8 + [9] * 12


def test_blocks_of_a_threaded_receiver_make_longer_samples_but_the_same_goodput() -> None:
    traffic = replace(TRAFFIC, duration_s=2, warmup_s=None)
    old, new = (parse_client(fine(BLOCKS, v), "", 0, traffic)[Direction.RX] for v in ("iperf 3.12", "iperf 3.18"))
    assert {round(s.seconds, 2) for s in old.samples} == {0.1}
    assert max(round(s.seconds, 2) for s in new.samples) == 0.5
    assert sum(s.bytes for s in old.samples) == sum(s.bytes for s in new.samples)
    for flow in (old, new):
        (event,) = flow.events
        assert event.kind is EventKind.STALL
        # Five intervals with blocks are merged.
        assert event.seconds == pytest.approx(0.8, abs=0.2)


def test_blocks_on_a_slow_link_are_not_stalls() -> None:
    blocks = [0, 1, 0, 0, 1, 0, 1, 0, 1, 0] * 3
    assert parse_client(fine(blocks, "iperf 3.18"), "", 0, replace(TRAFFIC, duration_s=3))[Direction.RX].events == ()


def test_the_senders_own_values_are_read() -> None:
    names = ("rev-3.18-3.18", "rev-3.12-3.9")
    for name in names:
        client, server = ((DATA / "pairs" / f"{name}.{role}.json").read_text() for role in ("client", "server"))
        output = Output(ProcessRole.SERVER, "far", "near", 0, server)
        traffic = Traffic(Direction.TX, duration_s=2, warmup_s=1)
        flow = parse_client(client, "", 0, traffic, ("near", "far"), output)[Direction.TX]
        assert flow.sent_bytes is not None
        assert sum(s.bytes for s in flow.sender_samples) == pytest.approx(flow.sent_bytes, rel=0.02)
        mean_rtt = json.loads(server)["end"]["streams"][0]["sender"]["mean_rtt"]
        assert flow.rtt_s == pytest.approx(mean_rtt / 1e6)
        assert flow.goodput == parse_client(client, "", 0, traffic)[Direction.TX].goodput


def test_omitted_intervals_are_never_counted() -> None:
    text = (DATA / "3.21" / "revomit.json").read_text()
    flow = parse_client(text, "", 0, TRAFFIC)[Direction.RX]
    assert len(flow.samples) == 2
    assert len(json.loads(text)["intervals"]) == 4


def test_lost_datagrams_are_counted_after_the_warmup() -> None:
    def lose(value: Any) -> None:
        value["intervals"][0]["sum"]["lost_packets"] = 100
        value["intervals"][1]["sum"]["lost_packets"] = 7

    traffic = replace(TRAFFIC, udp=True, duration_s=1, warmup_s=1)
    flow = parse_client(changed(lose, UDP), "", 0, traffic)[Direction.RX]
    assert flow.lost_packets == 7
    assert flow.packets == json.loads(UDP)["intervals"][1]["sum"]["packets"]


def test_late_datagrams_take_back_losses_but_never_more() -> None:
    def late(value: Any) -> None:
        value["intervals"][1]["sum"]["lost_packets"] = -3

    flow = parse_client(changed(late, UDP), "", 0, replace(TRAFFIC, udp=True))[Direction.RX]
    assert flow.lost_packets == 0


def test_intervals_that_lose_more_datagrams_than_they_have_are_refused() -> None:
    def lose(value: Any) -> None:
        value["intervals"][1]["sum"]["lost_packets"] = 2**31

    said = refused(changed(lose, UDP), replace(TRAFFIC, udp=True))
    assert "its intervals have 2147483648 lost datagrams of " in said


def fewer_than_none(count: object) -> Callable[[Any], None]:
    """Return a change after which each final sum of the datagrams has this count of lost ones, as after repetitions."""

    def change(value: Any) -> None:
        for key in ("sum", "sum_sent", "sum_received"):
            value["end"][key]["lost_packets"] = count

    return change


def test_datagrams_that_arrived_twice_are_no_loss() -> None:
    recorded = (DATA / "3.21" / "udprev.json").read_text()
    traffic = replace(TRAFFIC, udp=True)
    plain = parse_client(recorded, "", 0, traffic)[Direction.RX]
    flow = parse_client(changed(fewer_than_none(-12), recorded), "", 0, traffic)[Direction.RX]
    assert (flow.lost_packets, flow.packets, flow.goodput) == (0, plain.packets, plain.goodput)
    report = read(Output(ProcessRole.CLIENT, "near", "far", 0, changed(fewer_than_none(-12), recorded)))
    assert _repeated(report) == ["at least 12 datagrams arrived twice; none is counted as lost"]
    assert _repeated(read(Output(ProcessRole.CLIENT, "near", "far", 0, recorded))) == []


@pytest.mark.parametrize("count", [-(2**31), 2**31, 1.5, True, None, "none"])
def test_an_impossible_count_of_lost_datagrams_is_refused(count: object) -> None:
    recorded = (DATA / "3.21" / "udprev.json").read_text()
    output = Output(ProcessRole.CLIENT, "near", "far", 0, changed(fewer_than_none(count), recorded))
    with pytest.raises(
        TrafficError, match=r"cannot be trusted: ('lost_packets' is .* of \d+ datagrams|it has no number)"
    ):
        _repeated(read(output))


@pytest.mark.parametrize("wrong", [-3.4, None, "much"])
def test_an_impossible_use_of_the_processor_is_left_out(wrong: object) -> None:
    def wrap(value: Any) -> None:
        value["end"]["cpu_utilization_percent"]["remote_total"] = wrong

    plain = _cpu_percent(read(Output(ProcessRole.CLIENT, "near", "far", 0, GOOD)), "dut", "peer")
    found = _cpu_percent(read(Output(ProcessRole.CLIENT, "near", "far", 0, changed(wrap))), "dut", "peer")
    assert found == {"dut": plain["dut"]}


def test_absent_retransmits_are_not_zero() -> None:
    flow = parse_client(changed(lambda v: v["end"]["sum_sent"].pop("retransmits")), "", 0, TRAFFIC)[Direction.RX]
    assert flow.retransmits is None


@pytest.mark.parametrize(
    ("code", "stderr", "sentence"),
    [
        (127, "sh: 1: iperf3: not found\n", "pi4b-1 has no iperf3 (sh: 1: iperf3: not found)"),
        (137, "", "the iperf3 client on pi4b-1 was killed (SIGKILL)"),
        (143, "Terminated\n", "the iperf3 client on pi4b-1 was killed (SIGTERM)"),
        (124, "", "the iperf3 client on pi4b-1 did not end in time"),
        (1, "", "the iperf3 client on pi4b-1 failed: exit status 1"),
        (1, "iperf3: error - no luck\nand more\n", "the iperf3 client on pi4b-1 failed: no luck"),
    ],
)
def test_exit_statuses_are_explained(code: int, stderr: str, sentence: str) -> None:
    assert refused("", stderr=stderr, code=code) == sentence


def test_a_lost_ssh_connection_is_not_an_iperf3_error() -> None:
    with pytest.raises(PinetError, match="the connection to pi4b-1 was lost while its iperf3 client ran"):
        parse_client("", "", 255, TRAFFIC, ("pi4b-1", "pi5-1"))


def test_a_refused_window_names_the_bound() -> None:
    text = json.dumps({"error": "socket buffer size not set correctly"})
    with pytest.raises(UnsupportedError, match=r"raise net\.core\.rmem_max and net\.core\.wmem_max"):
        parse_client(text, "", 1, TRAFFIC)


@pytest.mark.parametrize("duration_s", [2.0, 60.0])
def test_a_client_that_sent_tells_its_own_time_and_the_server_what_arrived(duration_s: float) -> None:
    """The duration in the server's time is irrelevant if the client's clock counts."""
    names = (DATA / "pairs" / f"tcp-3.12-3.12.{role}.json" for role in ProcessRole)
    client, server = (
        read(Output(role, "a", "b", 0, name.read_text(), "")) for role, name in zip(ProcessRole, names, strict=True)
    )
    traffic = Traffic(Direction.TX, streams=2, duration_s=duration_s, warmup_s=1.0)
    flow = flows(traffic, client, server, one_clock=False)[Direction.TX]
    assert sum(sample.seconds for sample in flow.sender_samples) == pytest.approx(2.0, abs=0.01)
    assert flow.sent_bytes == sum(sample.bytes for sample in flow.sender_samples)
    assert flow.received_bytes == sum(sample.bytes for sample in flow.samples)
    assert len(flow.streams) == 2
    assert flow.retransmits is not None


@pytest.mark.parametrize("pace", [1.0, 0.3])
def test_both_ways_are_timed_by_a_clients_virtual_clock(pace: float) -> None:
    """iperf3 gives both directions the times of its first stream: here 5.3 s by the server for 3 s of the client.

    ``pace`` of the server's clock: seconds of its recorded time per second. Also bytes after 3 s of it are in time.
    """
    reports = [json.loads((DATA / "pairs" / f"virtual-3.12-3.12.{role}.json").read_text()) for role in ProcessRole]
    client, server = reports
    sums = [one for name, one in client["end"].items() if name.startswith("sum_received")]
    sums += [one for name, one in server["end"].items() if name.startswith("sum_")]
    for interval in server["intervals"]:
        sums += [interval["sum"], interval["sum_bidir_reverse"]]
    for one in sums:
        one.update({key: one[key] * pace for key in ("start", "end", "seconds")})
    outputs = [read(Output(r, "a", "b", 0, json.dumps(one))) for r, one in zip(ProcessRole, reports, strict=True)]
    traffic = Traffic(Direction.BIDIR, duration_s=3, warmup_s=0)
    found = flows(traffic, outputs[0], outputs[1], one_clock=False, interval_s=0.1)
    for way in traffic.direction.parts:
        flow = found[way]
        by_client = flow.sender_samples if way is Direction.TX else flow.samples
        assert sum(sample.seconds for sample in by_client) == pytest.approx(3.0, abs=0.01)
    assert found[Direction.TX].received_bytes == client["end"]["sum_sent"]["bytes"]
    assert found[Direction.RX].received_bytes == client["end"]["sum_received_bidir_reverse"]["bytes"]
