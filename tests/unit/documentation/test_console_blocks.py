"""Console blocks: their options, and the output that they show."""

from __future__ import annotations

import re

import click
import pytest

from pytest_pinet.cli import pinet
from pytest_pinet.cli.command import HELP_NAMES
from tests.support.console_blocks import ROOT, ConsoleBlock, console_blocks, script_lines
from tests.support.page_outputs import OUTPUTS, OutputBlock, missing_lines, output_blocks

BLOCKS = console_blocks()
SCRIPTS = script_lines()


def test_each_block_is_run_or_says_why_not() -> None:
    marked = re.compile(r"not run: \S+ \S+.*|run: with .+")

    assert len(BLOCKS) > 20
    assert [str(block) for block in BLOCKS if not marked.fullmatch(block.mark)] == []
    assert [str(block) for block in BLOCKS if not block.commands] == []


def test_a_reason_names_tests_that_are_there() -> None:
    named = {(str(block), path) for block in BLOCKS for path in re.findall(r"tests/[\w/]+(?:\.py)?", block.mark)}

    assert len(named) > 10
    assert [(block, path) for block, path in sorted(named) if not (ROOT / path).exists()] == []


def test_scripts_have_commands() -> None:
    assert len(SCRIPTS) >= 4


@pytest.mark.parametrize("block", [*BLOCKS, *SCRIPTS], ids=str)
def test_the_commands_of_a_block_take_its_arguments(block: ConsoleBlock) -> None:
    for words in block.words:
        if words[:1] == ["pinet"]:
            parse(pinet, "pinet", words[1:])


def parse(command: click.Command, name: str, words: list[str]) -> None:
    """Parse without running. click raises UsageError for an unknown command, option or value."""
    context = command.make_context(name, list(words), help_option_names=HELP_NAMES)
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        below_name, below, further = command.resolve_command(context, rest)
        assert below is not None
        parse(below, str(below_name), further)


OUTPUT_BLOCKS = output_blocks()
COMPARED = [block for block in OUTPUT_BLOCKS if block.mark.startswith("output: ")]


def test_each_output_is_compared_or_says_why_not() -> None:
    marked = re.compile(r"output: .+|not compared: \S+ \S+.*")

    assert len(COMPARED) >= 8
    assert [str(block) for block in OUTPUT_BLOCKS if not marked.fullmatch(block.mark)] == []


def test_a_reason_for_output_names_tests_that_are_there() -> None:
    named = {path for block in OUTPUT_BLOCKS for path in re.findall(r"tests/[\w/]+(?:\.py)?", block.mark)}

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
