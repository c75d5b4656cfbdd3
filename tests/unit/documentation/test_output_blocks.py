"""Each output on a page is what the product prints today, or says why it is not compared."""

from __future__ import annotations

import re

import pytest

from tests.support.console_blocks import ROOT, console_blocks
from tests.support.page_outputs import OUTPUTS, OutputBlock, missing_lines, output_blocks

BLOCKS = output_blocks()
COMPARED = [block for block in BLOCKS if block.mark.startswith("output: ")]


def test_each_output_is_compared_or_says_why_not() -> None:
    marked = re.compile(r"output: .+|not compared: \S+ \S+.*")

    assert len(COMPARED) >= 8
    assert [str(block) for block in BLOCKS if not marked.fullmatch(block.mark)] == []


def test_a_reason_names_tests_that_are_there() -> None:
    named = {path for block in BLOCKS for path in re.findall(r"tests/[\w/]+(?:\.py)?", block.mark)}

    assert len(named) >= 3
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_each_output_is_on_a_page() -> None:
    assert {block.mark.removeprefix("output: ") for block in COMPARED} == OUTPUTS.keys()


def test_pages_show_an_output_below_the_same_command() -> None:
    commands: dict[str, set[str]] = {}
    for block in COMPARED:
        for above in console_blocks():
            if above.page == block.page and 0 < block.line - above.line < 9:
                commands.setdefault(block.mark, set()).add(above.commands[-1])

    assert len(commands) >= 4
    assert {mark: found for mark, found in commands.items() if len(found) > 1} == {}


@pytest.mark.parametrize("block", COMPARED, ids=str)
def test_an_output_is_what_is_printed_today(block: OutputBlock) -> None:
    printed = list(OUTPUTS[block.mark.removeprefix("output: ")]())

    assert missing_lines(block.lines, printed) == [], "printed today:\n" + "\n".join(printed)
    # Ids of tests are never split, a browser wraps Markdown, and lab files have longer lines than a terminal.
    if not block.mark.endswith((", md", ", file")):
        assert [line for line in block.lines if len(line) > 80 and "::" not in line] == []


def test_a_line_at_another_place_is_missing() -> None:
    assert missing_lines(["b", "a"], ["a", "b"]) == ["a"]
    assert missing_lines(["a", "c"], ["a", "b", "c"]) == []
