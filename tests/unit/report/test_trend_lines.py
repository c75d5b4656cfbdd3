from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.history.history import open_history
from pytest_pinet.history.text import ASCII_HEIGHTS, BLOCK_HEIGHTS
from pytest_pinet.report.trends import all_series, trend_lines
from tests.support.half_year_history import REGRESSIONS, half_year, keep


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
    assert max(len(one.dots) for one in short) == 5
    lost = [one for one in short if one.level.loss is not None]
    assert lost
    # Such a chart has no run from before the loss.
    assert all(one.level.loss.since < one.dots[0].time for one in lost if one.level.loss is not None)
    assert [one.level.loss for one in lost] == [one.level.loss for one in whole if one.level.loss is not None]
