"""The help text of every command and option, compared with golden files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import pytest

from pytest_pinet.cli import COMMANDS
from tests.support.commands import all_commands
from tests.support.golden import check, check_all

Help = Callable[..., str]


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Help:
    """Return a function for the output of `pinet WORDS --help`.

    It runs in this process, since thirty processes are too slow.
    """
    (script,) = entry_points(group="console_scripts", name="pinet")
    main = script.load()
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["pinet", *words, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        return capsys.readouterr().out

    return run


def test_every_command(help_of: Help) -> None:
    found = {f"help/{'-'.join(['pinet', *words])}.txt": help_of(*words) for words in all_commands()}
    assert len(found) > 20
    check_all(found)


def test_each_command_has_one_line(help_of: Help) -> None:
    lines = help_of().partition("Judge a change:")[2].splitlines()
    (indent,) = {line[:2] for line in lines if line and not line.endswith(":")}
    names = [line.split()[0] for line in lines if line.startswith(indent)]
    assert sorted(names) == sorted(COMMANDS)


def test_options_of_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = pytester.runpytest_subprocess("--help").stdout.str()
    options = re.search(r"^network throughput of boards .*?(?=^\S)", text, re.M | re.S)
    keys = re.findall(r"^  pinet_\w+ .*\n(?:   .*\n)*", text, re.M)
    markers = pytester.runpytest_subprocess("--markers").stdout.str()
    marker = re.search(r"^@pytest\.mark\.pinet.*?\n(?=\n)", markers, re.M | re.S)
    assert options is not None
    assert marker is not None
    check("help/pytest.txt", "\n".join([options[0], *keys, marker[0]]))
