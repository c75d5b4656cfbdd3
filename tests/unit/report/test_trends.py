"""Trends and losses in the words of the terminal."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from pytest_pinet.history.history import open_history
from pytest_pinet.history.losses import BestMonth, LossState, MetricLevel
from pytest_pinet.history.text import ASCII_HEIGHTS, BLOCK_HEIGHTS
from pytest_pinet.report.sentences import (
    cause_text,
    changes_text,
    losses_sentence,
    lost,
    owner_text,
    percent,
    short_lines,
    size_text,
)
from pytest_pinet.report.trends import all_series, trend_lines
from tests.support.half_year_history import REGRESSIONS, half_year, keep
from tests.support.loss_levels import ANN, KNOWN, OPEN, TODAY, change, losses, opened


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("history") / "history.db")
    keep(half_year(1), place)
    return place


def test_each_metric_has_a_line_with_its_course_and_the_last_change(url: str) -> None:
    last = half_year(1)[-1]
    head, *lines = trend_lines(url, last.results, "half-year")[1:]
    assert head == "trend of the last 16 runs, newest at the right (!: failed):"
    assert len(lines) == sum(bool(one.directions) for one in last.results)
    # The failed one comes first.
    assert lines[0].startswith("pi5:rtl8125b/pair/tcp-P1-tx")
    assert "[!!!!!!!!!!!!!!!!]  -11.9 % with 6.12.53-v8+" in lines[0]
    for planted in REGRESSIONS:
        assert any(line.startswith(planted.figure) and "% with 6.12." in line for line in lines)
    assert all(len(line) <= 80 and line.isascii() for line in lines)


def test_the_course_has_block_characters_if_the_terminal_can_show_them(url: str) -> None:
    last = half_year(1)[-1]
    ascii_lines, lines = (
        trend_lines(url, last.results, "half-year", heights)[2:] for heights in (ASCII_HEIGHTS, BLOCK_HEIGHTS)
    )
    as_blocks = str.maketrans(ASCII_HEIGHTS, BLOCK_HEIGHTS)
    for ascii_line, line in zip(ascii_lines, lines, strict=True):
        (before, course), (_, blocks) = ascii_line.split("[", 1), line.split("[", 1)
        assert line.startswith(before)
        assert blocks.partition("]")[0] == course.partition("]")[0].translate(as_blocks)
        assert len(line) == len(ascii_line)
    # Colours or characters are never the only sign of a failure.
    assert "[!!!!!!!!!!!!!!!!]" in lines[0]


def test_a_first_run_has_no_trend(tmp_path: Path) -> None:
    first = half_year(1, runs=1)
    keep(first, str(tmp_path / "h.db"))
    assert trend_lines(str(tmp_path / "h.db"), first[0].results, "half-year") == []


def test_without_a_history_there_is_none(tmp_path: Path) -> None:
    results = half_year(1, runs=1)[0].results
    assert trend_lines(None, results, "half-year") == []
    assert trend_lines(str(tmp_path / "nowhere.db"), results, "half-year") == []


def test_a_loss_is_shown_although_it_is_older_than_the_charts(url: str) -> None:
    with open_history(url) as history:
        whole, short = (all_series(history, last) for last in (1000, 5))
    assert max(len(one.points) for one in short) == 5
    lost = [one for one in short if one.level.loss is not None]
    assert lost
    # Such a chart has no run from before the loss.
    assert all(one.level.loss.since < one.points[0].time for one in lost if one.level.loss is not None)
    assert [one.level.loss for one in lost] == [one.level.loss for one in whole if one.level.loss is not None]


def test_open_losses_come_first() -> None:
    assert [level.loss.figure for level in lost([MetricLevel(1e9), *losses()]) if level.loss] == [OPEN, KNOWN]


def test_losses_are_counted_in_words() -> None:
    first, second = losses()
    assert losses_sentence([]) == ""
    assert losses_sentence([second]) == "1 loss is open"
    assert losses_sentence([second, second]) == "2 losses are open"
    assert losses_sentence([first, second]) == "1 loss is open, 1 loss is acknowledged"
    assert losses_sentence([first, first]) == "2 losses are acknowledged"


@pytest.mark.parametrize(("day", "days"), [(19, "0 days"), (20, "1 day"), (21, "2 days")])
def test_the_age_is_in_days(day: int, days: str) -> None:
    assert size_text(opened(), date(2026, 7, day)) == f"-4.8 % since 2026-07-19 ({days})"


def test_the_owner_is_named_also_after_the_last_day() -> None:
    assert owner_text(opened()) == "open, no owner"
    known = replace(opened(), acknowledgement=ANN, state=LossState.ACKNOWLEDGED)
    assert owner_text(known) == "acknowledged until 2026-12-31, owner Ann Example"
    expired = replace(known, state=LossState.EXPIRED)
    assert owner_text(expired) == "open, owner Ann Example, acknowledged until 2026-12-31 (expired)"


def test_the_cause_is_what_differs_or_says_that_there_is_no_single_one() -> None:
    assert cause_text(opened()) == "941.0 -> 895.8 Mbit/s, with kernel 6.12.39-v8+ -> 6.12.40-v8+"
    assert cause_text(opened(change=None)).endswith("since before the runs of this history")
    drift = replace(change("a -> b"), gradual=True)
    assert cause_text(opened(change=drift)).endswith("a drift: no single build is the cause")
    assert cause_text(opened(change=replace(drift, gradual=False, differs=()))).endswith("with the same build")


def test_a_change_of_zero_has_no_sign() -> None:
    assert [percent(part) for part in (0.0, -0.0001, 0.0004, -0.048, 0.02)] == [
        "0.0 %",
        "0.0 %",
        "0.0 %",
        "-4.8 %",
        "+2.0 %",
    ]
    assert changes_text(MetricLevel(1e9, -0.00001)) == "0.0 % since the baseline"
    # A level that is that of the best month did not change.
    assert changes_text(MetricLevel(1e9, None, BestMonth("2026-06", 1e9))) == ""


def test_reports_have_a_line_for_each_loss() -> None:
    head, first, second = short_lines(losses(), TODAY)
    assert head == "1 loss is open, 1 loss is acknowledged"
    assert first == (
        f"{OPEN}: -4.8 % since 2026-07-19 (120 days); open, no owner; 941.0 -> 895.8 Mbit/s, with kernel "
        "6.12.39-v8+ -> 6.12.40-v8+; -4.8 % since the baseline, -4.8 % since the best month (2026-06)"
    )
    assert second.startswith(f"{KNOWN}: -2.9 % since 2026-10-08 (39 days); acknowledged until 2026-12-31, owner Ann")
    assert short_lines([MetricLevel(1e9)], TODAY) == []
