"""Files at paths of the user, texts at each exit, and messages about unknown names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.errors import ConfigError, OutputError
from pytest_pinet.execution import files
from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.execution.names import misspelled, nearest_word
from pytest_pinet.execution.text import cleaned, for_log
from pytest_pinet.history.history import open_history
from tests.support.report_records import ONE_GIGABIT, direction, result, run_record

ROOT = Path(__file__).parents[3]
WRITE = "import sys; from pathlib import Path; from pytest_pinet.execution.files import write_file\n"


def test_a_regular_file_keeps_its_mode_and_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)
    before = path.stat()
    write_file(path, [b"new", b"er"])
    assert path.read_text() == "newer"
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode == before.st_mode


def test_an_error_in_between_leaves_the_old_file(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("no more")

    path = tmp_path / "history.jsonl"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        write_file(path, chunks())
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("history.jsonl", "old")]


def test_what_is_no_regular_file_is_written_into(tmp_path: Path) -> None:
    target, link, fifo = tmp_path / "target", tmp_path / "link", tmp_path / "fifo"
    target.write_text("a longer text")
    link.symlink_to(target)
    node = target.stat().st_ino
    write_file(link, [b"new"])
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_ino) == ("new", node)

    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    write_file(fifo, [b"through", b" it"])
    reader.join(10)
    assert read == ["through it"]
    assert fifo.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link", "target"]


@pytest.mark.parametrize("path", ["/dev/stdout", "/proc/self/fd/1"])
def test_standard_output_gets_the_text_between_other_texts(tmp_path: Path, path: str) -> None:
    out = tmp_path / "log"
    out.write_text("before\n")
    code = WRITE + f"print('one'); write_file(Path('{path}'), [b'two\\n']); print('three')"
    with out.open("a") as log:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=log, check=True)
    assert out.read_text().splitlines() == ["before", "one", "two", "three"]
    piped = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines() == ["one", "two", "three"]
    assert Path("/dev/stdout").is_symlink()


# More than one buffer, from a source that gives each part once.
LONG = "(b'x' * 999 + b'\\n' for _ in range(100))"


def test_a_full_disk_behind_standard_output_is_an_error() -> None:
    for chunks in ("iter([b'a line'])", LONG):
        code = WRITE + f"write_file(Path('/dev/stdout'), {chunks})"
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert "OSError: [Errno 28] No space left on device" in done.stderr


def test_a_file_behind_standard_output_keeps_what_it_has_if_the_rest_does_not_fit(tmp_path: Path) -> None:
    out = tmp_path / "log"
    out.write_text("before\n")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
    code = WRITE + limit + f"write_file(Path('/dev/stdout'), {LONG})"
    with out.open("a") as log:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=log, stderr=subprocess.PIPE, text=True, check=False
        )
    assert "OSError: [Errno 27] File too large" in done.stderr
    assert out.read_text() == "before\n" + ("x" * 999 + "\n") * 4 + "x" * 993


def test_a_pipe_that_no_program_reads_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "READER_TIMEOUT_S", 0.1)
    os.mkfifo(fifo := tmp_path / "fifo")
    message = f"cannot write {fifo}: no program opened this pipe for reading within 0.1 s; choose another with -o"
    with pytest.raises(OutputError, match=f"^{re.escape(message)}$"), writing(fifo, "-o"):
        write_file(fifo, [b"x"])
    assert fifo.is_fifo()


def test_a_file_that_is_open_for_reading_is_named() -> None:
    with Path("/etc/passwd").open() as file:
        path = f"/dev/fd/{file.fileno()}"
        message = f"^cannot write {path}: it is closed, or open only for reading$"
        with pytest.raises(OutputError, match=message), writing(path):
            write_file(Path(path), [b"x"])


@pytest.mark.parametrize(
    ("path", "why", "kind"),
    [
        ("/dev/full", "No space left on device", OutputError),
        ("/proc/x/y", "No such file or directory", ConfigError),
        ("/proc", "Is a directory", ConfigError),
        ("/proc/version/x", "/proc/version is no folder", ConfigError),
        ("a\0b", "its name has a NUL character", ConfigError),
    ],
)
def test_what_cannot_be_written_is_one_sentence(path: str, why: str, kind: type[ConfigError]) -> None:
    with pytest.raises(ConfigError) as caught, writing(path, "-o"):
        write_file(Path(path), [b"x"])
    shown = path.replace("\0", r"\x00")
    assert str(caught.value) == f"cannot write {shown}: {why}; choose another with -o"
    assert type(caught.value) is kind


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


@pytest.mark.parametrize(
    ("name", "accepted", "meant"),
    [
        ("e1000", ["e1000e", "igb"], "e1000e"),
        ("use_dak", ["use_dac"], "use_dac"),
        ("r8619", ["r8169"], "r8169"),
        ("interruptthrottlerate", ["InterruptThrottleRate"], "InterruptThrottleRate"),
        ("pcie_aspm", ["pciehp", "pcie_dpc"], None),
        ("trust_cpu", ["trust_bootloader"], None),
        ("r8961", ["r8169"], None),
        ("xen", ["xe"], None),
        ("e1000e", [], None),
    ],
)
def test_a_misspelled_name_differs_by_one_letter(name: str, accepted: list[str], meant: str | None) -> None:
    assert misspelled(name, accepted) == meant


@pytest.mark.parametrize(
    ("word", "accepted", "meant"),
    [
        ("--nic", ["--bisect", "--against", "--lab"], None),
        ("--nik", ["--nic", "--bisect", "--min"], "--nic"),
        ("--reason", ["--json", "--last"], None),
        ("--instr", ["--instructions", "--strict"], "--instructions"),
        ("--timeout", ["--acquire-timeout", "--min"], "--acquire-timeout"),
        ("--run", ["--run-dir", "--dry-run"], "--run-dir"),
        ("--dryrun", ["--run-dir", "--dry-run"], "--dry-run"),
        ("--nic", ["--pinet-nic", "--pinet-min"], "--pinet-nic"),
        ("--pinet-x", ["--pinet-nic", "--pinet-min"], None),
        ("--", ["--nic"], None),
        ("histroy", ["history", "demo"], "history"),
    ],
)
def test_the_nearest_option_or_command(word: str, accepted: list[str], meant: str | None) -> None:
    assert nearest_word(word, accepted) == meant
