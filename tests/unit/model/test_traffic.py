"""Traffic: its keys, its times, and selftests of the kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.measure.ping import Pings
from pytest_pinet.measure.transactions import Transactions
from pytest_pinet.model.limits import Limit, Origin, parse_arguments
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, Kselftest, LadderTraffic, PathSetup, Traffic
from pytest_pinet.session import arguments
from pytest_pinet.session.gate import check
from pytest_pinet.traffic.iperf3_command import Iperf3Run, ProcessSide, server_command, validate
from pytest_pinet.traffic.processes import begin_at
from tests.support import link_stand_in

BOTH = Traffic(Direction.BIDIR, streams=10)
CAPPED = replace(BOTH, peer_bitrate=Bitrate.mbps(40))


@pytest.mark.parametrize(
    ("traffic", "key"),
    [
        (BOTH, "tcp-P10-bidir"),
        (replace(BOTH, opposed=True), "tcp-P10-opposed-bidir"),
        (CAPPED, "tcp-P10-pb40M-bidir"),
        # Two processes support it in any case.
        (replace(CAPPED, opposed=True), "tcp-P10-pb40M-bidir"),
        (HttpTraffic(Direction.TX, streams=8, size=1000), "http-c8-s1000"),
        (LadderTraffic(Direction.RX, True, bitrate=Bitrate.mbps(90), length=64), "udp-P1-b90M-l64-ladder"),
    ],
)
def test_the_key_names_what_is_sent(traffic: Traffic, key: str) -> None:
    assert traffic.key == key


def test_each_direction_has_its_own_rate_and_process() -> None:
    both = replace(CAPPED, bitrate=Bitrate.mbps(90))
    assert both.apart
    assert not BOTH.apart
    sends, receives = (both.one_way(way) for way in both.direction.parts)
    assert (sends.direction, sends.bitrate, sends.apart) == (Direction.TX, Bitrate.mbps(90), False)
    assert (receives.direction, receives.bitrate) == (Direction.RX, Bitrate.mbps(40))
    assert replace(BOTH, opposed=True).one_way(Direction.RX).bitrate is None


@pytest.mark.parametrize("way", [Direction.TX, Direction.RX])
def test_a_capped_peer_is_for_both_ways_at_once(way: Direction) -> None:
    with pytest.raises(ConfigError, match="peer_bitrate needs both directions at once"):
        validate(CAPPED.towards(way))
    with pytest.raises(ConfigError, match="opposed needs both directions at once"):
        validate(Traffic(way, opposed=True))


def test_a_peer_that_sends_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"peer_bitrate=0 bit/s: expected at least 1 bit/s"):
        validate(replace(BOTH, peer_bitrate=Bitrate(0)))


def test_a_step_of_a_ladder_is_plain_udp() -> None:
    step = LadderTraffic(Direction.RX, True, 2, bitrate=Bitrate.mbps(90), length=64).step(Bitrate.mbps(10))
    assert type(step) is Traffic
    assert (step.udp, step.streams, step.length, step.bitrate) == (True, 2, 64, Bitrate.mbps(10))


def test_packets_of_responses_are_as_full_as_they_are_on_average() -> None:
    assert HttpTraffic(Direction.TX, size=100).packet_bytes(1448) == 350
    assert HttpTraffic(Direction.TX, size=2000).packet_bytes(1448) == 1125
    assert 1400 < (HttpTraffic(Direction.TX, size=100_000).packet_bytes(1448) or 0) <= 1448
    # Jumbo frames need fewer packets.
    assert HttpTraffic(Direction.TX, size=100_000).packet_bytes(8948) == 8354
    assert Traffic(Direction.TX, mss=536).packet_bytes(1448) == 536
    assert Traffic(Direction.TX).packet_bytes(1448) is None


def test_a_client_waits_for_its_moment_by_the_clock_of_its_end() -> None:
    assert begin_at(None) == ""
    assert "-lt 1234567 ]" in begin_at(12345.67)


@pytest.mark.parametrize(("udp", "table"), [(False, "/proc/net/tcp"), (True, "/proc/net/udp")])
def test_only_a_server_of_several_tells_when_streams_stood(udp: bool, table: str) -> None:
    run = Iperf3Run(Traffic(Direction.TX, udp=udp), 20_000, ProcessSide("10.0.0.1"), ProcessSide("10.0.0.2"))
    assert "pinet: flowing" not in server_command(run)
    line = server_command(replace(run, reports_begin=True))
    assert "pinet: flowing" in line
    assert f":4E20 [0-9A-F]*:[0-9A-F]* 01' {table})" in line


def test_rates_of_a_ladder_rise() -> None:
    assert arguments.parse_rising_rates(["90M", "10M", "90M"]) == (Bitrate.mbps(10), Bitrate.mbps(90))
    with pytest.raises(ConfigError, match="expected a list of rates"):
        arguments.parse_rising_rates([])
    for written in ("90M", 90):
        with pytest.raises(ConfigError, match="expected a list of rates"):
            arguments.parse_rising_rates(written)  # type: ignore[arg-type]  # as a test may write it


def test_a_ladder_is_climbed_one_way_and_from_more_than_nothing() -> None:
    ladder = LadderTraffic(Direction.TX, True, bitrate=Bitrate.mbps(90), rates=(Bitrate.mbps(10), Bitrate.mbps(90)))
    check(ladder)
    with pytest.raises(
        ConfigError,
        match=r"direction='bidir': a rate ladder measures one direction; expected 'tx' or 'rx'",
    ):
        check(ladder.towards(Direction.BIDIR))
    # iperf3 interprets 0 as "as fast as you can".
    with pytest.raises(ConfigError, match=r"bitrate=0 bit/s: expected at least 1 bit/s"):
        check(replace(ladder, rates=(Bitrate(0), Bitrate.mbps(90))))


def test_connections_are_a_whole_number() -> None:
    with pytest.raises(ConfigError, match="connections='10': expected 1 to 10000"):
        check(HttpTraffic(Direction.TX, streams="10"))  # type: ignore[arg-type]  # as a test may write it


def judging(folder: Path, requests: str, call: object = None, marker: object = None) -> Limit | None:
    """The limit of a call that judges 1250 bytes for each request; None where that of the marker judges."""
    here = link_stand_in.link(folder).combination
    key = MetricKey(here.identity, HttpTraffic(Direction.TX), Direction.TX)
    own, marked = parse_arguments({"min": call}, Origin.CALL), parse_arguments({"min": marker}, Origin.MARKER)
    return most_specific(arguments.with_requests(tuple(own), marked, requests, 1250, key), key)


def test_requests_are_a_limit_of_payload(tmp_path: Path) -> None:
    limit = judging(tmp_path, "1000/s")
    assert limit is not None
    assert (limit.bound, limit.origin) == (Bitrate.mbps(10), Origin.CALL)
    assert limit.source == "requests='1000/s' of the call, 1250 bytes each"


@pytest.mark.parametrize(
    ("call", "marker", "least_mbps"),
    [
        ("5 Mbit/s", None, 10),
        ("20 Mbit/s", None, 20),
        ({"tx": "5 Mbit/s"}, None, 10),
        ({"rx": "20 Mbit/s"}, None, 10),
        (None, "5 Mbit/s", 10),
        # The marker's is harder to meet, and the call has no minimum of its own.
        (None, "20 Mbit/s", None),
        ("5 Mbit/s", "20 Mbit/s", 10),
    ],
)
def test_of_requests_and_a_minimum_the_harder_one_judges(
    tmp_path: Path, call: object, marker: object, least_mbps: float | None
) -> None:
    limit = judging(tmp_path, "1000/s", call, marker)
    assert (limit and limit.bound) == (least_mbps and Bitrate.mbps(least_mbps))


def test_requests_and_a_share_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        judging(tmp_path, "1000/s", None, "90%")
    rate = "min= as a rate such as '80 Mbit/s'"
    assert str(caught.value) == f"requests='1000/s' needs {rate}, got a share (min='90%' of the marker)"


@pytest.mark.parametrize("written", ["1200", "/s", "-1/s", "0/s", "inf/s", "nan/s", "12/min", 1200])
def test_requests_need_their_unit(written: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a number for each second, such as '1200/s'"):
        judging(tmp_path, written)


@pytest.mark.parametrize("written", ["100%", "150%"])
def test_a_ladder_must_lose_less_than_all(written: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=r"^loss.*'0\.1%'"):
        arguments.parse_share("loss", written)
    assert arguments.parse_share("loss", "0.1%") == pytest.approx(0.001)


def test_its_id_has_no_character_that_separates_parts() -> None:
    job = Kselftest("drivers/net/hw:csum.py", "linux")
    assert (job.collection, job.key) == ("drivers/net/hw", "kselftest-drivers-net-hw-csum.py")


@pytest.mark.parametrize("test", ["ping.py", "drivers/net", "../x:y", "a:b; reboot", "a: b", ""])
def test_other_names_are_refused(test: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a selftest such as 'drivers/net:ping.py', got"):
        Kselftest(test, "linux")


@pytest.mark.parametrize("line", [("a b", "1"), ("X", "a # b"), ("X", "'quoted'"), ("X", "a\nNETIF=b"), ("X", "")])
def test_lines_that_the_selftests_read_otherwise_are_refused(line: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"expected a line of net.config such as DISRUPTIVE=no, got"):
        Kselftest("drivers/net:ping.py", "linux", environment=dict([line]))


def test_the_setup_of_the_path_is_part_of_the_key() -> None:
    six = PathSetup(6)
    assert Traffic(Direction.BIDIR, streams=4, setup=six).key == "tcp-P4-ip6-bidir"
    assert HttpTraffic(Direction.TX, setup=six).key == "http-c1-s100000-ip6"
    assert Pings(setup=six).key == "ping-c10-i0.2-s56-ip6"
    with pytest.raises(ConfigError, match="family=5: expected 4 or 6"):
        PathSetup(5)


def test_delay_and_loss_are_read_and_part_of_the_key() -> None:
    slow = arguments.parse_path(6, {"delay": "20 ms", "loss": "0.1%"})
    assert slow == PathSetup(6, 0.02, 0.001)
    assert Traffic(Direction.BIDIR, setup=slow).key == "tcp-P1-ip6-delay20ms-loss0.1pct-bidir"
    assert arguments.parse_path(4, None) == PathSetup()
    assert Traffic(Direction.TX, setup=arguments.parse_path(4, {"vlan": 7})).key == "tcp-P1-vlan7"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("20 ms", "path='20 ms': expected a mapping such as"),
        ({}, "path={}: expected a mapping such as"),
        ({"jitter": "1 ms"}, "expected a mapping such as {'delay': '20 ms', 'loss': '0.1%', 'vlan': 7}"),
        ({"delay": "3 s"}, "delay of 3 s: expected at most 2 s"),
        ({"loss": "100%"}, "less than 100%"),
        ({"vlan": 4095}, "vlan=4095: expected 1 to 4094"),
        ({"vlan": "7"}, "vlan='7': expected 1 to 4094"),
    ],
)
def test_other_paths_are_refused(path: object, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        arguments.parse_path(4, path)


def test_background_traffic_is_part_of_the_key() -> None:
    setup = PathSetup(background=Traffic(Direction.RX, streams=4))
    assert Traffic(Direction.BIDIR, setup=setup).key == "tcp-P1-bg.tcp.P4.rx-bidir"
    assert Pings(setup=PathSetup(background=BOTH)).key == "ping-c10-i0.2-s56-bg.tcp.P10.bidir"


def test_a_probe_beside_background_traffic_has_an_id_of_its_own() -> None:
    beside = Transactions(setup=PathSetup(background=Traffic(Direction.TX)))
    assert beside.key == f"{Transactions().key}-bg.tcp.P1.tx"
