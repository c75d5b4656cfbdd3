"""Pictures of terminals: what stays on the screen, when it appeared, and its colours."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from tools.site.casts import COLUMNS, Cast, lines_of, part, record, svg, wrapped

NAMESPACE = "{http://www.w3.org/2000/svg}"


def test_a_carriage_return_overwrites_the_line_and_control_codes_are_removed() -> None:
    chunks = [(0.1, "one\r\n50 %\r"), (0.4, "100 %\x1b[K\n"), (0.9, "\x1b[31mred\x1b[0m")]

    assert lines_of(chunks) == [(0.1, "one"), (0.4, "100 %"), (0.9, "\x1b[31mred\x1b[0m")]


def test_a_picture_has_each_line_with_its_colour_and_shortens_waits() -> None:
    picture = svg("a title", [(0.0, "$ <run>"), (60.0, "\x1b[1;31mFAIL\x1b[0m now")], moving=True)
    root = ET.fromstring(picture)

    first, second = root.findall(f"{NAMESPACE}text")
    assert "".join(first.itertext()) == "$ <run>"
    assert "".join(second.itertext()) == "FAIL now"
    assert second[0].attrib["fill"] == "#ff7b72"
    assert second[1].get("fill") is None
    assert second.attrib["style"] == "animation-duration:1.50s"
    assert "prefers-reduced-motion" in picture


def test_a_long_line_continues_in_the_next_row_with_its_colour() -> None:
    text = "x" * (COLUMNS - 2) + "\x1b[31mred\x1b[0m end"

    assert wrapped(text) == ["x" * (COLUMNS - 2) + "\x1b[31mre", "\x1b[31md\x1b[0m end"]
    assert wrapped("short") == ["short"]
    assert wrapped("") == [""]


def test_a_command_runs_on_a_terminal_and_what_was_begun_is_undone(tmp_path: Path) -> None:
    chunks = record("bash -c 'test -t 1 && echo begun | tee state'", "rm state", tmp_path)

    assert [text for _, text in lines_of(chunks)] == ["begun"]
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_a_part_of_the_recording() -> None:
    words = ["$ demo", "$ gate", "starts", "-", "FAILURES", "slow", "1 failed, 2 left", "next", "1 failed"]
    rows = [(float(number), word) for number, word in enumerate(words)]
    lines = part(rows, Cast("$ gate", " failed,", ("starts", "FAIL")))

    assert lines == [(1.0, "$ gate"), (2.0, "..."), (4.0, "FAILURES"), (5.0, "slow"), (6.0, "1 failed, 2 left")]
