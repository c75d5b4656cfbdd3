"""A board that fails alone among boards of its kind is named; what fails on all boards is the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.history.boards import odd_boards
from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import OutOfService, Point
from tests.support.history_records import day, kept, with_result


def points(results: Sequence[tuple[str, str]], uname: str = "Linux 6.12.25-v8+ #1 SMP aarch64") -> list[Point]:
    """Return a point for each node and verdict."""
    runs = [
        with_result(day(n, verdict=verdict, uname=uname), settings={"dut": {"end": f"{node}:onboard"}})
        for n, (node, verdict) in enumerate(results)
    ]
    return [point for _, found in kept(runs) for point in found]


def test_a_board_that_fails_alone_over_many_runs_is_named() -> None:
    found = odd_boards(points([("pi4b-1", "pass")] * 9 + [("pi4b-2", "fail")] * 6 + [("pi4b-2", "pass")] * 2))
    (odd,) = found
    assert (odd.node, odd.failed, odd.of, odd.others_failed, odd.others_of) == ("pi4b-2", 6, 8, 0, 9)
    assert str(odd).startswith("pi4b-2 failed in 6 of 8 values of pi4b:onboard, other boards of its kind in 0 of 9")


@pytest.mark.parametrize(
    "results",
    [
        [("pi4b-1", "fail")] * 8 + [("pi4b-2", "fail")] * 8,  # the change
        [("pi4b-1", "pass")] * 8 + [("pi4b-2", "pass")] * 7 + [("pi4b-2", "fail")],
        [("pi4b-1", "pass")] * 4 + [("pi4b-2", "fail")] * 8,  # too few runs of others
        [("pi4b-2", "fail")] * 8,  # no other board
        [("pi4b-1", "pass")] * 8 + [("pi4b-2", "error")] * 8,  # the lab's errors blame no board
    ],
    ids=["all", "once", "few", "alone", "errors"],
)
def test_without_a_clear_difference_no_board_is_named(results: list[tuple[str, str]]) -> None:
    assert odd_boards(points(results)) == []


def dropped(node: str, **parts: Any) -> list[Point]:
    """Return eight failures of a node whose link dropped, with these parts of the point."""
    return [
        replace(point, figure=point.combination, direction="", value=None, **parts)
        for point in points([(node, "fail")] * 8)
    ]


def test_a_board_whose_link_drops_is_named_though_a_drop_has_no_value() -> None:
    (odd,) = odd_boards([*dropped("pi4b-2"), *points([("pi4b-1", "pass")] * 9)])
    assert (odd.node, odd.failed, odd.of, odd.others_failed, odd.others_of) == ("pi4b-2", 8, 8, 0, 9)


def test_drops_on_all_boards_or_of_other_traffic_or_builds_name_no_board() -> None:
    good = points([("pi4b-1", "pass")] * 9)
    assert odd_boards([*dropped("pi4b-1"), *dropped("pi4b-2"), *points([("pi4b-1", "fail")])]) == []
    assert odd_boards([*good, *dropped("pi4b-2", parameters="of other traffic")]) == []
    assert odd_boards([*good, *dropped("pi4b-2", combination="pi4b:onboard/incast:5")]) == []


def test_boards_that_measured_different_builds_are_not_compared() -> None:
    old = points([("pi4b-1", "pass")] * 9)
    new = points([("pi4b-2", "fail")] * 9, uname="Linux 6.18.1-v8+ #1 SMP aarch64")
    assert odd_boards([*old, *new]) == []


def test_boards_out_of_service_are_kept_by_lab_until_they_are_cleared(tmp_path: Path) -> None:
    since = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
    two, three = (OutOfService(node, since, "night-1", "no login") for node in ("pi4b-2", "pi4b-3"))
    with open_history(str(tmp_path / "h.db"), create=True) as store:
        store.remember("bench", [three, two])
        store.remember("other", [two])
        store.remember("bench", [OutOfService("pi4b-2", since, "night-2", "no power")])
    with open_history(str(tmp_path / "h.db")) as store:
        first, second = store.remembered(OutOfService, "bench")
        assert (first.run, first.reason, second) == ("night-2", "no power", three)
        assert str(second) == "out of service since 2026-11-24 09:30 UTC (run night-1): no login"
        store.put_into_service("bench", ["pi4b-2"])
        assert store.remembered(OutOfService, "bench") == [three]
        assert store.remembered(OutOfService, "other") == [two]
