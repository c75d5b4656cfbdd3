"""The request for a trial boot by systemd's reboot: it is read back, and a reboot without the request is cancelled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.lab.deploy.boot import TRY_BY_SYSTEMD

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
# `systemctl reboot` of systemd 230 and later writes its argument to this file; logind reads it.
KEEPS = 'case "$*" in *--reboot-argument=*) echo "${3#*=}" > /run/systemd/reboot-param ;; esac'
SYSTEMCTL = """\
#!/bin/sh
echo "$*" >> {log}
{what}
"""
ASKED = "--no-block reboot --reboot-argument=0 tryboot"


def calls(tmp_path: Path, what: str, folder: str = "/") -> list[str]:
    """Return the calls of a systemctl which does ``what``, by the command that boots for a trial."""
    log, tool = tmp_path / "log", tmp_path / "systemctl"
    tool.write_text(SYSTEMCTL.format(log=log, what=what))
    tool.chmod(0o755)
    command = TRY_BY_SYSTEMD.format(folder=folder).replace("sleep 1; sync;", "")
    assert "sleep" not in command
    private = f"mount -t tmpfs none /run && mkdir /run/systemd && {{ {command}; }}"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["unshare", "-m", "sh", "-c", private], env=environment, timeout=20, check=False)
    return log.read_text().splitlines() if log.exists() else []


def test_a_request_that_systemd_keeps_boots_the_trial(tmp_path: Path) -> None:
    assert calls(tmp_path, KEEPS) == [ASKED]


@pytest.mark.parametrize("what", [":", KEEPS.replace("${3#*=}", "1")])
def test_a_reboot_without_the_request_is_cancelled(tmp_path: Path, what: str) -> None:
    # It would boot the known-good build, which would look like a build that falls back.
    assert calls(tmp_path, what) == [ASKED, "cancel"]


def test_no_reboot_is_requested_if_the_boot_files_are_gone(tmp_path: Path) -> None:
    assert calls(tmp_path, KEEPS, str(tmp_path / "gone")) == []
