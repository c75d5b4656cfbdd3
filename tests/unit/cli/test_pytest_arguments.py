"""``pinet gate`` and ``pinet config`` have one option for each setting of a run, and pass its values to pytest."""

from __future__ import annotations

import json

import click
import pytest

from pytest_pinet.cli import run
from pytest_pinet.cli.command import HELP_NAMES
from pytest_pinet.cli.config import config, pytest_words
from pytest_pinet.cli.gate import gate
from pytest_pinet.session.option_table import SETTINGS
from tests.support.commands import all_commands


def options(command: click.Command) -> dict[str, click.Option]:
    return {param.opts[0]: param for param in command.params if isinstance(param, click.Option)}


def test_each_setting_is_an_option() -> None:
    names = {one.gate_option for one in SETTINGS}
    assert names - options(gate).keys() == {"--build"}
    # `pinet config --json` prints JSON.
    assert names <= options(config).keys()
    assert options(config)["--json"].is_flag


def test_no_help_has_a_second_spelling() -> None:
    for words, command in all_commands().items():
        for option in command.params:
            if isinstance(option, click.Option):
                assert "--pinet-" not in (option.help or ""), (words, option.opts)


def test_every_value_becomes_an_option_of_pytest() -> None:
    words = [
        "new",
        "--nic",
        "a",
        "--nic=b",
        "--strict",
        "--boots",
        "8",
        "--min=pi4b:*/pair=tx=90%",
        "--lab",
        "",
        "-k",
        "x",
    ]
    context = gate.make_context("gate", words, help_option_names=HELP_NAMES)
    assert context.params["pytest_args"] == ("-k", "x")
    assert pytest_words(context.params) == [
        "--pinet-lab=",
        "--pinet-nic=a",
        "--pinet-nic=b",
        "--pinet-min=pi4b:*/pair=tx=90%",
        "--pinet-strict",
        "--pinet-boots=8",
    ]


def test_a_setting_says_where_it_was_written(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    pytester.makepyfile("")
    assert run(["config", "--json", "--nic=macb", "--strict"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["nic"] == {"name": "nic", "value": "macb", "source": "command line", "origin": "--nic"}
    assert rows["strict"]["value"] == "true"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--boots", "x"], "pinet: Invalid value for '--boots': 'x' is not a whole number such as 5"),
        (
            ["--error-rate", "90%"],
            "pinet: Invalid value for '--error-rate': '90%' is out of range; expected more than 0",
        ),
        (["--profile=fst"], "pinet: Invalid value for '--profile': unknown profile 'fst', did you mean 'fast'?"),
    ],
)
def test_a_wrong_value_ends_a_bisection(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is read of the build, which is skipped if it cannot be read."""
    assert run(["gate", "gone.yaml", "--bisect", *words]) == 132
    assert capsys.readouterr().err.startswith(message)
