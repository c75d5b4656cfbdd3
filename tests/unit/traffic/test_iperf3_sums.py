"""Sums that disagree with the same end's intervals, with the clock or with the other end are errors, never values."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import TrafficError
from pytest_pinet.model.measurement import EventKind, Flow
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole
from tests.support.iperf3_output import parse_client

PAIRS = Path(__file__).parents[2] / "data" / "iperf3" / "pairs"
NAMES = {
    "tcp-3.12-3.12": Direction.TX, "stall-3.12-3.12": Direction.TX,
    "rev-3.18-3.18": Direction.RX, "rev-3.9-3.12": Direction.RX,
    "bidir-3.18-3.18": Direction.BIDIR, "bidir-3.12-3.18": Direction.BIDIR, "udpbidir-3.18-3.18": Direction.BIDIR,
}  # fmt: skip
RECEIVERS = [(name, "client") for name, way in NAMES.items() if way is not Direction.TX]
RECEIVERS += [(name, "server") for name, way in NAMES.items() if way is not Direction.RX]
FACTORS = (0.5, 2, 10, 1000)


def parsed(
    name: str,
    change: Callable[[Any, str], object] = lambda report, role: None,
    interval_s: float | None = None,
) -> dict[Direction, Flow]:
    texts = {}
    for role in ("client", "server"):
        report = json.loads((PAIRS / f"{name}.{role}.json").read_text())
        change(report, role)
        texts[role] = json.dumps(report)
    test = json.loads(texts["client"])["start"]["test_start"]
    traffic = Traffic(
        NAMES[name], streams=test["num_streams"], duration_s=test["duration"] - 1, warmup_s=0.5,
        udp=test["protocol"] == "UDP", bitrate=None,
    )  # fmt: skip
    server = Output(ProcessRole.SERVER, "far", "near", 0, texts["server"])
    return parse_client(texts["client"], "", 0, traffic, server=server, interval_s=interval_s)


def scaled(report: Any, key: str, factor: float, sums: tuple[str, ...], intervals: bool) -> None:
    """Multiply a value of the final sums, and of the intervals and streams, as a broken counter would."""
    for name in sums:
        if name in report["end"]:
            report["end"][name][key] = type(report["end"][name][key])(report["end"][name][key] * factor)
    if not intervals:
        return
    for interval in report["intervals"]:
        for part in [interval.get("sum"), interval.get("sum_bidir_reverse"), *interval["streams"]]:
            if part is not None and part["sender"] is False:
                part[key] = type(part[key])(part[key] * factor)
                if key == "seconds":
                    part["start"] *= factor
                    part["end"] *= factor


@pytest.mark.parametrize("name", NAMES)
def test_the_recordings_are_values(name: str) -> None:
    parsed(name)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("key", ["bytes", "seconds"])
@pytest.mark.parametrize("intervals", [True, False], ids=["and intervals", "only sums"])
@pytest.mark.parametrize(("name", "role"), RECEIVERS)
def test_a_receiver_that_counts_wrong_is_refused(
    name: str, role: str, intervals: bool, key: str, factor: float
) -> None:
    def change(report: Any, of: str) -> None:
        own = "_bidir_reverse" if role == "client" and NAMES[name] is Direction.BIDIR else ""
        if of == role:
            scaled(report, key, factor, (f"sum_received{own}",), intervals)

    with pytest.raises(TrafficError, match=r"cannot be trusted|no byte arrived"):
        parsed(name, change)


@pytest.mark.parametrize("factor", [0.5, 2, 1000])
@pytest.mark.parametrize("name", ["tcp-3.12-3.12", "bidir-3.18-3.18"])
def test_a_sender_that_counts_wrong_is_refused(name: str, factor: float) -> None:
    def change(report: Any, role: str) -> None:
        if role == "client":
            scaled(report, "bytes", factor, ("sum_sent",), False)

    with pytest.raises(TrafficError, match="cannot be trusted"):
        parsed(name, change)


def test_blocks_that_iperf3_with_threads_misses_between_two_intervals_are_counted() -> None:
    """As on an emulated board with Debian 13: the intervals missed 3 to 11 whole blocks of 120, the final sum none."""

    def without(blocks: float) -> dict[Direction, Flow]:
        def change(report: Any, role: str) -> None:
            for part in (part for one in report["intervals"] for part in (one["sum"], *one["streams"])):
                if role == "client":
                    part["bytes"] -= int(blocks * 131_072)

        return parsed("rev-3.18-3.18", change)

    whole, found = (without(blocks)[Direction.RX] for blocks in (0, 1))
    assert sum(one.bytes for one in found.samples) == pytest.approx(sum(one.bytes for one in whole.samples), abs=6)
    assert found.streams[0].bps == pytest.approx(whole.streams[0].bps, rel=0.01)
    # More than one block in each interval, and no whole blocks.
    for blocks in (2, 1.1):
        with pytest.raises(TrafficError, match=r"its intervals have .* bytes, but its final sum has 35782656"):
            without(blocks)


def test_a_start_that_is_slower_than_the_warm_up_is_a_value_in_both_directions() -> None:
    """As on a busy emulated board that received: the error was "it covers 0.87 s of 2 s"."""
    report = json.loads((PAIRS / "rev-3.9-3.12.client.json").read_text())
    first, total, count = report["intervals"][0], 0, 30
    report["intervals"] = []
    for number in range(count):
        one = json.loads(json.dumps(first))
        total += (size := 2_000_000 if number < 20 else 10_000_000)
        for part in (one["sum"], *one["streams"]):
            part |= {"start": number / 10, "end": (number + 1) / 10, "seconds": 0.1, "bytes": size}
        report["intervals"].append(one)
    for name in ("sum_sent", "sum_received"):
        report["end"][name] |= {"bytes": total, "seconds": 3.0}
    traffic = Traffic(Direction.RX, duration_s=2.0, warmup_s=None)
    flow = parse_client(json.dumps(report), "", 0, traffic)[Direction.RX]
    assert [one.bytes for one in flow.samples if not one.warmup] == [10_000_000] * 10
    assert [event.kind for event in flow.events] == [EventKind.SLOW_START]


@pytest.mark.parametrize("factor", [0.94, 1.045, 1.06])
@pytest.mark.parametrize(("name", "role"), RECEIVERS)
def test_a_clock_that_is_a_little_wrong_is_refused(name: str, role: str, factor: float) -> None:
    """A slack of 0.3 s let a clock pass that was 13 % wrong in a run of 3 s."""

    def change(report: Any, of: str) -> None:
        if of == role:
            for suffix in ("", "_bidir_reverse"):
                scaled(report, "seconds", factor, (f"sum_received{suffix}", f"sum_sent{suffix}"), False)
            for interval in report["intervals"]:
                for part in [interval.get("sum"), interval.get("sum_bidir_reverse"), *interval["streams"]]:
                    if part is not None:
                        part.update({key: part[key] * factor for key in ("start", "end", "seconds")})

    with pytest.raises(TrafficError, match="cannot be trusted: its intervals last"):
        parsed(name, change)


def test_a_link_that_stands_still_at_the_end_is_measured() -> None:
    """The server's intervals lasted 9.1 s of 6 s, and the error was that its output cannot be trusted."""
    flow = parsed("stall-3.12-3.12")[Direction.TX]
    assert [round(one.bytes * 8e-6 / one.seconds) for one in flow.samples] == [95, 95, 93, 47, 0, 0]


def test_a_last_interval_that_ends_late_is_no_wrong_clock() -> None:
    """As on a machine that takes the processor from iperf3 when its time is over."""

    parsed("tcp-3.12-3.12", lambda report, _: later(report, 0.25))
    with pytest.raises(TrafficError, match="its intervals last"):
        parsed("tcp-3.12-3.12", lambda report, _: later(report, 0.5))


def test_a_long_last_interval_that_ends_in_time_is_no_wrong_clock() -> None:
    """As on an emulated board that missed its last reports, but not the end: 3.02 s of 3 s."""

    def fewer(report: Any, role: str) -> None:
        if role == "client":
            *report["intervals"], before, last = report["intervals"]
            for part, other in zip((last["sum"], *last["streams"]), (before["sum"], *before["streams"]), strict=True):
                part |= {name: part[name] + other[name] for name in ("seconds", "bytes")} | {"start": other["start"]}
            report["intervals"].append(last)

    parsed("tcp-3.12-3.12", fewer, 0.1)


def test_ends_that_are_late_now_and_then_are_no_wrong_clock() -> None:
    """As on an emulated board on a busy machine: most intervals were 6 % too long, a few were short, all had 3.06 s."""

    def late(report: Any, role: str) -> None:
        if role == "client":
            ends = [0.0, *(0.1 * number + 0.006 * (number % 10) for number in range(1, len(report["intervals"]) + 1))]
            for interval, (start, end) in zip(report["intervals"], pairwise(ends), strict=True):
                for part in (interval["sum"], *interval["streams"]):
                    part |= {"start": start, "end": end, "seconds": end - start}
            for total in ("sum_sent", "sum_received"):
                report["end"][total]["seconds"] = ends[-1]

    def late_and_fewer(report: Any, role: str) -> None:
        """Miss the third report, as iperf3 does after a pause of almost two intervals."""
        late(report, role)
        if role == "client":
            missed = report["intervals"].pop(2)
            following = report["intervals"][2]
            for part, other in zip(
                (following["sum"], *following["streams"]), (missed["sum"], *missed["streams"]), strict=True
            ):
                part |= {name: part[name] + other[name] for name in ("seconds", "bytes")} | {"start": other["start"]}

    parsed("tcp-3.12-3.12", late, 0.1)
    parsed("tcp-3.12-3.12", late_and_fewer, 0.1)


def later(report: Any, by_s: float) -> None:
    """Let the last interval end later."""
    last = report["intervals"][-1]
    for part in (last["sum"], *last["streams"]):
        part |= {"end": part["end"] + by_s, "seconds": part["seconds"] + by_s}
    for total in ("sum_sent", "sum_received"):
        report["end"][total]["seconds"] += by_s


def test_a_sender_that_is_too_busy_to_look_at_its_timers_is_no_wrong_clock() -> None:
    """As on an emulated board without TSO, with four streams: it reported 3.1 s of 3 s, with fewer reports."""

    def busy(report: Any, role: str) -> None:
        length_s = 0.16
        if role == "client":
            keep = report["intervals"][:13]
            for parts in zip(*([one["sum"], *one["streams"]] for one in report["intervals"]), strict=True):
                total = sum(part["bytes"] for part in parts)
                for number, part in enumerate(parts[:13]):
                    part |= {"start": number * length_s, "end": (number + 1) * length_s, "seconds": length_s}
                    part["bytes"] = total // 13 + (total % 13 if number == 12 else 0)
            report["intervals"] = keep
            for total in ("sum_sent", "sum_received"):
                report["end"][total]["seconds"] = 13 * length_s

    def busy_and_late(report: Any, role: str) -> None:
        busy(report, role)
        later(report, 0.5)

    parsed("tcp-3.12-3.12", busy, 0.1)
    with pytest.raises(TrafficError, match=r"its intervals last 2\.58 s of 2 s"):
        parsed("tcp-3.12-3.12", busy_and_late, 0.1)


def test_a_deep_queue_that_empties_at_the_rate_of_the_link_is_no_wrong_clock() -> None:
    """As a switch that holds 0.5 s of a link that fell to 10 Mbit/s."""

    def slower(report: Any, role: str) -> None:
        if role == "server":
            for interval in report["intervals"]:
                for part in (interval["sum"], *interval["streams"]):
                    part["bytes"] = round(part["bytes"] * 2 / 2.5)
            last = report["intervals"][-1]
            more = json.loads(json.dumps(last))
            for part in (more["sum"], *more["streams"]):
                own = {"bytes": round(part["bytes"] / part["seconds"] * 0.5)}
                part |= {"start": part["end"], "end": part["end"] + 0.5, "seconds": 0.5, **own}
            report["intervals"].append(more)
            for total in ("sum_sent", "sum_received"):
                report["end"][total]["seconds"] += 0.5

    parsed("tcp-3.12-3.12", slower)
