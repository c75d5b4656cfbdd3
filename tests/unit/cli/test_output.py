"""A full disk, a closed pipe and internal errors: one sentence, and an exit code that never means "regression"."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.cli import COMPLETE, run
from pytest_pinet.cli.command import INTERNAL, MISTAKE, OUTPUT
from pytest_pinet.cli.options import write_output
from pytest_pinet.config import labfile
from pytest_pinet.execution.text import for_log
from pytest_pinet.history import database
from tests.support import build_files as made
from tests.support.report_records import NIGHT, run_record

ROOT = Path(__file__).parents[3]
PINET = [sys.executable, "-c", "from pytest_pinet.cli import main; main()"]
# Stands for the file of `run_file`.
RUN = "RUN"
COMMANDS = [
    ["--help"],
    ["check", "virtual"],
    ["summary", RUN],
    ["export", RUN, "--format", "openmetrics"],
    ["compare", RUN, RUN],
    ["gate", "lab/builds/slower.yaml", "--lab=lab/emulated.yaml", "--pinet-dry-run", "pytest_pinet/suites"],
]


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("run") / "results.json"
    path.write_text(json.dumps(run_record(NIGHT).dump()))
    return str(path)


@pytest.fixture
def words(request: pytest.FixtureRequest, run_file: str) -> list[str]:
    return [run_file if word == RUN else word for word in request.param]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0], indirect=True)
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PINET, *words], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (OUTPUT, "pinet: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("words", [["check", "virtual"], ["summary", RUN]], ids=lambda words: words[0], indirect=True)
def test_a_closed_pipe_is_silent(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PINET, *words], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (OUTPUT, "")


@pytest.mark.parametrize(
    "words", [*COMMANDS, ["summary", RUN, "-o", "/dev/stdout"]], ids=lambda words: words[0], indirect=True
)
def test_a_closed_standard_output_is_one_sentence(words: list[str]) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "", *PINET, *words], cwd=ROOT, capture_output=True, check=False)
    path, advice = ("/dev/stdout", "; choose another with -o") if "-o" in words else ("the output", "")
    message = f"pinet: cannot write {path}: it is closed, or open only for reading{advice}\n"
    assert (done.returncode, done.stderr.decode()) == (OUTPUT, message)


def test_programs_that_pinet_starts_can_write_to_a_closed_standard_error() -> None:
    code = "import subprocess; from pytest_pinet import cli; cli._open_closed_streams(); "
    code += "print(subprocess.run(['sh', '-c', 'echo x >&2'], check=False).returncode)"
    closed = ["sh", "-c", 'exec "$@" <&- 2>&-', "", sys.executable, "-c", code]
    assert subprocess.run(closed, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout == "0\n"


def test_only_a_command_that_prints_needs_standard_output(tmp_path: Path, run_file: str) -> None:
    words = ["summary", run_file, "-o", str(tmp_path / "out")]
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', ""]
    assert subprocess.run([*closed, *PINET, *words], cwd=ROOT, check=False).returncode == 0
    assert "pi4b" in (tmp_path / "out").read_text()
    # There is no terminal for a question.
    assert subprocess.run([*closed, *PINET, "init"], cwd=tmp_path, check=False).returncode == MISTAKE


@pytest.mark.parametrize(
    "words",
    [
        ["summary", RUN, "-o"],
        ["summary", RUN, "--format", "md", "-o"],
        ["export", RUN, "--format", "ktap", "-o"],
        ["history", "export", "--history", "h.db", "-o"],
        ["report", "--page", "--history", "h.db", "-o"],
        ["compare", "published", RUN, "-o"],
    ],
    ids=lambda words: " ".join(word for word in words if word != RUN),
    indirect=True,
)
@pytest.mark.parametrize(("kind", "why"), [("full", "No space left on device"), ("pipe", "Broken pipe")])
def test_a_chosen_file_that_takes_no_more_has_the_code_of_output(
    words: list[str],
    run_file: str,
    kind: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["history", "import", "--history", "h.db", run_file]) == 0
    reader, writer = os.pipe()
    os.close(reader)
    place = f"/dev/fd/{writer}" if kind == "pipe" else "/dev/full"
    assert run([*words, place]) == OUTPUT
    os.close(writer)
    # The reader of a pipe has all that it needs.
    message = f"pinet: cannot write {place}: {why}; choose another with {words[-1]}\n"
    assert capsys.readouterr().err == ("" if kind == "pipe" else message)


def test_a_history_on_a_full_disk_has_the_code_of_output(
    run_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(database, "_PRAGMAS", ["max_page_count=4"])
    path = tmp_path / "h.db"
    assert run(["history", "import", "--history", str(path), run_file]) == OUTPUT
    message = f"pinet: history {path}: database or disk is full; free some space, or choose another history\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    "words", [["summary"], ["history"], ["check", "virtual"], ["report"]], ids=lambda words: words[0], indirect=True
)
def test_a_removed_current_folder_is_one_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(words) == MISTAKE
    message = "pinet: the current folder cannot be used: No such file or directory; change to another folder\n"
    assert capsys.readouterr() == ("", message)
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_LINE", "pinet graph pi")
    assert run([]) == MISTAKE
    assert capsys.readouterr() == ("", message)


def test_no_pipe_and_no_file_gets_commands_of_ci_systems(tmp_path: Path) -> None:
    text = "::error title=x::y\n"
    reader, writer = os.pipe()
    try:
        write_output([text], f"/dev/fd/{writer}")
        assert os.read(reader, 100).decode() == for_log(text) != text
    finally:
        os.close(reader)
        os.close(writer)
    for _ in range(2):
        write_output([text], str(tmp_path / "out"))
        assert (tmp_path / "out").read_text() == for_log(text)


def test_a_command_that_breaks_ends_with_the_code_of_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("this was not expected\n::error::x")

    monkeypatch.setattr(labfile, "load", breaks)
    assert run(["check", "virtual"]) == INTERNAL
    message = "pinet: internal error, please report it with the lines above: RuntimeError: this was not expected"
    output = capsys.readouterr().err
    assert message in output
    assert "Traceback" in output
    assert "\n::error" not in output


def test_a_build_may_have_braces_and_percents_in_its_name(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), "modules.tar": made.tar(made.tree())})
    (tmp_path / "build.yaml").write_text("name: '{rt} %s {0}'\nkernel: Image\nmodules: modules.tar\n")
    suite, lab = ROOT / "pytest_pinet/suites/test_packet_path.py", ROOT / "lab/emulated.yaml"
    words = ["gate", str(tmp_path / "build.yaml"), "--lab", str(lab), "--pinet-dry-run", "-k", "e1000e and receive"]
    done = subprocess.run([*PINET, *words, str(suite)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A running, B {rt} %s {0}: 6 to 16 turns on virt-1" in done.stdout


@pytest.mark.parametrize("hook", ["pytest_terminal_summary", "pytest_sessionfinish"])
def test_an_internal_error_at_the_end_of_a_run_is_no_failed_test(pytester: pytest.Pytester, hook: str) -> None:
    pytester.makeconftest(f"def {hook}(): raise KeyError('rt')")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess("-p", "no:labgrid", "-Wignore:Module already imported", "--pinet-lab=virtual")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stderr.fnmatch_lines(["pinet: internal error: KeyError: 'rt'"])


def test_an_error_at_the_end_of_a_run_gives_no_command_to_a_ci_system(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(r"def pytest_sessionfinish(): raise RuntimeError('x\n::error::y')")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess("-p", "no:labgrid", "-Wignore:Module already imported", "--pinet-lab=virtual")
    result.stderr.fnmatch_lines(["pinet: internal error: RuntimeError: x", ": :error::y"])
    result.stderr.no_fnmatch_line("::error*")


def test_a_pipe_that_closes_at_the_end_of_a_run_is_no_error_of_pinet(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_sessionfinish(): raise BrokenPipeError()")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess("-p", "no:labgrid", "-Wignore:Module already imported", "--pinet-lab=virtual")
    result.stderr.no_fnmatch_line("pinet: internal error*")
