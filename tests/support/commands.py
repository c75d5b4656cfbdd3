"""All commands of ``pinet``, and calls of them in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from pytest_pinet.cli import main, pinet
from tools.site.commands import walk


def all_commands() -> dict[tuple[str, ...], click.Command]:
    """Return every command, groups as well, by the words that call it; ``pinet`` itself is the empty tuple."""
    return {tuple(path.split()[1:]): command for path, command in walk(pinet, "pinet")}


def run(*arguments: str) -> Result:
    """Call ``pinet``. An exception is the caller's."""
    return CliRunner().invoke(pinet, arguments, catch_exceptions=False)


def mistake(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str, output: str = ""
) -> str:
    """Return the message of ``pinet`` on a mistake, beside which it prints this output only."""
    monkeypatch.setattr(sys, "argv", ["pinet", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 4
    out, err = capsys.readouterr()
    assert out == output
    return err


def go_without_allure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder from which neither Allure nor a chosen history can be found."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("sys.prefix", str(folder / "venv"))
    for name in ("PINET_HISTORY", "PINET_ALLURE"):
        monkeypatch.delenv(name, raising=False)
