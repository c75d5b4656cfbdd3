"""How long a command over ssh may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import LabError, SshError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab import ssh
from pytest_pinet.lab.ssh import SshShell


def test_a_shell_with_patience_waits_longer() -> None:
    shell = SshShell("pi", ["/bin/sh", "-c"])
    with pytest.raises(SshError, match=r"pi did not answer over ssh within 0 s \(sleep 0\.5 \.\.\.\)"):
        shell.run("sleep 0.5", timeout_s=0.05)
    shell = SshShell("pi", ["/bin/sh", "-c"], patience=200.0)
    assert shell.run("sleep 0.5; echo here", timeout_s=0.05).stdout == "here\n"


def test_a_short_wait_without_an_answer_does_not_shorten_the_next_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "SILENT_TIMEOUT_S", 0.1)
    shell = SshShell("pi", ["/bin/sh", "-c"])
    # A process that is slow to end gets such a short wait.
    with pytest.raises(SshError):
        shell.run("sleep 1", timeout_s=0.1)
    assert shell.run("sleep 0.4; echo here").stdout == "here\n"


def test_a_node_is_silent_after_two_commands_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "SILENT_TIMEOUT_S", 0.1)
    shell = SshShell("pi", ["/bin/sh", "-c"])

    def wait_in_vain() -> None:
        with pytest.raises(SshError):
            shell.run("sleep 1", timeout_s=0.2)

    # A slow board might miss the time of a command: the next one has its whole time, and its answer counts.
    for _ in range(2):
        wait_in_vain()
        assert shell.run("sleep 0.4; echo here").stdout == "here\n"
    wait_in_vain()
    wait_in_vain()
    with pytest.raises(SshError):
        shell.run("sleep 0.4; echo here")


def test_a_node_in_doubt_is_silent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "SILENT_TIMEOUT_S", 0.1)
    shell = SshShell("pi", ["/bin/sh", "-c"])
    shell.doubt()
    with pytest.raises(SshError):
        shell.run("sleep 0.4; echo here")


def test_the_end_of_a_command_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Popen.wait would sleep between its looks at the process; only a process that has ended needs none.
    monkeypatch.setattr("subprocess.time.sleep", lambda seconds: pytest.fail(f"slept {seconds} s"))
    assert SshShell("pi", ["/bin/sh", "-c"]).run("sleep 0.2; echo here").stdout == "here\n"


# A login whose ~/.bashrc greets without a newline, and whose shell warns about the locale.
GREETING = """printf 'Welcome to pi4b-1!'; echo 'bash: warning: setlocale: LC_ALL: no such locale' >&2; eval "$1" """
GREETS = ["/bin/sh", "-c", GREETING, "sh"]


def test_what_the_login_prints_is_no_output_of_the_command(tmp_path: Path) -> None:
    shell = SshShell("pi", GREETS)
    assert shell.run("echo out; echo err >&2; exit 3") == Completed(3, "out\n", "err\n")
    assert shell.run("true") == Completed(0, "", "")
    assert shell.fetch("printf 'a\\0b'", 10.0) == b"a\0b"
    (tmp_path / "data").write_bytes(b"fed")
    with (tmp_path / "data").open("rb") as source:
        assert shell.feed("cat", source, 10.0).stdout == "fed"
    with pytest.raises(LabError, match="failed at pi: no such file"):
        shell.fetch("echo 'no such file' >&2; false", 10.0)


def test_a_process_of_a_login_that_prints_is_found_and_stopped() -> None:
    process = SshShell("pi", GREETS).spawn("echo begun; echo err >&2; sleep 60")
    seen: list[str] = []

    def printed() -> bool:
        seen.extend(process.lines())
        return bool(seen)

    assert Deadline(20.0).wait_until(printed)
    assert seen == ["begun"]
    done = process.stop()
    assert (done.stdout, done.stderr) == ("begun\n", "err\n")
    assert done.returncode != 0


def test_a_node_of_another_language_answers_in_english() -> None:
    shell = SshShell("pi", ["env", "LC_ALL=de_DE.UTF-8", "LANGUAGE=de", "/bin/sh", "-c"])
    assert shell.run("echo $LC_ALL; sh -c 'echo $LC_ALL'").stdout == "C\nC\n"
    process = shell.spawn("echo $LC_ALL")
    assert process.wait(20.0).stdout == "C\n"


def test_a_login_that_runs_no_command_says_why() -> None:
    nologin = ["/bin/sh", "-c", "echo This account is currently not available.; exit 1"]
    assert SshShell("pi", nologin).run("true").stdout == "This account is currently not available.\n"
    lost = ["/bin/sh", "-c", "echo 'ssh: connect to host pi: No route to host' >&2; exit 255"]
    with pytest.raises(SshError, match="the ssh connection to pi was lost: ssh: connect to host pi: No route to host"):
        SshShell("pi", lost).run("true")
