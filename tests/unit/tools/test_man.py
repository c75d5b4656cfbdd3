"""The man pages are current with the help of the commands, and render without warnings."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support.commands import all_commands
from tools.man import FOLDER, pages


def test_the_pages_are_current() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.1")}
    assert there == pages(), "run: make man"


def test_there_is_a_page_for_each_command() -> None:
    assert {"-".join(("pinet", *words)) + ".1" for words in all_commands()} == set(pages())


def test_a_page_has_sections_and_exit_codes() -> None:
    gate, degrade = pages()["pinet-gate.1"], pages()["pinet-lab-degrade.1"]
    assert "pinet\\-gate \\- Boot BUILD and the known\\-good build alternately" in gate
    assert gate.index(".SH OPTIONS") < gate.index(".SH EXIT STATUS") < gate.index("132 for wrong arguments")
    assert degrade.index(".SH FAULTS OF A NODE") < degrade.index("\\-\\-freeze")
    assert "pinet(1), pinet\\-lab(1)" in degrade


def test_each_page_has_the_exit_codes_of_all_commands_and_none_stands_in_prose() -> None:
    split = {name: text.partition(".SH EXIT STATUS\n") for name, text in pages().items()}
    codes = {name: set(re.findall(r"\d+", after.partition(".SH ")[0])) for name, (_, _, after) in split.items()}

    assert [name for name, found in codes.items() if not found >= {"2", "4", "70", "74", "130"}] == []
    assert [name for name, (before, _, _) in split.items() if re.search("The exit code is", before)] == []
    assert "that of COMMAND" in split["pinet-lab-exec.1"][2]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("mandoc", "-T", "lint", "-W", "warning"), id="mandoc", marks=pytest.mark.slow),
        pytest.param(("groff", "-man", "-ww", "-z"), id="groff"),
    ],
)
def test_the_pages_render_without_warnings(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    files = sorted(map(str, FOLDER.glob("*.1")))
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
