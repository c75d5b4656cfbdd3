"""Each console block is run by a test or says why not, and its commands have the options that it uses."""

from __future__ import annotations

import re

import click
import pytest

from pytest_pinet.cli import pinet
from pytest_pinet.cli.command import HELP_NAMES
from tests.support.console_blocks import ROOT, ConsoleBlock, console_blocks, script_lines

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
