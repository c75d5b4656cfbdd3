"""``pinet boards-for``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet


def called(*words: str, given: bytes = b"") -> tuple[str, str]:
    """Return what the command prints on both streams."""
    done = CliRunner().invoke(pinet, ["boards-for", *words], input=given)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_boards_are_lines_or_one_line_of_json() -> None:
    assert called("drivers/net/usb/r8152.c") == ("r8152\nr8156\n", "")
    assert called("--json", "drivers/net/usb/r8152.c") == ('["r8152", "r8156"]\n', "")


@pytest.mark.parametrize(
    "given",
    [
        b"Documentation/a.rst\ndrivers/net/usb/r8152.c\n",
        b"Documentation/a.rst\0drivers/net/usb/r8152.c\0",
        b'"Documentation/\\303\\244.rst"\ndrivers/net/usb/r8152.c\n',
        b"Documentation/\xff\n\ndrivers/net/usb/r8152.c",
    ],
)
def test_paths_can_come_from_git(given: bytes) -> None:
    assert json.loads(called("--json", "-", given=given)[0]) == ["r8152", "r8156"]


@pytest.mark.parametrize("given", [b"", b"Documentation/a.rst\n"])
def test_nothing_to_gate_is_an_answer(given: bytes) -> None:
    out, err = called("-", "--json", given=given)
    assert out == "[]\n"
    assert err.startswith("nothing to gate: ")


def test_a_lab_without_exact_boards_is_refused() -> None:
    done = CliRunner().invoke(pinet, ["boards-for", "--lab=virtual", "net/core/dev.c"])
    assert "has no exact board" in str(done.exception)
