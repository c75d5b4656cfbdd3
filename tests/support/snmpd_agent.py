"""net-snmp's own agent in the namespace of a Linux bridge: it knows the switch's ports, but no VLANs.

Debian's ``snmp-bridge-mib`` adds bridge tables that accept changes without any effect.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.errors import Where
from pytest_pinet.lab.switch import snmp
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.lab import Switch
from tests.support.linux_switch import IP, LinuxBench

SNMPD = shutil.which("snmpd", path=f"{os.environ['PATH']}:/usr/sbin") or ""
_BRIDGE_MIB = shutil.which("snmp-bridge-mib") or ""
# Debian's snmpd includes it, but only recommends its dependency libsnmp-perl.
_PERL_AGENT = _BRIDGE_MIB and subprocess.run(["perl", "-MNetSNMP::OID", "-e", "1"], capture_output=True, check=False)
BRIDGE_MIB = _BRIDGE_MIB if _PERL_AGENT and _PERL_AGENT.returncode == 0 else ""
PORT = 1161
# The settings of a user who may set all.
V3 = {"version": "3", "user": "pinet", "auth_key": "authentic-key", "priv_key": "private-key-of-it"}
TABLES_AGENT = Path(__file__).with_name("snmp_tables_agent.py")
BRIDGE_AND_POE = (".1.3.6.1.2.1.17", ".1.3.6.1.2.1.105")
# Octets that came in and went out, and the speed.
COUNTERS = tuple(f".1.3.6.1.2.1.31.1.1.1.{column}" for column in (6, 10, 15))
_CLONE_NEWNET = 0x40000000
CONFIGURATION = """\
agentAddress udp:{port},udp:161
rwcommunity private default .1.3.6.1.2.1.105.1.1.1.3
rwcommunity writes
rocommunity reads
createUser pinet SHA-256 authentic-key AES private-key-of-it
rwuser pinet priv
createUser reader SHA-256 authentic-key AES private-key-of-it
rouser reader priv
master agentx
agentXSocket tcp:127.0.0.1:1705
"""


def passed(command: str, mode: str, tables: Iterable[str]) -> str:
    """Return the lines of snmpd.conf that let ``snmp_tables_agent`` answer for these tables, one process for each."""
    return "".join(f"pass_persist {table} {command} {table} {mode}\n" for table in tables)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Switch this thread to a network namespace, for the sockets that it creates."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as own, Path(f"/run/netns/{namespace}").open("rb") as other:
        if libc.setns(other.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            libc.setns(own.fileno(), _CLONE_NEWNET)


@contextmanager
def agent(bench: LinuxBench, vlans: str | None = None) -> Iterator[None]:
    """Run snmpd, with this thread in its namespace.

    ``vlans``: ``debian`` adds the tables of snmp-bridge-mib; another word is a mode of ``snmp_tables_agent``.
    """
    folder = bench.folder / "snmp"
    folder.mkdir()
    tables = BRIDGE_AND_POE + (COUNTERS if vlans == "stale" else ())
    added = "" if vlans in (None, "debian") else passed(f"{sys.executable} {TABLES_AGENT}", vlans, tables)
    (folder / "snmpd.conf").write_text(CONFIGURATION.format(port=PORT) + added)
    (folder / "dot1qbridge.conf").write_text("agentXSocket tcp:127.0.0.1:1705\n")
    environment = {**os.environ, "MIBS": "", "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder / "kept")}
    bench.sh("ip link set lo up")
    enter = [IP, "netns", "exec", bench.shell.namespace]
    commands = [[SNMPD, "-C", "-c", str(folder / "snmpd.conf"), "-f", "-LE", "4", "-Lf", str(folder / "log")]]
    commands += [[BRIDGE_MIB, "br0"]] if vlans == "debian" else []
    running = []
    try:
        with inside(bench.shell.namespace):
            for command, answers in zip(commands, ("1.3.6.1.2.1.1.3.0", "1.3.6.1.2.1.17.1.2"), strict=False):
                with (folder / "output").open("ab") as output:
                    running.append(subprocess.Popen([*enter, *command], env=environment, stdout=output, stderr=output))
                _await(answers, folder / "output")
            yield
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()


def received_sets(bench: LinuxBench) -> list[tuple[float, str, str]]:
    """Return the time, the object and the value of each set that the agent's tables received."""
    file = bench.folder / "snmp" / "sets"
    lines = [line.split(" ", 3) for line in file.read_text().splitlines()] if file.exists() else []
    return [(float(when), oid, value) for when, oid, _, value in lines]


def _await(oid: str, log: Path) -> None:
    command = ["snmpget", "-v2c", "-creads", "-r0", "-t1", "-Oqv", f"127.0.0.1:{PORT}", oid]
    end = time.monotonic() + 60
    while True:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        if done.returncode == 0 and done.stdout.strip() and "No Such" not in done.stdout:
            return
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def switch_of(bench: LinuxBench, ports: tuple[str, ...] = ("p1", "p2", "p3", "p4"), /, **settings: str) -> Switch:
    found: Mapping[str, str] = {"address": f"snmp://127.0.0.1:{PORT}", "timeout": "1 s", **settings}
    return Switch("sw", "snmp", ports, found, Where(bench.lab_file, 3))


@contextmanager
def managed(switch: Switch, bench: LinuxBench) -> Iterator[ManagedSwitch]:
    found = ManagedSwitch(switch, snmp.connect(switch, switch.settings), bench.journal)
    try:
        yield found
    finally:
        found.close()
