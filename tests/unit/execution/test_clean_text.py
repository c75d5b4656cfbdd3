"""Text from boards and files is clean at each exit."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.execution.text import cleaned, for_log
from pytest_pinet.history.history import open_history
from tests.support.report_records import ONE_GIGABIT, direction, result, run_record

HOSTILE = (
    "\x1b]0;title\x07\x1b[2J\u202elive\u2028::error::broken\n::error file=x::y\n  ::set-output name=a::b\n##[error]z\n"
    "##vso[a]\x9b1m\r\ud800"
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain text\twith tab\nand line", "plain text\twith tab\nand line"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[2Jx\x07", "\\x1b[2Jx\\x07"),
        ("\x1b]0;x\x1b\\", "\\x1b]0;x\\x1b\\"),
        ("a\u202eb\u2066c\u200f", "a\\u202eb\\u2066c\\u200f"),
        ("a\rb\r\nc", "a\\rb\r\nc"),
        ("a\x9bb\ud800", "a\\x9bb\\ud800"),
        ("Größe µs", "Größe µs"),
    ],
)
def test_characters(text: str, clean: str) -> None:
    assert cleaned(text) == clean
    assert for_log(text) == clean
    assert cleaned(cleaned(text)) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("::error::x", ": :error::x"),
        ("a\n  ::warning file=x::y", "a\n  : :warning file=x::y"),
        ("##[error]x", "## [error]x"),
        ("a ##vso[task.complete]", "a ## vso[task.complete]"),
        ("fe80::1 is no command", "fe80::1 is no command"),
        ("## heading", "## heading"),
    ],
)
def test_commands_of_ci_systems(text: str, clean: str) -> None:
    assert for_log(text) == clean
    assert cleaned(text) == text


@pytest.mark.parametrize(
    "words",
    [
        ["summary", "r.json"],
        ["summary", "r.json", "--format", "md"],
        ["summary", "r.json", "-o", "out"],
        ["export", "r.json", "--format", "openmetrics"],
        ["compare", "r.json", "r.json"],
        ["compare", "r.json", "\x1b]0;x\x07"],
        ["check", "\x1b]0;x\x07\n::error::y"],
        ["gate", "\x1b]0;x\x07\n::error::y", "--bisect"],
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode(),
)
def test_each_exit(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = result("pi4b:onboard/pair", {}, "error", HOSTILE)
    record = run_record([broken.replace(build={"kernel": HOSTILE})])
    Path("r.json").write_text(json.dumps(record.dump()))
    with suppress(SystemExit):
        run(words)
    output = capsys.readouterr()
    for text in [output.out, output.err, *[path.read_text() for path in tmp_path.glob("out")]]:
        assert not [line for line in text.split("\n") if line.lstrip().startswith("::") or "##[" in line]
        assert not set(text) & set("\x1b\x07\x9b\r\u2028\u202e")


@pytest.mark.parametrize("words", [["report", "--page"], ["history", "export"]], ids=lambda words: words[0])
def test_a_hostile_id_gives_no_command_to_a_ci_system(
    tmp_path: Path, words: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    traffic = "tcp-P1\n::error::pwn\n##vso[task]x###[y]"
    record = run_record([result("pi4b:onboard/pair", {"tx": direction(ONE_GIGABIT)}, traffic=traffic)])
    Path("r.json").write_text(json.dumps(record.dump()))
    assert run(["history", "import", "--history", "h.db", "r.json"]) == 0
    for place in ("out", "/dev/stdout"):
        assert run([*words, "--history", "h.db", "-o", place]) == 0
        output = capfd.readouterr()
        for text in (output.out, output.err, Path("out").read_text()):
            assert not [line for line in text.split("\n") if line.lstrip().startswith("::") or "##[" in line]
            assert "##vso[" not in text
        assert "pwn" in (Path("out").read_text() if place == "out" else output.out)
    if words[0] == "history":
        assert run(["history", "import", "--history", "copy.db", "out"]) == 0
        with open_history("h.db") as store, open_history("copy.db") as copy:
            assert copy.figures() == store.figures()
            assert traffic in store.figures()[0].id


def test_pytest_prints_a_mistake_clean(pytester: pytest.Pytester) -> None:
    found = pytester.runpytest_inprocess("--pinet-lab=\x1b]0;x\x07")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    assert "\\x1b]0;x\\x07" in found.stderr.str()
    assert "\x07" not in found.stderr.str() + found.stdout.str()
