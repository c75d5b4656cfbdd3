from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

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
