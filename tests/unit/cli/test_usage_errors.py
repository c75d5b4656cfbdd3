"""Every usage error of every command ends with 4, and under ``git bisect run`` with 132."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pytest_pinet.cli import pinet, run
from pytest_pinet.cli.command import DefaultGroup
from pytest_pinet.errors import LabError
from tests.support.commands import all_commands

ALL = all_commands()
COMMANDS = {words: command for words, command in ALL.items() if not isinstance(command, click.Group)}
GROUPS = {words: command for words, command in ALL.items() if isinstance(command, click.Group)}
# Without a command, these call their first one.
DEFAULTS = {words for words, command in GROUPS.items() if isinstance(command, DefaultGroup)}
# These commands pass unknown options on: `gate` to pytest, and `exec` to the command on the board.
PASS_ON = {words for words, command in COMMANDS.items() if command.context_settings.get("ignore_unknown_options")}
BAD_VALUES: dict[type, str] = {
    click.types.IntParamType: "x",
    click.IntRange: "x",
    click.types.FloatParamType: "x",
    click.FloatRange: "x",
    click.Choice: "no-such-choice",
}


def mistakes() -> list[tuple[str, ...]]:
    """Return a command line for each mistake that click finds in each command."""
    found = [(*words, "no-such-command") for words in sorted(GROUPS.keys() - DEFAULTS)]
    found += [(*words, "--no-such-option") for words in ALL if words not in PASS_ON]
    for words, command in COMMANDS.items():
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        if any(param.required for param in command.params):
            found.append(words)
        if all(argument.nargs == 1 for argument in arguments):
            found.append((*words, *["a"] * (len(arguments) + 1)))
        for param in command.params:
            if isinstance(param, click.Option) and type(param.type) in BAD_VALUES:
                given = ["a" for argument in arguments if argument.required]
                found.append((*words, *given, param.opts[0], BAD_VALUES[type(param.type)]))
                if isinstance(param.type, click.IntRange):
                    found.append((*words, *given, param.opts[0], "99999999999999999999"))
            if isinstance(param, click.Option) and not param.is_flag:
                found.append((*words, param.opts[0]))
    return found


@pytest.mark.parametrize("words", mistakes(), ids=" ".join)
def test_every_usage_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(words)) == 4
    output = capsys.readouterr()
    assert output.out == ""
    first, usage, hint = output.err.splitlines()
    assert first.startswith("pinet: ")
    assert usage.startswith("Usage: pinet")
    assert hint.startswith("For help, run: pinet")
    # `--bisect` comes first, because the last option of some command lines lacks its value.
    assert run([*words[:1], "--bisect", *words[1:]]) == 132


def test_a_calibration_of_years_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["calibrate", "pi4b:onboard/pair", "--lab", "virtual", "--dry-run", "--links", "100"]
    less = "reduce --connections, --links or --boots, or name fewer combinations"
    # 803.3 and 7.2 days.
    for boots, connections, days in (("100", "1000", 804), ("0", "900", 8)):
        assert run([*words, "--boots", boots, "--connections", connections]) == 4
        message = f"pinet: this takes up to {days} days; expected at most 7: {less}"
        assert capsys.readouterr().err.splitlines()[-1] == message


def test_the_walk_found_the_commands() -> None:
    assert len(COMMANDS) > 20
    assert ("gate",) in PASS_ON
    assert len(mistakes()) > 3 * len(COMMANDS)


@pytest.mark.parametrize("words", sorted(GROUPS.keys() - DEFAULTS), ids=" ".join)
def test_a_group_without_a_command_prints_its_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(words)) == 4
    assert capsys.readouterr().err.startswith("Usage: pinet")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["gate", "out", "--bisect", "--boots", "x"], 132),
        (["gate", "out", "--bisec", "--boots", "x"], 132),
        (["gate", "out", "-bisect", "--boots", "x"], 132),
        (["gat", "out", "--bisect"], 132),
        (["gate", "--bisect", "--agianst", "good", "out"], 132),
        (["gate", "--bisect"], 132),
        (["gate", "out", "--boots", "x"], 4),
    ],
)
def test_a_typo_never_marks_a_commit_bad(words: list[str], code: int) -> None:
    assert run(words) == code


class Broken:
    """A command that fails with ``error``."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def main(self, *_: object, **__: object) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "bisect"),
    [
        (LabError("no answer"), 2, 125),
        (click.Abort(), 1, 130),
        (RuntimeError("a bug"), 70, 125),
        (PermissionError("a bug"), 70, 125),
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), 74, 202),
    ],
)
def test_other_errors(error: BaseException, code: int, bisect: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinet, "main", Broken(error).main)
    assert run(["gate"]) == code
    assert run(["gate", "--bisect"]) == bisect


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_short_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "-h"]) == 0
    short = capsys.readouterr().out
    assert run([*words, "--help"]) == 0
    assert capsys.readouterr().out == short
    assert "-h, --help" in short


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chek"], "unknown command 'chek', did you mean 'check'?"),
        (["lab", "upp"], "unknown command 'upp', did you mean 'up'? (accepted: degrade, down, exec"),
        (["doctor", "--trybot"], "unknown option '--trybot', did you mean '--tryboot'?"),
        (
            ["gate", "--lba", "virtual", "out"],
            "unknown option '--lba', did you mean '--lab'? Options of pytest come after",
        ),
        (["gate", "--nik", "macb", "out"], "unknown option '--nik', did you mean '--nic'?"),
        (["gate", "--driver", "macb", "out"], "unknown option '--driver', did you mean '--nic'?"),
        (["gate", "--pinet-nic", "macb", "out"], "unknown option '--pinet-nic', did you mean '--nic'?"),
        (["gate", "--timeout", "3 min", "out"], "unknown option '--timeout', did you mean '--acquire-timeout'?"),
        (["gate", "-k", "rx", "out"], "'-k' is no option of pinet gate; options of pytest come after BUILD"),
        (["accept", "--least-runs", "3"], "unknown option '--least-runs', did you mean '--least'?"),
        (["matrix", "--nci", "x"], "unknown option '--nci', did you mean '--nic'?"),
        (["calibrate", "--dry"], "unknown option '--dry', did you mean '--dry-run'?"),
        (["history", "--lats", "3"], "unknown option '--lats', did you mean '--last'?"),
        (
            ["history", "exprot"],
            "unknown command 'exprot', did you mean 'export'? (accepted: export, import, schema, show)",
        ),
        (["compare", "publishd"], "unknown command 'publishd', did you mean 'published'? (accepted: published, runs)"),
        (["run", "out"], "unknown command 'run', did you mean 'gate'?"),
        (["test"], "unknown command 'test', did you mean 'gate'?"),
        (["show"], "unknown command 'show', did you mean 'summary'?"),
        (["who", "bcmgenet"], "unknown command 'who', did you mean 'losses who'?"),
        (["degrad", "pi4b-1"], "unknown command 'degrad', did you mean 'lab degrade'?"),
    ],
)
def test_the_nearest_name_is_suggested(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 4
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--agianst", "good", "--lab=virtual"], "pinet: '--agianst': did you mean '--against'?\n"),
        (
            ["--nick", "macb", "--instr=1%"],
            "pinet: '--nick': did you mean '--nic'?\npinet: '--instr': did you mean '--instructions'?\n",
        ),
        (["--frobnicate"], ""),
        (["--interface", "eth1"], "pinet: '--interface': did you mean '--nic'?\n"),
        (["--node=pi4-1"], "pinet: '--node': did you mean '--board'?\n"),
        (["--baseline", "good"], "pinet: '--baseline': did you mean '--against'?\n"),
        (["--limit", "90%"], "pinet: '--limit': did you mean '--min'?\n"),
        # The option is pytest's own; something else is wrong.
        (["--pyargs", "pytest_pinet.suites.test_line_rate", "--lab=gone.yaml"], ""),
    ],
)
@pytest.mark.usefixtures("pytester")
def test_a_gate_suggests_names_only_for_options_that_pytest_does_not_know(
    words: list[str], hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["gate", "out", *words, "-p", "no:labgrid"])
    assert ended.value.code == 4
    lines = capfd.readouterr().err.splitlines(keepends=True)
    assert "".join(line for line in lines if "did you mean '--" in line) == hint


@pytest.mark.usefixtures("pytester")
def test_a_gate_says_where_the_build_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["gate", "out", "--build", "new", "-p", "no:labgrid"])
    assert "pinet: '--build': the build is the first argument: pinet gate BUILD\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "run1", "run2"], "there is no history .pinet/history.db"),
        (["compare", "--tolerance", "3%", "good", "bad"], "there is no history .pinet/history.db"),
        (["compare", "runs/1", "published"], "there is no file 'runs/1'"),
        (["compare", "publish", "new"], "publish has no results.json"),
        (["compare", "published"], "there is no '.pinet/latest'"),
        (["history", "pi4b:*"], "there is no history .pinet/history.db"),
    ],
)
def test_a_group_takes_the_arguments_of_its_default_command(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PINET_HISTORY", raising=False)
    # A folder whose name is similar to a command.
    Path("publish").mkdir()
    assert run(words) == 4
    assert message in capsys.readouterr().err


def test_git_bisect_stops_at_a_typo(tmp_path: Path) -> None:
    def git(*words: str) -> tuple[int, str]:
        name = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        done = subprocess.run(
            ["git", *name, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout + done.stderr

    git("init")
    for number in range(4):
        git("commit", "--allow-empty", "-m", str(number))
    git("bisect", "start", "HEAD", "HEAD~3")
    call = [sys.executable, "-c", "from pytest_pinet.cli import main; main()", "gate", "out", "--bisect"]
    status, text = git("bisect", "run", *call, "--boots", "x")
    assert status != 0
    assert "exit code 132" in text
    assert "first bad commit" not in text
    assert "git bisect bad" not in git("bisect", "log")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--power", "poe"], "pinet: --power is for a lab with a labgrid coordinator; add --bench"),
        (["--port", "a=1"], "pinet: --port is for a lab with a labgrid coordinator; add --bench"),
        (["--bench", "--peer", "pi@b"], "pinet: --peer pi@b: with --bench, expected runner (this machine) or none"),
    ],
)
def test_init_ignores_no_option(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "pi@192.0.2.5", *words]) == 4
    assert capsys.readouterr().err.splitlines() == [message]
