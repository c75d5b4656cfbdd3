"""``pinet config``: each setting with its value and the place in which it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.session.option_table import SETTINGS
from tests.support.two_boards import two_boards

LAB = two_boards("name: bench", "profile: soak")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for one in SETTINGS:
        monkeypatch.delenv(one.variable, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.yaml").write_text(LAB)
    # Without a file of its own, pytest looks for one in the folders above.
    (tmp_path / "pytest.ini").write_text("[pytest]\npinet_lab = bench.yaml\npinet_board =\n  pi4b\n  pi5\n")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[str]]:
    assert run(["config", "-p", "no:cacheprovider", *words]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    return {row.split()[0]: row.split(maxsplit=1)[1].split("  ") for row in rows}


def test_each_setting_with_its_place(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINET_CONFIRM", "connection")
    found = lines(capsys, "--pinet-boots=8", "-o", "pinet_require=3")
    assert list(found) == [one.name for one in SETTINGS]
    text = {name: " | ".join(filter(None, map(str.strip, cells))) for name, cells in found.items()}
    assert text["lab"].endswith("bench.yaml | pytest.ini:2: pinet_lab")
    assert text["board"] == "pi4b; pi5 | pytest.ini:3: pinet_board"
    assert text["profile"].startswith("soak | ")
    assert text["profile"].endswith("bench.yaml:3: profile")
    assert text["confirm"] == "connection | PINET_CONFIRM"
    assert text["boots"] == "8 | --pinet-boots"
    assert text["require"] == "3 | -o pinet_require"
    assert text["error-rate"] == "1% | default"
    assert text["against"] == "running | default"


def test_the_command_line_hides_the_profile_of_the_lab_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--json", "--pinet-profile=fast"]) == 0
    (row,) = (row for row in json.loads(capsys.readouterr().out) if row["name"] == "profile")
    assert row == {"name": "profile", "value": "fast", "source": "command line", "origin": "--pinet-profile"}


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--pinet-boots=x"], ["pinet: --pinet-boots: 'x' is not a whole number such as 5"]),
        (["-o", "pinet_lab=gone.yaml"], ["gone.yaml: this file does not exist"]),
        (["--pinet-bots=9"], ["unrecognized arguments", "did you mean: --pinet-boots"]),
    ],
)
def test_mistakes(words: list[str], messages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", *words]) == 4
    text = capsys.readouterr().err
    assert all(message in text for message in messages), text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ci:s3c@ret@db.example.org/pinet", "postgresql://ci:***@db.example.org/pinet"),
        (
            "postgresql://db/pinet?user=ci&password=s3cret&sslmode=off",
            "postgresql://db/pinet?user=ci&password=***&sslmode=off",
        ),
        ("postgresql://ci@db.example.org:5432/pinet", "postgresql://ci@db.example.org:5432/pinet"),
    ],
)
def test_no_password_is_shown(url: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--json", f"--pinet-history={url}"]) == 0
    text = capsys.readouterr().out
    assert "s3c" not in text
    assert [row["value"] for row in json.loads(text) if row["name"] == "history"] == [shown]
