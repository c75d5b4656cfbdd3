"""A running virtual lab, seen from outside: its network namespaces, its switch ports, and the power of its boards."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.namespaces import LinkInfo, Netlink, NetNamespace
from pytest_pinet.virtual.runtime import Runtime, ssh_command

LAB_FILE = Path(__file__).with_name("pair.yaml")
SWITCH = "sw1"
TIMEOUT_S = 30.0
# The board under test and its peer, and their addresses. pytest-pinet uses other addresses.
PAIR = (("dut", "onboard"), ("near", "fast"))
ADDRESSES = ("10.1.0.1", "10.1.0.2")


class Namespace(NetNamespace):
    """A namespace that another process made. Closing the descriptor does not end the namespace."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def run(self, *argv: str, text: str = "") -> str:
        """Run a command in the namespace. Raises LabError if the command fails."""
        words = ["nsenter", f"--net={self.path}", *argv]
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            raise LabError(f"`{' '.join(argv)}` failed: {done.stderr.strip()} {text}")
        return done.stdout

    def packets(self, device: str) -> tuple[int, int]:
        """Return how many packets a device of the namespace received and sent."""
        with self.entered():
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        fields = next(line for line in lines if line.split(":")[0].strip() == device).split(":")[1].split()
        return int(fields[1]), int(fields[9])


class Bench:
    """The running lab. It ends when no process uses it, also if this process is killed."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self._lab = load(file)
        self._use = launcher().use(self._lab, f"regressions-{os.getpid()}", lambda: None)
        self.runtime = Runtime.of(self.file)
        self._found: dict[str, tuple[int, Namespace]] = {}
        self._lock = threading.RLock()

    @property
    def gigabit(self) -> float:
        """The wire rate in bit/s of a link of 1 Gbit/s at the lab's scale."""
        return 1e9 * (self._lab.scale or 1.0)

    def close(self) -> None:
        for _, namespace in self._found.values():
            namespace.close()
        self._use.leave()

    @property
    def switch(self) -> Namespace:
        """The namespace of the switch. Board and product cannot undo what happens there."""
        found = self.namespace(SWITCH)
        if found is None:
            raise LabError(f"the process of {SWITCH} is not there", f"look at the logs in {self.runtime.path}")
        return found

    def namespace(self, name: str) -> Namespace | None:
        """Return the present namespace of a node or switch; None while it is off. Each boot makes a new one."""
        with self._lock:
            pid, namespace = self._found.get(name, (0, None))
            if pid and _names(pid, name):
                return namespace
            if namespace is not None:
                del self._found[name]
                namespace.close()
            for process in (self.runtime.read_json("machines.json") or {"processes": []})["processes"]:
                if _names(process["pid"], name):
                    found = Namespace(f"/proc/{process['pid']}/ns/net")
                    self._found[name] = (process["pid"], found)
                    return found
            return None

    def boot_of(self, name: str) -> int:
        """Return a number that differs for each boot of a node; 0 while it is off."""
        with self._lock:
            return self._found[name][0] if self.namespace(name) is not None else 0

    def port(self, node: str, interface: str = "onboard") -> str:
        """Return the switch port of an interface."""
        return next(i for i in self._lab.nodes[node].interfaces if i.name == interface).port.port

    def device(self, node: str, interface: str = "onboard") -> str:
        return next(i for i in self._lab.nodes[node].interfaces if i.name == interface).device

    def command_line(self, node: str) -> str | None:
        """Return the command line of the node's kernel as the node sees it; None before its start script has set it."""
        own, ours = Path("/proc/self/ns/mnt").readlink(), Path("/proc/cmdline").read_text()
        for process in (self.runtime.read_json("machines.json") or {"processes": []})["processes"]:
            # The first process of a node is in the mount namespace of this machine.
            folder = Path(f"/proc/{process['pid']}")
            if _names(process["pid"], node):
                with suppress(OSError):
                    if (folder / "ns/mnt").readlink() != own:
                        found = (folder / "root/proc/cmdline").read_text()
                        return None if found == ours else found
        return None

    def address(self, nodes: Sequence[tuple[str, str]] = PAIR) -> None:
        """Switch on the board and its peer, and give them addresses."""
        self.power(True, *(node for node, _ in nodes))
        for (node, interface), own in zip(nodes, ADDRESSES, strict=True):
            self.ssh(node, f"ip address replace {own}/24 dev {self.device(node, interface)}")

    @contextmanager
    def pinging(self, node: str = "near", every_s: float = 0.2) -> Iterator[None]:
        """Let the peer ping the board."""
        argv = ssh_command(self.file, node, [f"ping -n -i {every_s} {ADDRESSES[0]}"], 60)
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)

    def link(self, node: str, interface: str = "onboard") -> LinkInfo | None:
        """Return the state of a node's device; None while the node is off."""
        namespace = self.namespace(node)
        if namespace is None:
            return None
        netlink = Netlink(namespace)
        try:
            return netlink.links().get(self.device(node, interface))
        finally:
            netlink.close()

    def degrade(self, target: str, **faults: Any) -> None:
        """Do what `pinet lab degrade` does."""
        self.runtime.ask("degrade", target=target, **faults)

    def restore(self, target: str | None = None) -> None:
        """Do what `pinet lab restore` does."""
        self.runtime.ask("restore", target=target)

    def power(self, on: bool, *nodes: str) -> None:
        """Switch nodes by the PDU."""
        for node in nodes:
            index = list(self._lab.nodes).index(node) + 1
            ports = self.runtime.read_json("ports.json") or {}
            url = f"http://127.0.0.1:{ports['pdu']}/relay/{index}/value"
            urlopen(Request(url, data=b"1" if on else b"0", method="PUT"), timeout=TIMEOUT_S).close()

    def ssh(self, node: str, command: str, timeout_s: float = 120.0, boot_s: float = 60.0) -> str:
        """Run a shell command on a node and return its output, also if the command fails."""
        argv = ssh_command(self.file, node, [command], boot_s)
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False).stdout


@contextmanager
def running(file: Path = LAB_FILE) -> Iterator[Bench]:
    """Yield the running lab. It is whole at the end, and stops if no other process uses it."""
    bench = Bench(file)
    try:
        yield bench
    finally:
        try:
            bench.restore()
        finally:
            bench.close()


def _names(pid: int, name: str) -> bool:
    """Return whether a process belongs to the machine of this name."""
    try:
        return f"NAME={name}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@contextmanager
def repeated(step: Callable[[], object], every_s: float) -> Iterator[None]:
    """Repeat ``step`` in a thread. Its error is raised at the end: an injection must not fail in silence."""
    stop, errors = threading.Event(), []

    def loop() -> None:
        try:
            while not stop.wait(every_s):
                step()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT_S)
    if errors:
        raise LabError(f"an injection ended early: {errors[0]!r}") from errors[0]


def batch(lines: Sequence[str]) -> str:
    """Return the input of ``ip -batch`` or ``tc -batch``."""
    return "".join(f"{line}\n" for line in lines)
