"""Network namespaces as nodes, for tests of links without a lab."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass, field

from pytest_pinet.execution.shell import Completed
from tests.support.local_shell import LocalProcess

IP = shutil.which("ip") or "/usr/sbin/ip"
# Two boards, cabled directly: no switch can take a port down.
TWO_BOARDS = """\
pinet:
  name: two
  switches:
    sw1: {backend: fixed, ports: p1-p2}
  nodes:
    left:
      board: cm4
      interfaces: {pcie: {nic: aqc107, port: sw1/p1, device: eth0, driver: veth}}
    right:
      board: cm4
      interfaces: {pcie: {nic: aqc107, port: sw1/p2, device: eth0, driver: veth}}
"""


def ip(command: str) -> None:
    """Run an ``ip`` command line on this machine."""
    subprocess.run([IP, *command.split()], check=True, timeout=10)


@dataclass
class NamespaceShell:
    """A node in a network namespace.

    It has its own folder for journal and guard. Else another test, which leases this machine, would undo the changes
    of the node on this machine.
    """

    name: str
    namespace: str
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": os.environ["PATH"]})

    def __post_init__(self) -> None:
        self._run = tempfile.mkdtemp(prefix="pinet-run-")
        weakref.finalize(self, shutil.rmtree, self._run, ignore_errors=True)

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return self.spawn(command).wait(timeout_s)

    def spawn(self, command: str) -> LocalProcess:
        # The mount is that of this process only.
        own = f"mkdir -p /run/pytest-pinet && mount --bind {self._run} /run/pytest-pinet"
        words = [IP, "netns", "exec", self.namespace, "/bin/sh", "-c", f"{own} || exit 126; {command}"]
        return LocalProcess(f"exec {shlex.join(words)}", self.environment)

    def addresses(self) -> list[str]:
        return [line.split()[3] for line in self.run("ip -o -4 addr show dev eth0").stdout.splitlines()]
