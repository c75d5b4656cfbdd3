"""Network namespaces as nodes, for tests of links without a lab."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field

from pytest_pinet.execution.shell import Completed, Process

IP = shutil.which("ip") or "/usr/sbin/ip"


def ip(command: str) -> None:
    """Run an ``ip`` command line on this machine."""
    subprocess.run([IP, *command.split()], check=True, timeout=10)


@dataclass
class NamespaceShell:
    """A node in a network namespace. ``before`` begins each command, such as a mount that this node sees only."""

    name: str
    namespace: str
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": os.environ["PATH"]})
    before: str = ""

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        done = subprocess.run(
            [IP, "netns", "exec", self.namespace, "/bin/sh", "-c", self.before + command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def spawn(self, command: str) -> Process:
        raise NotImplementedError

    def addresses(self) -> list[str]:
        return [line.split()[3] for line in self.run("ip -o -4 addr show dev eth0").stdout.splitlines()]
