"""A switch made of a kernel bridge, in a network namespace."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pytest_pinet.errors import Where
from pytest_pinet.execution.shell import Completed, Process
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.linux import Bridges, LinuxSwitch
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.lab import Switch

IP = shutil.which("ip") or "/usr/sbin/ip"
_NUMBERS = itertools.count()
PORTS = ("p1", "p2", "p3", "p4")
CARRIER_S = 10.0


@dataclass
class NamespaceShell:
    """Runs commands in a network namespace and counts them in ``commands``."""

    name: str
    namespace: str
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})
    commands: int = 0

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        self.commands += 1
        argv = [IP, "netns", "exec", self.namespace, "/bin/sh", "-c", command]
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def spawn(self, command: str) -> Process:
        raise NotImplementedError


class LinuxBench:
    """A switch ``sw`` with ports p1 to p4 in its bridge br0, and a host h1 to h4 at each port (10.0.0.1 to 4)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shell = NamespaceShell("switch sw", f"pinet-{os.getpid()}-{next(_NUMBERS)}")
        self.lab_file = str(folder / "lab.yaml")

    def switch(self, **settings: str) -> Switch:
        return Switch("sw", "linux", PORTS, settings, Where(self.lab_file, 3))

    @property
    def journal(self) -> Journal:
        return Journal(self.lab_file, self.folder / "journal")

    def open(
        self, shell: NamespaceShell | None = None, journal: Journal | None = None, switch: Switch | None = None
    ) -> ManagedSwitch:
        switch = switch or self.switch()
        bridges = Bridges(switch.default_vlan, switch.settings.get("default_group", "br0"))
        return ManagedSwitch(switch, LinuxSwitch(switch, shell or self.shell, bridges), journal or self.journal)

    def sh(self, command: str) -> str:
        done = self.shell.run(command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def bridges(self) -> dict[str, str]:
        """Return the bridge of each port from sysfs; empty for none."""
        command = 'for p in p1 p2 p3 p4; do echo "$p $(basename "$(readlink /sys/class/net/$p/master)")"; done'
        return {line.split(" ")[0]: line.split(" ")[1] for line in self.sh(command).splitlines()}

    def is_up(self, port: str) -> bool:
        return bool(int(self.sh(f"cat /sys/class/net/{port}/flags"), 16) & 1)

    def all_bridges(self) -> list[str]:
        return sorted(self.sh("ls -d /sys/class/net/*/bridge | cut -d/ -f5").split())

    def reaches(self, host: int, other: int) -> bool:
        # After a link comes up, the kernel needs up to a second until it carries traffic.
        argv = [
            IP,
            "netns",
            "exec",
            self.host(host),
            "ping",
            "-n",
            "-q",
            "-c",
            "1",
            "-i",
            "0.2",
            "-w",
            "2",
            f"10.0.0.{other}",
        ]
        return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0

    def await_carriers(self) -> None:
        """Wait until the kernel has seen the carriers: snmpd keeps what it reads first for seconds."""
        deadline = time.monotonic() + CARRIER_S
        argv = [IP, "-n", self.shell.namespace, "-br", "link", "show", "master", "br0"]
        while subprocess.check_output(argv, text=True, timeout=10).count(" UP ") < len(PORTS):
            assert time.monotonic() < deadline, f"a port of the bridge has no carrier after {CARRIER_S:g} s"
            time.sleep(0.02)

    def host(self, number: int) -> str:
        return f"{self.shell.namespace}-h{number}"


def _ip(lines: Sequence[str]) -> None:
    subprocess.run([IP, "-batch", "-"], input="\n".join(lines), text=True, check=True, timeout=10)


@contextmanager
def linux_bench(folder: Path) -> Iterator[LinuxBench]:
    bench = LinuxBench(folder)
    namespace, hosts = bench.shell.namespace, [bench.host(number) for number in range(1, 5)]
    try:
        _ip([f"netns add {name}" for name in (namespace, *hosts)])
        for number, (port, host) in enumerate(zip(PORTS, hosts, strict=True), start=1):
            _ip([f"link add {port} netns {namespace} type veth peer name eth0 netns {host}"])
            for line in ("link set lo up", f"addr add 10.0.0.{number}/24 dev eth0", "link set eth0 up"):
                subprocess.run([IP, "-n", host, *line.split()], check=True, timeout=10)
        bench.sh("ip link add br0 type bridge && ip link set br0 up")
        for port in PORTS:
            bench.sh(f"ip link set {port} master br0 up")
        bench.await_carriers()
        yield bench
    finally:
        for name in (namespace, *hosts):
            subprocess.run([IP, "netns", "del", name], capture_output=True, timeout=10, check=False)
