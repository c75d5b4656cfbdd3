"""How long a command over ssh may take."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.lab.ssh import SshShell


def test_a_shell_with_patience_waits_longer() -> None:
    shell = SshShell("pi", ["/bin/sh", "-c"])
    with pytest.raises(SshError, match=r"pi did not answer over ssh within 0 s \(sleep 0\.5 \.\.\.\)"):
        shell.run("sleep 0.5", timeout_s=0.05)
    shell.patience = 200.0
    assert shell.run("sleep 0.5; echo here", timeout_s=0.05).stdout == "here\n"
