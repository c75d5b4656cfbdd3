"""Commands find their lab where pytest finds it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml  # noqa: F401 - pytester unloads what a test imports, and a second copy of PyYAML reads no tags

import pytest_pinet.lab.drivers  # noqa: F401 - labgrid takes a driver once, no second copy
from pytest_pinet.cli import run
from pytest_pinet.cli.options import configured
from pytest_pinet.session.settings import settings
from tests.support.two_boards import two_boards

LAB = two_boards("name: bench")
INI = "[pytest]\npinet_lab = bench.yaml\n"
FILES = {
    "pytest.ini": INI,
    ".pytest.ini": INI,
    "tox.ini": INI,
    "setup.cfg": "[tool:pytest]\npinet_lab = bench.yaml\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npinet_lab = "bench.yaml"\n',
}


@pytest.fixture(autouse=True)
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PINET_LAB", raising=False)
    (pytester.path / "bench.yaml").write_text(LAB)
    return pytester.path


@pytest.mark.parametrize("name", FILES)
def test_each_kind_of_file(folder: Path, pytester: pytest.Pytester, name: str) -> None:
    (folder / name).write_text(FILES[name])
    assert configured("lab") == settings(pytester.parseconfig())["lab"] == str(folder / "bench.yaml")


@pytest.mark.parametrize(
    "files",
    [
        ["pytest.ini:[pytest]\n", "pyproject.toml"],
        ["pyproject.toml:[project]\nname = 'a'\n", "tox.ini"],
        ["tox.ini:[tox]\n", "setup.cfg"],
        ["setup.cfg:[metadata]\n"],
        ["pytest.ini:\n", "setup.cfg"],
    ],
    ids=" ".join,
)
def test_the_file_is_that_of_pytest(folder: Path, pytester: pytest.Pytester, files: list[str]) -> None:
    for name, _, text in (file.partition(":") for file in files):
        (folder / name).write_text(text or FILES[name])
    assert configured("lab") == settings(pytester.parseconfig())["lab"]


def test_the_environment_comes_first_and_a_folder_above_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pytest.ini").write_text(INI)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert configured("lab") == str(folder / "bench.yaml")
    monkeypatch.setenv("PINET_LAB", "virtual")
    assert configured("lab") == "virtual"


def test_all_commands_use_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pytest.ini").write_text(INI)
    for command in ("check", "matrix", "graph"):
        assert run([command]) == 0
        assert "bench" in capsys.readouterr().out
    assert run(["matrix", "--lab=virtual", "--board=pi5"]) == 0


@pytest.mark.parametrize("words", [["bench.yaml"], ["--lab", "bench.yaml"]], ids=" ".join)
def test_check_takes_its_lab_as_an_argument_and_as_an_option(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *words]) == 0
    assert capsys.readouterr().out.startswith("bench.yaml: ok, lab bench: 2 nodes")
    capsys.readouterr()
    assert run(["check", "virtual"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines()[2:] if len(line) > 80] == []
    assert run(["check", "--lab=virtual", *words]) == (4 if words == ["bench.yaml"] else 0)


def test_a_broken_file_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text("[tool\n")
    assert run(["check"]) == 4
    assert "pyproject.toml: this is no configuration of pytest: " in capsys.readouterr().err


def test_a_lab_that_is_no_text_is_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pytest refuses the file as well. The default lab must not take the place of the user's."""
    (folder / "pytest.toml").write_text("[pytest]\npinet_lab = 3\n")
    assert run(["check"]) == 4
    assert "pytest.toml: pinet_lab: expected a text, got '3'" in capsys.readouterr().err
