"""How long a command over ssh may take."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.lab import ssh
from pytest_pinet.lab.ssh import SshShell


def test_a_shell_with_patience_waits_longer() -> None:
    shell = SshShell("pi", ["/bin/sh", "-c"])
    with pytest.raises(SshError, match=r"pi did not answer over ssh within 0 s \(sleep 0\.5 \.\.\.\)"):
        shell.run("sleep 0.5", timeout_s=0.05)
    shell.patience = 200.0
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
