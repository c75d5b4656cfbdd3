"""Text of reports: wrapping, short names, and tables."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.report.text_wrap import (
    RATE_WIDTH,
    first_sentence,
    markdown_table,
    plain,
    rate,
    rates,
    shorten,
    text_table,
    wrap,
    wrap_command,
)

NOT_MEASURED = "negotiated 100 Mbit/s instead of 1000 Mbit/s: not measured"


class TestShorten:
    def test_cuts_in_the_middle(self) -> None:
        assert shorten(["pi4b:ax88179/pair tcp-P10-w262144"], 20) == {
            "pi4b:ax88179/pair tcp-P10-w262144": "pi4b:ax88..0-w262144"
        }

    def test_moves_the_cut_to_keep_names_apart(self) -> None:
        names = [f"board:{'n' * 10}{digit}{'m' * 12}/pair" for digit in "12"]

        assert sorted(shorten(names, 20).values()) == ["board:nnnnnnnnnn1..r", "board:nnnnnnnnnn2..r"]

    def test_leaves_what_fits(self) -> None:
        assert shorten(["short", "s" * 30], 10)["short"] == "short"

    @settings(deadline=None)
    @given(st.lists(st.text("ab.1", max_size=40), max_size=30), st.integers(8, 30))
    def test_different_names_stay_different_and_fit(self, names: list[str], width: int) -> None:
        short = shorten(names, width)

        assert set(short) == set(names)
        assert len(set(short.values())) == len(set(names))
        assert all(len(text) <= width for text in short.values())


class TestRate:
    @settings(deadline=None)
    @given(st.floats(min_value=0, allow_nan=False))
    def test_fits_its_column(self, bps: float) -> None:
        assert len(rate(bps)) <= RATE_WIDTH

    def test_is_the_usual_text_of_a_bit_rate(self) -> None:
        assert rate(941.48e6) == "941.5 Mbit/s"


class TestText:
    def test_control_characters_cannot_reach_the_terminal(self) -> None:
        assert plain("a\x1b[2Jb\nµ\udcff") == r"a\x1b[2Jb\n\xb5\udcff"

    @pytest.mark.parametrize(
        ("text", "first"),
        [
            ("No carrier. The cable is out.", "No carrier."),
            ("no carrier on eth0\n  -> check it", "no carrier on eth0"),
            ("iperf3 3.12 is too old, e.g. for bidir", "iperf3 3.12 is too old, e.g. for bidir"),
            ("negotiated 100 Mbit/s instead of\n    1000 Mbit/s: not measured\n  -> check it\n    soon", NOT_MEASURED),
            ("", ""),
        ],
    )
    def test_first_sentence(self, text: str, first: str) -> None:
        assert first_sentence(text) == first

    def test_wrap_says_that_it_cut(self) -> None:
        assert wrap("one two three four", "  ", width=11, lines=1) == ["  one ..."]

    @settings(deadline=None)
    @given(st.text(), st.integers(20, 80))
    def test_wrap_never_exceeds_the_width(self, text: str, width: int) -> None:
        assert all(len(line) <= width for line in wrap(text, "  ", "    ", width))


class TestCommand:
    def test_stays_the_same_command_over_several_lines(self) -> None:
        command = "pytest --pinet-lab 'my lab.yaml' -k \"a b\" " + " ".join(f"--option-{n}" for n in range(12))
        lines = wrap_command(command, "  repeat  ", "    ")

        assert len(lines) > 1
        assert all(len(line) <= 80 for line in lines)
        script = "\n".join(lines).replace("  repeat  pytest", "printf '%s\\n'")
        printed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        assert printed.splitlines() == shlex.split(command)[1:]

    def test_a_long_word_stays_whole(self) -> None:
        word = "'tests/" + "x" * 90 + "[a b]'"

        assert wrap_command(f"pytest {word}", "  ", "    ") == ["  pytest \\", f"    {word}"]


def test_rates_of_one_sentence_show_their_unit_once_only_if_it_is_the_same() -> None:
    assert rates(84.5e6, 84.9e6, 94e6) == ["84.5", "84.9", "94.0 Mbit/s"]
    assert rates(900, 5000) == [rate(900), rate(5000)]


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
