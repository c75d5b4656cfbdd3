"""From points to a trend: levels, changes with their builds, comparability, and the text."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pytest

from pytest_pinet.config.baselines import AcceptedBaseline, Reviewed
from pytest_pinet.errors import Where
from pytest_pinet.history.differences import differences, is_dirty, name_of, names_of
from pytest_pinet.history.losses import MetricLevel
from pytest_pinet.history.points import Trend
from pytest_pinet.history.text import BLOCK_HEIGHTS, figure_lines, run_lines, spark
from pytest_pinet.history.trends import trend
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.trends import series_of
from tests.support.history_records import FIGURE, day, kept, points_in, with_goodput, with_result


def trend_of(records: list[RunRecord]) -> Trend:
    return trend(FIGURE, "virtual", points_in(records))


def slower_from(at: int, count: int = 40, **more: Any) -> list[RunRecord]:
    chance = random.Random(1)
    return [
        day(
            number,
            (940 if number < at else 890) + chance.gauss(0, 1),
            uname=f"Linux 6.12.{20 + number // 5}-v8+ #1",
            **more,
        )
        for number in range(count)
    ]


def test_a_change_names_the_builds_before_and_after() -> None:
    (change,) = trend_of(slower_from(20)).changes
    assert change.run.startswith("night-20-")
    assert change.last_before.startswith("night-19-")
    assert change.differs == ("kernel 6.12.23-v8+ -> 6.12.24-v8+",)
    assert change.relative == pytest.approx(-0.053, abs=0.002)
    assert not change.gradual


def test_a_change_is_described_in_words() -> None:
    lines = figure_lines(trend_of(slower_from(20)))
    assert lines[0] == f"{FIGURE}  889.5 Mbit/s emulated  pass  2026-10-10  40 runs  lab virtual"
    assert lines[1].startswith("  [")
    assert lines[2].startswith("  moved at run night-20-")
    assert lines[2].endswith("(2026-09-21): 940.0 Mbit/s -> 890.2 Mbit/s (-5.3 %)")
    assert lines[3:] == [
        "    build before: 6.12.23-v8+ bcmgenet; after: 6.12.24-v8+ bcmgenet",
        "    differs: kernel 6.12.23-v8+ -> 6.12.24-v8+",
    ]


def test_a_change_without_a_new_build_points_to_the_lab() -> None:
    records = [day(number, (940 if number < 20 else 890) + number % 4) for number in range(40)]
    trend = trend_of(records)
    assert trend.changes[0].differs == ()
    assert "    differs: the build is the same: look at the lab" in figure_lines(trend)


def test_another_iperf3_and_another_board_are_named() -> None:
    old, new = slower_from(20)[:20], slower_from(20)[20:]
    records = [with_result(run, versions={"dut": "3.12"}, serials={"pi4b-1:onboard": "aa"}) for run in old]
    records += [with_result(run, versions={"dut": "3.18"}, serials={"pi4b-1:onboard": "bb"}) for run in new]
    (change,) = trend_of(records).changes
    assert change.differs[1:] == ("iperf3 of dut 3.12 -> 3.18", "board of pi4b-1:onboard aa -> bb")


def test_of_the_places_where_it_may_be_the_one_with_a_new_build_is_named() -> None:
    records = slower_from(20)
    # A bad value right before the step looks like the step's start.
    records[19] = with_goodput(records[19], 892)
    (change,) = trend_of(records).changes
    assert change.run.startswith("night-20-")


def test_values_with_other_parameters_are_another_trend() -> None:
    records = slower_from(20)
    other = [with_result(run, parameters="other") for run in records[20:]]
    assert trend_of(records[:20] + other).changes == ()


def test_emulated_and_measured_values_are_two_trends() -> None:
    records = slower_from(20)
    assert trend_of(records[:20] + [run.replace(figures="measured") for run in records[20:]]).changes == ()


def test_what_is_invalid_or_an_error_moves_no_level() -> None:
    records = slower_from(99)
    for number in range(30, 40):
        records[number] = day(number, 500, "invalid")
    found = trend_of(records)
    assert found.changes == ()
    assert found.levels[29] is not None
    assert found.levels[30] is None


def test_charts_show_the_value_of_a_baseline_not_the_middle_of_its_runs() -> None:
    runs = (Bitrate.mbps(942), Bitrate.mbps(900), Bitrate.mbps(941))
    accepted = AcceptedBaseline(FIGURE, Bitrate.mbps(941), runs, {}, date(2026, 11, 22), "x", (), Where("f"))
    found = trend(FIGURE, "virtual", points_in([day(0)]), Reviewed("virtual", {FIGURE: accepted}))
    assert found.baseline is accepted
    assert series_of(found, found.points[0].combination, MetricLevel()).band == (900e6, 941e6, 942e6)


def test_a_flat_course_looks_flat_and_failures_stand_out() -> None:
    assert set(spark(points_in([day(number, 941 + number % 2 * 0.5) for number in range(10)]))) <= {"~", "="}
    assert spark(points_in([day(0, 941), day(1, 700, "fail"), day(2, 941)])) == "#!#"
    # A failed value keeps its mark among block characters, which have no colour.
    assert spark(points_in([day(0, 941), day(1, 700, "fail"), day(2, 800)]), BLOCK_HEIGHTS) == "\u2588!\u2584"


def test_runs_are_listed_with_what_came_of_them() -> None:
    ((run, _),) = kept([day(1, 941).replace(complete=False)])
    (line,) = run_lines([run])
    assert line == f"{run.id}  2026-09-02 02:00  lab virtual  1 pass  interrupted"
    assert run_lines([]) == ["no runs"]


@pytest.mark.parametrize(
    ("build", "name"),
    [
        ({"uname": "Linux 6.12.25-v8+ #1 SMP aarch64", "driver": "r8152"}, "6.12.25-v8+ r8152"),
        ({"uname": "6.12.25-v8+ aarch64"}, "6.12.25-v8+"),
        ({"uname": None, "driver": None}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_build_has_a_short_name(build: dict[str, str | None], name: str) -> None:
    assert name_of(build) == name


def test_builds_of_one_kernel_are_named_by_what_differs() -> None:
    one, two = ({"uname": "Linux 6.1 #1", "driver": "r8152", "firmware": text, "bus_info": text} for text in ("1", "2"))
    unread = {"uname": "Linux 6.1 #1", "driver": "r8152"}
    assert names_of([one, two, unread]) == ["6.1 r8152 (firmware 1)", "6.1 r8152 (firmware 2)", "6.1 r8152"]
    assert names_of([one, unread, {"uname": "Linux 6.2 #1"}]) == ["6.1 r8152", "6.1 r8152", "6.2"]
    again = one | {"uname": "Linux 6.1 #2"}
    assert names_of([one, again]) == ["6.1 r8152 (kernel Linux 6.1 #1)", "6.1 r8152 (kernel Linux 6.1 #2)"]


def test_builds_differ_in_what_both_know() -> None:
    before = {"uname": "Linux 6.1 #1", "firmware": "1.0", "driver": None, "bus_info": "usb-1"}
    after = {"uname": "Linux 6.1 #2", "firmware": "1.1", "driver": "r8152", "bus_info": "usb-2"}
    assert differences(before, after) == ("kernel Linux 6.1 #1 -> Linux 6.1 #2", "firmware 1.0 -> 1.1")


def test_a_driver_of_the_kernels_tree_is_not_named_twice() -> None:
    before = {"uname": "Linux 6.1 #1", "driver_version": "6.1"}
    after = {"uname": "Linux 6.2 #1", "driver_version": "6.2"}
    assert differences(before, after) == ("kernel 6.1 -> 6.2",)


def test_a_dirty_build_is_known_by_its_mark() -> None:
    assert is_dirty({"uname": "Linux 6.12.25-v8+-dirty #1", "firmware": None})
    assert not is_dirty({"uname": "Linux 6.12.25-v8+ #1"})
