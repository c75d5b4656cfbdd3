"""The host of an exporter in a namespace, with a real sshd: only it reaches the management network of a switch.

The runner's namespace has a cable to this host, and no route to the switch.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.execution.deadline import Deadline
from tests.support.linux_switch import IP, LinuxBench
from tests.support.snmpd_agent import inside
from tests.support.sshd_settings import sshd_settings

HOST, AGENT, PORT = "10.98.0.2", "10.99.0.2", 2222
_NO_PYTHON = "SetEnv PATH=/nonexistent\n"
_START = "mount --make-rprivate / && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && "
# The start-up files of this machine's root could set another PATH.
_HIDE_HOME = "mount -t tmpfs none /root && "
_SSHD_COMMAND = "exec /usr/sbin/sshd -D -e -f "


@dataclass(frozen=True)
class ExporterHost:
    """``namespace`` is the host's; ``address`` and ``keyfile`` are for ssh from the runner's namespace."""

    namespace: str
    runner: str
    keyfile: str
    address: str = f"ssh://root@{HOST}:{PORT}"

    def commands(self) -> dict[int, str]:
        """Return the command lines of the processes in the host's namespace, without sshd's own."""
        done = subprocess.run([IP, "netns", "pids", self.namespace], capture_output=True, text=True, check=True)
        found = {int(pid): _command(int(pid)) for pid in done.stdout.split()}
        return {pid: command for pid, command in found.items() if command and "sshd" not in command}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@contextmanager
def exporter_host(bench: LinuxBench, python: bool = True) -> Iterator[ExporterHost]:
    """Yield the host beside a switch, with this thread in the runner's namespace. ``python``: python3 is installed."""
    folder = bench.folder / "exporter"
    folder.mkdir()
    switch = bench.shell.namespace
    host, runner = f"{switch}-exp", f"{switch}-run"
    (folder / "sshd_config").write_text(sshd_settings(folder, HOST, PORT) + _NO_PYTHON * (not python))
    lines = [
        f"netns add {host}",
        f"netns add {runner}",
        f"link add up0 netns {runner} type veth peer name up0 netns {host}",
        f"link add mgmt0 netns {host} type veth peer name mgmt0 netns {switch}",
    ]
    addresses = [
        (runner, "up0", "10.98.0.1/30"),
        (host, "up0", f"{HOST}/30"),
        (host, "mgmt0", "10.99.0.1/30"),
        (switch, "mgmt0", f"{AGENT}/30"),
    ]
    server = None
    try:
        subprocess.run([IP, "-batch", "-"], input="\n".join(lines), text=True, check=True, timeout=10)
        for namespace, device, address in addresses:
            for line in ("link set lo up", f"addr add {address} dev {device}", f"link set {device} up"):
                subprocess.run([IP, "-n", namespace, *line.split()], check=True, timeout=10)
        with (folder / "log").open("wb") as log:
            start = f"{_START}{_HIDE_HOME * (not python)}{_SSHD_COMMAND}{folder}/sshd_config"
            enter = [IP, "netns", "exec", host, "unshare", "--mount", "sh", "-c", start]
            server = subprocess.Popen(enter, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ready = Deadline(20).wait_until(lambda: "Server listening" in (folder / "log").read_text(errors="replace"))
        assert ready, (folder / "log").read_text()
        with inside(runner):
            yield ExporterHost(host, runner, str(folder / "key"))
    finally:
        if server is not None:
            server.terminate()
            server.wait(10)
        for name in (host, runner):
            subprocess.run([IP, "netns", "del", name], capture_output=True, timeout=10, check=False)
