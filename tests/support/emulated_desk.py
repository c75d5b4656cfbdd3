"""Emulated boards as the user of a desk sees them: an address, a user and a key, and `pinet` in a folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from pytest_pinet.lab.deploy.trial import PATH
from tests.support.emulated_gate import BOOT_S, card_or_skip
from tests.support.gate_project import PINET, GateLab, Project, lab_up
from tests.support.user_command import run_command
from tests.support.waiting import wait_until

# All that a trial may leave on a board.
_OURS = f"{PATH} /var/lib/pinet-lease/lock /boot/firmware/tryboot.txt /boot/firmware/pytest-pinet"

# What must not be wrong on any bench. A busy machine may disturb the noise of the links and the clock.
CHECKS = ("lab file", "places free", "ssh", "root rights", "management", "iperf3 versions", "board and NIC")


class EmulatedDesk:
    """The boards of a running lab. Its switch, power and consoles are hidden from `pinet`."""

    def __init__(self, lab: GateLab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        # Gates run in the same folder.
        self.project = Project(folder, lab)
        self.ports = {node["name"]: node["ssh"] for node in lab.status()["nodes"]}
        wrapper = folder / "bin" / "ssh"
        wrapper.parent.mkdir()
        options = f"-F none -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={folder}/known_hosts"
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh {options} "$@"\n')
        wrapper.chmod(0o755)
        self.environment = self.project.environment(PATH=f"{folder}/bin:{os.environ['PATH']}")

    def login(self, node: str, user: str) -> str:
        return f"{user}@127.0.0.1:{self.ports[node]}"

    def init(self, node: str, user: str, speed: str) -> Path:
        """Write the lab file of this board and the peer by ``pinet init``. ``speed`` is that of their link."""
        peer = self.lab.execute("peer", "uname", "-n").strip().lower()
        keyfile = self.lab.environment["LG_KEYFILE"]
        words = ["--peer", self.login("peer", "root"), "-i", keyfile, "--interface", f"{peer}=eth0", "--speed", speed]
        words += ["--interface", f"{node}=eth0", "--name", node]
        done = self.pinet("init", self.login(node, user), *words)
        assert done.returncode == 0
        assert done.stderr.count("->") == 0
        return self.folder / f"{node}.yaml"

    def doctor(self, file: Path) -> list[str]:
        """Run ``pinet check`` and ``pinet doctor``; return the messages of all checks but the noisy ones."""
        assert self.pinet("check", str(file)).returncode == 0
        found = json.loads(self.pinet("doctor", "--lab", str(file), "--json").stdout)
        assert {one["check"] for one in found} >= set(CHECKS)
        assert [one for one in found if one["status"] == "wrong" and one["check"] in CHECKS] == []
        return [one["message"] for one in found]

    def pinet(self, *words: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        return run_command([PINET, *words], self.folder, self.environment, timeout_s)

    def gate(self, build: str, file: Path, *words: str) -> tuple[int, str]:
        """Return the exit code of a gate, and its output as one line."""
        done = self.pinet("gate", build, f"--lab={file}", *words, timeout_s=900)
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@contextmanager
def emulated_desk(tmp_path_factory: pytest.TempPathFactory, text: str, *nodes: str) -> Iterator[EmulatedDesk]:
    """Yield the desk of a lab with this lab file, in which these nodes have booted."""
    with card_or_skip(), lab_up(tmp_path_factory.mktemp("hidden") / "lab.yaml", text) as lab:
        lab.switch_power(True, *nodes)
        for node in nodes:
            wait_until(f"the boot of {node}", partial(lab.answers, node), BOOT_S)
        yield EmulatedDesk(lab, tmp_path_factory.mktemp("desk"))


def is_as_found(lab: GateLab, board: str) -> bool:
    """Wait until the board runs its known-good build, without lock, guard or boot file of ours.

    A board that is given back with a build under test reboots then, and no process waits for that.
    """

    def found() -> bool:
        try:
            seen = lab.execute(board, f"cat /proc/cmdline; ls {_OURS} 2>/dev/null; true")
        except AssertionError:
            # No answer: it still boots.
            return False
        return seen.strip().endswith("rootwait")

    wait_until("the known-good build", found, 240.0)
    return True
