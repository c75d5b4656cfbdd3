"""Tables for a terminal and as Markdown."""

from __future__ import annotations

import pytest

from pytest_pinet.report.text_wrap import markdown_table, text_table

ROWS = [("name", "dir", "goodput", "verdict"), ("pi4b", "tx", "941 Mbit/s", "pass"), ("cm4", "rx", "-", "")]


def test_columns_stand_left_or_right_with_the_blanks_of_the_template() -> None:
    assert text_table(ROWS, "<  < >  <") == [
        "name  dir    goodput  verdict",
        "pi4b  tx  941 Mbit/s  pass",
        "cm4   rx           -",
    ]


def test_a_last_column_can_stand_at_the_right() -> None:
    assert text_table([("a", "seconds"), ("b", "5")], "< >") == ["a seconds", "b       5"]


def test_names_are_cut_so_that_lines_fit_and_stay_different() -> None:
    names = [f"{'x' * 40}-{number}-{'y' * 40}" for number in range(3)]
    lines = text_table([("name", "n"), *((name, "100") for name in names)], "<  >", width=30)
    assert {len(line) for line in lines} == {30}
    assert len(set(lines)) == 4


def test_colours_change_no_width() -> None:
    plain, colored = text_table(ROWS, "<  < >  <"), text_table(ROWS, "<  < >  <", colors=["32", None])
    assert colored == [plain[0], plain[1].replace("pass", "\x1b[32mpass\x1b[0m"), plain[2]]


def test_markdown_has_the_same_sides() -> None:
    assert markdown_table(ROWS[:2], "<  < >  <") == [
        "| name | dir | goodput | verdict |",
        "|---|---|--:|---|",
        "| pi4b | tx | 941 Mbit/s | pass |",
        "",
    ]


def test_a_row_that_lacks_a_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        text_table([("a", "b"), ("c",)], "<  <")
