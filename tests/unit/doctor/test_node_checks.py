"""The rights of the ssh user, and whether a board boots when its power returns."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.doctor.bench import Bench, Status
from pytest_pinet.doctor.node_checks import check_power_on, check_root
from pytest_pinet.execution.shell import Shell
from pytest_pinet.lab.ssh import SshShell
from tests.support.local_shell import LocalShell

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "PATH=/usr/bin:/bin", "/bin/sh", "-c"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")


def bench_of(shell: Shell) -> Bench:
    """Return the parts of a bench that these checks use, with one node."""
    node = SimpleNamespace(name="pi1")

    def in_parallel(look: object) -> object:
        return look(node)  # type: ignore[operator]

    return cast(Bench, SimpleNamespace(ready=[node], shell=lambda _: shell, in_parallel=in_parallel))


def shell_with(folder: Path, name: str, script: str) -> Shell:
    """Return a shell whose PATH begins with one more command."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return LocalShell("pi1", {"PATH": f"{folder}:/usr/bin:/bin"})


@needs_root
def test_root_needs_no_sudo() -> None:
    assert check_root(bench_of(LocalShell("pi1"))) == []


@needs_root
def test_a_user_without_sudo_is_a_fault() -> None:
    (finding,) = check_root(bench_of(SshShell("pi1", NOBODY)))
    assert finding.status is Status.WRONG
    assert finding.message.startswith("the ssh user of pi1 cannot become root: ")
    assert re.search("sudo: (not found|a password is required)", finding.message)
    assert finding.act.startswith("on pi1: sudo raspi-config nonint do_sudo_pass 1 (Raspberry Pi OS), or: ")


@pytest.mark.parametrize(
    ("line", "waits"),
    [("WAIT_FOR_POWER_BUTTON=1", True), ("WAIT_FOR_POWER_BUTTON=0", False), ("#WAIT_FOR_POWER_BUTTON=1", False)],
)
def test_a_board_that_waits_for_its_button_is_a_fault(tmp_path: Path, line: str, waits: bool) -> None:
    shell = shell_with(tmp_path, "rpi-eeprom-config", f"printf '[all]\nBOOT_UART=1\n{line}\n'")
    found = check_power_on(bench_of(shell))
    assert [finding.message for finding in found] == [
        "pi1 waits for its power button when its power returns (WAIT_FOR_POWER_BUTTON=1)"
    ] * waits


def test_a_board_without_a_boot_loader_to_ask_is_no_fault() -> None:
    assert check_power_on(bench_of(LocalShell("pi1"))) == []
