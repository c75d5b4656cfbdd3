from __future__ import annotations

import math
import shlex
from dataclasses import replace

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3_command import (
    Iperf3Run,
    ProcessSide,
    client_argv,
    client_command,
    client_is_dut,
    server_argv,
    server_command,
    validate,
)

RUN = Iperf3Run(Traffic(Direction.RX), 20_123, ProcessSide("10.0.0.1"), ProcessSide("10.0.0.2"), "cubic")


def client(**changes: object) -> str:
    return shlex.join(client_argv(replace(RUN, traffic=replace(RUN.traffic, **changes))))  # type: ignore[arg-type]


def test_the_server_serves_once_on_its_own_port_and_address() -> None:
    assert shlex.join(server_argv(RUN)) == "iperf3 -s -1 -J -i 0.1 -p 20123 -B 10.0.0.2"


def test_the_client_receives() -> None:
    assert client() == (
        "iperf3 -c 10.0.0.2 -J -i 0.1 -p 20123 -B 10.0.0.1 -t 6 --connect-timeout 5000 -R -P 1 -C cubic"
    )


@pytest.mark.parametrize(
    ("direction", "expected"), [(Direction.TX, False), (Direction.RX, True), (Direction.BIDIR, True)]
)
def test_the_client_runs_where_traffic_arrives(direction: Direction, expected: bool) -> None:
    assert client_is_dut(direction) is expected


def test_both_directions_at_once() -> None:
    assert client(direction=Direction.BIDIR, streams=4).endswith("--bidir -P 4 -C cubic")


def test_every_setting_has_its_option_in_plain_numbers() -> None:
    line = client(window=65536, mss=1000, bitrate=Bitrate(2.5e9), length=16384)
    assert line.endswith("-R -P 1 -b 2500000000 -C cubic -w 65536 -M 1000 -l 16384")


@pytest.mark.parametrize("direction", Direction)
def test_the_process_of_the_device_under_test_is_kept_on_a_cpu(direction: Direction) -> None:
    run = replace(RUN, traffic=Traffic(direction, affinity=3))
    ends = {True: client_argv(run), False: server_argv(run)}
    assert ends[client_is_dut(direction)][-2:] == ["-A", "3"]
    assert "-A" not in ends[not client_is_dut(direction)]
    assert run.traffic.key.removesuffix("-bidir") == "tcp-P1-A3"


def test_udp() -> None:
    run = replace(RUN, traffic=Traffic(Direction.RX, udp=True, bitrate=Bitrate(20e6), length=1400), congestion=None)
    assert shlex.join(client_argv(run)).endswith("-R -P 1 -u -b 20000000 -l 1400")


@pytest.mark.parametrize(
    ("warmup", "duration", "seconds"), [(1, 5, 6), (0, 5, 5), (0.5, 1.0, 2), (0.1, 0.2, 1), (0.3, 0.7, 1)]
)
def test_iperf3_takes_whole_seconds(warmup: float, duration: float, seconds: int) -> None:
    assert replace(RUN, traffic=Traffic(Direction.TX, warmup_s=warmup, duration_s=duration)).seconds == seconds


def test_the_question_in_mid_traffic_comes_when_the_warm_up_is_long_over() -> None:
    asked = replace(RUN, traffic=Traffic(Direction.TX, warmup_s=1.0, duration_s=1.0))
    assert (asked.seconds, asked.middle_s) == (2, 1.5)
    found = replace(RUN, traffic=Traffic(Direction.TX, duration_s=3.0), warmup_cap_s=1.0)
    assert (found.seconds, found.middle_s) == (4, 2.5)


def test_a_warmup_that_is_found_has_room_for_its_cap() -> None:
    run = replace(RUN, traffic=Traffic(Direction.TX, warmup_s=None, duration_s=2))
    assert run.seconds == 3
    assert replace(run, warmup_cap_s=2.0).seconds == 4
    assert run.interval_s == 0.1


@pytest.mark.parametrize(
    ("direction", "streams", "duration", "interval"),
    [
        (Direction.RX, 1, 10, 0.1),
        (Direction.RX, 1, 119, 0.1),
        (Direction.RX, 1, 120, 0.5),
        (Direction.RX, 10, 11, 0.1),
        (Direction.RX, 10, 65, 0.5),
        (Direction.BIDIR, 10, 5, 0.1),
        (Direction.BIDIR, 10, 11, 0.5),
        (Direction.TX, 128, 1, 0.5),
    ],
)
def test_intervals_are_fine_while_the_report_stays_small(
    direction: Direction, streams: int, duration: float, interval: float
) -> None:
    traffic = Traffic(direction, streams=streams, duration_s=duration)
    assert replace(RUN, traffic=traffic).interval_s == interval


@pytest.mark.parametrize(
    ("warmup", "fine", "coarse"),
    [
        (0, 0.1, 0.5),
        (1, 0.1, 0.5),
        (2, 0.1, 0.5),
        (0.5, 0.1, 0.5),
        (0.1, 0.1, 0.1),
        (0.7, 0.1, 0.7),
        (0.8, 0.1, 0.4),
        (1.2, 0.1, 0.6),
        (0.75, 0.107, 0.375),
        (0.15, 0.15, 0.15),
    ],
)
def test_a_requested_warmup_ends_with_an_interval(warmup: float, fine: float, coarse: float) -> None:
    traffic = Traffic(Direction.TX, warmup_s=warmup)
    assert replace(RUN, traffic=traffic).interval_s == pytest.approx(fine)
    assert replace(RUN, traffic=replace(traffic, streams=100)).interval_s == pytest.approx(coarse)


@pytest.mark.parametrize("direction", list(Direction))
def test_omit_is_never_used(direction: Direction) -> None:
    run = replace(RUN, traffic=replace(RUN.traffic, direction=direction))
    assert "-O" not in [*client_argv(run), *server_argv(run)]


def test_commands_die_of_old_age() -> None:
    assert client_command(RUN).startswith("LC_ALL=C timeout --foreground -k 1 26 iperf3 -c ")
    assert server_command(RUN).startswith("LC_ALL=C timeout --foreground -k 1 31 iperf3 -s ")


def test_values_of_users_are_quoted() -> None:
    run = replace(RUN, client=ProcessSide("10.0.0.1; reboot"))
    assert "'10.0.0.1; reboot'" in client_command(run)


def test_each_end_gets_the_timeout_that_it_knows() -> None:
    run = replace(RUN, client=replace(RUN.client, timeout="timeout"), server=replace(RUN.server, timeout=""))
    assert client_command(run).startswith("LC_ALL=C timeout 26 iperf3 -c ")
    assert server_command(run).startswith("LC_ALL=C iperf3 -s ")


def test_a_sender_with_a_clock_of_its_own_is_the_client() -> None:
    run = replace(RUN, traffic=Traffic(Direction.TX), sends=True, quiet=True)
    assert client_is_dut(Direction.TX, sends=True)
    assert not client_is_dut(Direction.RX, sends=True)
    assert "-R" not in client_argv(run)
    # Its six seconds may be a minute in the server's time.
    assert "91 iperf3 -s" in server_command(run)


TCP = Traffic(Direction.TX)
UDP = Traffic(Direction.TX, udp=True, bitrate=Bitrate(20e6))


@pytest.mark.parametrize(
    "traffic",
    [
        TCP,
        UDP,
        replace(TCP, streams=128, window=512 * 1024**2, mss=9216, length=1024**2, congestion="bbr"),
        replace(TCP, mss=88, length=1, window=1, bitrate=Bitrate(1)),
        replace(TCP, warmup_s=0),
        replace(TCP, warmup_s=0.1, duration_s=0.5),
        replace(TCP, duration_s=86_399),
        replace(UDP, length=65_507),
        replace(UDP, length=16, window=65536),
    ],
)
def test_values_that_iperf3_accepts_are_accepted(traffic: Traffic) -> None:
    validate(traffic)


@pytest.mark.parametrize(
    ("traffic", "sentence"),
    [
        (replace(TCP, streams=0), "streams=0: expected 1 to 128"),
        (replace(TCP, streams=129), "streams=129: expected 1 to 128"),
        (replace(TCP, duration_s=0), "duration=0 s: expected more than 0 s"),
        (replace(TCP, duration_s=math.nan), "duration=nan s: expected more than 0 s"),
        (replace(TCP, duration_s=math.inf), "duration=inf s: expected more than 0 s"),
        (replace(TCP, duration_s=86_400), "duration=86400 s: with the warm-up, iperf3 takes at most 86400 s"),
        (replace(TCP, warmup_s=-1), "warmup=-1 s: expected 0 s, or at least 0.1 s"),
        (replace(TCP, warmup_s=0.05), "warmup=0.05 s: expected 0 s, or at least 0.1 s"),
        (replace(TCP, window=0), "window=0 bytes: expected 1 to 536870912 bytes"),
        (replace(TCP, window=2**30), "window=1073741824 bytes: expected 1 to 536870912 bytes"),
        (replace(TCP, mss=87), "mss=87 bytes: expected 88 to 9216 bytes"),
        (replace(TCP, mss=9217), "mss=9217 bytes: expected 88 to 9216 bytes"),
        (replace(TCP, affinity=-1), "affinity=-1: expected 0 to 1023"),
        (replace(TCP, length=2**20 + 1), "length=1048577 bytes: expected 1 to 1048576 bytes"),
        (replace(UDP, length=15), "length=15 bytes: expected 16 to 65507 bytes"),
        (replace(UDP, length=65_508), "length=65508 bytes: expected 16 to 65507 bytes"),
        (
            replace(TCP, bitrate=Bitrate(0)),
            "bitrate=0 bit/s: expected at least 1 bit/s; leave it out for no limit",
        ),
        (
            replace(UDP, bitrate=None),
            "udp needs a bitrate such as '900M': without it iperf3 sends 1 Mbit/s, too little for a link",
        ),
        (replace(UDP, mss=1000), "mss=1000: UDP has no MSS; 'length' sets the size of its datagrams"),
        (replace(UDP, congestion="cubic"), "congestion='cubic': UDP has no congestion control"),
        (
            replace(TCP, congestion="x; reboot"),
            "congestion='x; reboot': expected the kernel's name of a congestion control, such as 'cubic'",
        ),
    ],
)
def test_other_values_are_refused_in_one_sentence(traffic: Traffic, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(traffic)
    assert str(caught.value) == sentence
