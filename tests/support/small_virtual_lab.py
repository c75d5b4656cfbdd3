"""A small virtual lab for the tests of ``pytest_pinet.virtual``."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from pytest_pinet.config.labfile import load
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.container import ProcessId
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import Runtime, ssh_command
from tests.support.waiting import wait_until

# Slow links that even a busy machine can fill. `Bench.iperf` returns goodput at full rate, as everywhere.
SCALE = 0.1
# Goodput of a 100 Mbit/s link. On a busy machine a link carries less, but never more: half a rate is another rate.
# tests/soak/test_accuracy.py has the accuracy.
FULL_MBPS = 94.1
LEAST, MOST = 0.65, 1.1
# On a busy machine, an emulated board needs seconds to greet. Clients that leave earlier and return keep it busy.
BOARD_ANSWER_S = 20.0
LAB_FILE = f"""\
pinet:
  name: functional
  launcher: virtual
  scale: {SCALE}
"""
LAB_FILE += """\
  switches:
    sw-1: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: p1-p6}
  nodes:
    left:
      board: pi3b
      interfaces:
        onboard: {port: sw-1/p1}
    right:
      board: pi3b
      interfaces:
        onboard: {port: sw-1/p2}
    both:
      board: pi4b
      interfaces:
        onboard: {port: sw-1/p3}
        usb: {nic: ax88179, port: sw-1/p4}
"""


def small_lab(folder: Path, text: str = LAB_FILE) -> Lab:
    """Write a lab file into this folder and return its lab."""
    file = folder / "lab.yaml"
    file.write_text(text)
    return load(file)


def processes(lab: Lab) -> dict[str, ProcessId]:
    """Return the processes of coordinator, exporter and daemon."""
    state = Runtime.of(lab.file).read_json("state.json")
    assert state is not None
    return {name: ProcessId(**value) for name, value in state["processes"].items()}


def host_devices() -> dict[str, str]:
    """Return the address of each network device of this machine."""
    found = {}
    for path in Path("/sys/class/net").iterdir():
        if (path / "address").is_file():
            found[path.name] = (path / "address").read_text().strip()
    return found


class Bench:
    """A running lab with the operations that tests need."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.runtime = Runtime.of(lab.file)
        self.host_devices = host_devices()
        self.environment = dict(launcher().up(lab))

    def ports(self) -> dict[str, Any]:
        ports = self.runtime.read_json("ports.json")
        assert ports is not None
        return ports

    def outlet(self, node: str, value: str | None = None) -> str:
        index = list(self.lab.nodes).index(node) + 1
        url = f"http://127.0.0.1:{self.ports()['pdu']}/relay/{index}/value"
        data = value.encode() if value is not None else None
        with urlopen(Request(url, data=data, method="PUT" if data else "GET"), timeout=20) as answer:
            return str(answer.read().decode())

    def ssh(self, node: str, command: str, timeout_s: float = 60.0) -> str:
        # A limit for hangs only: on a busy machine, a login on an emulated board takes 10 s or more.
        argv = ssh_command(self.lab.file, node, [command])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        assert done.returncode == 0, f"{node}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def boot(self, *nodes: str) -> None:
        for node in nodes:
            self.outlet(node, "1")
        for node in nodes:
            wait_until(f"ssh of {node}", lambda node=node: self.answers(node))  # type: ignore[misc]

    def answers(self, node: str, timeout_s: float = 0.5) -> bool:
        """Return whether sshd of the node greets in time. Give an emulated board ``BOARD_ANSWER_S``."""
        try:
            with socket.create_connection(("127.0.0.1", self.ports()["nodes"][node]["ssh"]), timeout_s) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def switch(self, command: str, name: str = "SW_1") -> str:
        address = self.environment[f"LG_SWITCH_{name}"].removeprefix("ssh://root@127.0.0.1:")
        argv = ["ssh", "-F", "none", "-i", self.environment["LG_KEYFILE"], "-p", address]
        argv += ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
        return subprocess.run(
            [*argv, "root@127.0.0.1", command], capture_output=True, text=True, timeout=20, check=True
        ).stdout

    def carrier(self, port: str) -> bool:
        return self.switch(f"cat /sys/class/net/{port}/carrier").strip() == "1"

    def node_carrier(self, node: str) -> bool:
        return self.ssh(node, "cat /sys/class/net/eth0/carrier").strip() == "1"

    def degrade(self, target: str, **faults: Any) -> None:
        self.runtime.ask("degrade", target=target, **faults)

    def restore(self, target: str | None = None) -> None:
        self.runtime.ask("restore", target=target)

    def connect_pair(self) -> None:
        """Boot left (port 1) and right (port 2), and give them addresses."""
        self.boot("left", "right")
        self.ssh("left", "ip addr replace 10.1.0.1/24 dev eth0")
        self.ssh("right", "ip addr replace 10.1.0.2/24 dev eth0")
        wait_until("right to answer", self.pings)

    def pings(self, target: str = "right") -> bool:
        address = {"right": "10.1.0.2", "left": "10.1.0.1"}[target]
        source = {"right": "left", "left": "right"}[target]
        argv = ssh_command(self.lab.file, source, [f"ping -c1 -W1 {address}"])
        return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0

    def serve_iperf(self, node: str = "right", options: str = "-B 10.1.0.2") -> None:
        """Start an iperf3 server for one client."""
        self.ssh(node, f"iperf3 -s -1 -D {options}; timeout 20 sh -c 'until ss -ltn | grep -q :5201; do :; done'")

    def iperf(self, options: str = "") -> dict[str, Any]:
        """Run iperf3 from left to right. Return Mbit/s at full rate, bytes at the receiver, and retransmits."""
        self.serve_iperf()
        end = json.loads(self.ssh("left", f"iperf3 -c 10.1.0.2 -t 2 -C cubic -J {options}"))["end"]
        received = end["sum_received"]
        return {
            "mbps": received["bits_per_second"] / 1e6 / SCALE,
            "bytes": received["bytes"],
            "lost": end["sum_sent"].get("retransmits", 0),
        }


@contextmanager
def bench_up(folder: Path, text: str = LAB_FILE) -> Iterator[Bench]:
    """Write a lab file into this folder and yield its running lab."""
    lab = small_lab(folder, text)
    try:
        yield Bench(lab)
    finally:
        launcher().down(lab)


def console(bench: Bench, node: str) -> socket.socket:
    """Open the serial console as a user."""
    sock = socket.create_connection(("127.0.0.1", bench.ports()["nodes"][node]["console"]), timeout=60)
    sock.settimeout(20)
    return sock


def log_in(sock: socket.socket, password: str) -> None:
    """Enter user name and password. The login prompt must be visible already."""
    sock.sendall(b"root\n")
    expect(sock, rb"Password: $")
    sock.sendall(password.encode() + b"\n")


def expect(sock: socket.socket, pattern: bytes) -> bytes:
    """Read until the pattern appears."""
    seen = b""
    while re.search(pattern, seen) is None:
        try:
            chunk = sock.recv(4096)
        except TimeoutError:
            raise AssertionError(f"the console did not show {pattern!r} but {seen!r}") from None
        assert chunk, f"the console closed after {seen!r}"
        seen += chunk
    return seen
