"""Colours appear on terminals only, and NO_COLOR and FORCE_COLOR decide first."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.cli.command import painted, painted_change
from tests.support.commands import all_commands

MAIN = "from pytest_pinet.cli import main; main()"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def in_terminal(*words: str, **environment: str) -> str:
    """Return what ``pinet`` prints on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdout=theirs, stderr=theirs, env={**os.environ, **environment}
    ) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                # Linux answers so when the last process has closed the terminal.
                break
            if not part:
                break
            found += part
        process.wait(timeout=60)
    os.close(ours)
    return found.decode()


def test_help_and_messages_have_colours_on_a_terminal() -> None:
    assert "\x1b[1mOptions\x1b[0m:" in in_terminal("check", "--help")
    assert "\x1b[31m\x1b[1mpinet:\x1b[0m unknown command" in in_terminal("chek")
    plain = in_terminal("chek", NO_COLOR="1")
    assert "unknown command" in plain
    assert "\x1b" not in plain
    assert "\x1b" not in in_terminal("chek", TERM="dumb")


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_every_command_obeys_the_variables(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def output() -> str:
        assert run([*words, "--help"]) == 0
        return capsys.readouterr().out

    plain = output()
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1mOptions\x1b[0m:" in output()
    monkeypatch.setenv("NO_COLOR", "1")
    assert output() == plain


def test_a_result_has_colours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(["matrix", "--lab=virtual", "--board=pi5"]) == 0
    assert "\x1b[32mok\x1b[0m  pi5:onboard/pair" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "pi4b:onboard/pair  1.39 Gbit/s  -10.0%  SLOWER",
            "pi4b:onboard/pair  1.39 Gbit/s  -10.0%  \x1b[31mSLOWER\x1b[0m",
        ),
        ("ok   nodes   6 nodes", "\x1b[32mok\x1b[0m   nodes   6 nodes"),
        ("  ! pdu: dead", "  \x1b[31m!\x1b[0m pdu: dead"),
        ("all values must pass", "all values must pass"),
        ("okay", "okay"),
    ],
)
def test_painted(line: str, expected: str) -> None:
    assert painted(line) == expected


def test_a_change_has_the_usual_colours() -> None:
    assert [painted_change(line)[:5] for line in ("+a", "-a", "@@", " a")] == ["\x1b[32m", "\x1b[31m", "\x1b[36m", " a"]
