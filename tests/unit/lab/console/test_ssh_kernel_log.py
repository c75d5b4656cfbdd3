"""Kernel messages of a node without a console, read over ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.lab.console.kernel_log import KernelEventKind
from pytest_pinet.lab.console.ssh_kernel_log import SshKernelLog
from tests.support.local_shell import LocalShell


def test_only_messages_since_the_start_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    (tmp_path / "dmesg").write_text(f"#!/bin/sh\ncat {log}\n")
    (tmp_path / "dmesg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    log.write_text("[    1.5] Internal error: Oops: 96000004 [#1] SMP\n[   12.250000] eth0: link is up\n")
    kernel = SshKernelLog("pi", LocalShell("pi"))
    kernel.look()
    assert not kernel.record.findings
    with log.open("a") as file:
        file.write("[  100.000001] Unable to handle kernel paging request at virtual address 0000\n")
    kernel.look()
    kernel.look()
    (found,) = kernel.record.findings
    assert (found.kind, found.node) == (KernelEventKind.OOPS, "pi")
    assert "[100.000001] Unable to handle kernel paging request" in str(found)
