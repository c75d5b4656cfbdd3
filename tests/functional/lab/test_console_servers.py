"""Consoles through ser2net, RFC 2217, labgrid's exporter, and ssh to the exporter's host."""

from __future__ import annotations

import os
import pty
import shutil
import socket
import subprocess
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from labgrid.util.ssh import sshmanager

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConsoleError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.virtual.namespaces import NetNamespace
from tests.support.board_stand_in import Board, Console
from tests.support.labgrid_server import SERVED, LabgridServer
from tests.support.ports import free_port
from tests.support.waiting import wait_until

SER2NET = shutil.which("ser2net", path=f"{os.environ['PATH']}:/usr/sbin")


class PtyConsole:
    """A board's console on the serial device ``path``. It is used like ``board_stand_in.Console``."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        # No echo of what the board prints.
        tty.setraw(self._slave, termios.TCSANOW)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)
        self.on_line: Callable[[bytes], None] = lambda _: None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        typed = b""
        while not self._over.wait(0.01):
            with suppress(BlockingIOError):
                typed += os.read(self._master, 4096)
            *lines, typed = typed.split(b"\n")
            for line in lines:
                self.on_line(line.rstrip())

    def say(self, text: str) -> None:
        # A UART loses output without a reader, too.
        with suppress(BlockingIOError):
            os.write(self._master, text.replace("\n", "\r\n").encode())

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)


@contextmanager
def ser2net(path: str, accepter: str) -> Iterator[int]:
    """Serve the device on loopback by this accepter; yield the port."""
    port = free_port()
    assert SER2NET is not None
    lines = [
        f"connection: &con01#  accepter: {accepter},127.0.0.1,{port}",
        f"  connector: serialdev(nouucplock=true),{path},115200n81,local",
    ]
    process = subprocess.Popen([SER2NET, "-d", "-n", *(word for line in lines for word in ("-Y", line))])

    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until("ser2net", listens)
        yield port
    finally:
        process.terminate()
        process.wait(10)


pytestmark = [
    # labgrid's log of serial lines fails on a console without output so far (KeyError in flush).
    pytest.mark.filterwarnings("ignore:unhandled exception during event notification"),
    pytest.mark.skipif(SER2NET is None, reason="ser2net is not installed"),
]
BOOT = "[    0.000000] Booting Linux on physical CPU 0x0\n[    1.100000] Run /sbin/init as init process\n"
ACCEPTERS = {"rfc2217": "telnet(rfc2217,mode=server),tcp", "raw": "tcp"}
LAB = """\
options:
  coordinator_address: '{address}'
imports: [pytest_pinet.lab.drivers]
targets:
  pi:
    resources:
      RemotePlace: {{name: pi6}}
    drivers:
      NetworkPowerDriver: {{delay: 0.2}}
      PiSerialDriver: {{}}
      PiShellDriver: {{prompt: 'root@pi1:~# ', login_prompt: ' login: ', username: root}}
      PiSSHDriver: {{keyfile: '{key}'}}
      PiStrategy: {{}}
pinet:
  switches:
    sw: {{backend: fixed, ports: [p1]}}
  nodes:
    pi:
      board: pi4b
      place: pi6
      boot_timeout: 30 s
      interfaces:
        onboard: {{port: sw/p1}}
"""
# The machines of the test: this one, and the exporter's.
HERE, THERE = "10.98.217.1", "10.98.217.2"


@pytest.mark.parametrize("protocol", ACCEPTERS)
def test_a_console_behind_ser2net(protocol: str) -> None:
    with ExitStack() as stack:
        console = PtyConsole()
        port = stack.enter_context(ser2net(console.path, ACCEPTERS[protocol]))
        board = Board([BOOT], console=console, server=(port, protocol))
        stack.callback(board.close)
        strategy = board.strategy
        strategy.transition("booted")
        assert strategy.record is not None
        assert "Run /sbin/init as init process" in strategy.record.tail()
        assert strategy.uptime_s() == 1000
        # The next user of the console.
        strategy.invalidate()
        strategy.log_in(20)
        console.say("\n[    5.0] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out\n")
        record = strategy.record
        wait_until("the finding", lambda: len(record.findings) == 2)


@pytest.mark.parametrize("protocol", ACCEPTERS)
def test_a_ser2net_that_ends_is_reported(protocol: str) -> None:
    with ExitStack() as stack:
        console = PtyConsole()
        with ser2net(console.path, ACCEPTERS[protocol]) as port:
            board = Board(console=console, server=(port, protocol))
            stack.callback(board.close)
            board.strategy.transition("booted")
        record = board.strategy.record
        assert record is not None
        wait_until("the loss", lambda: record.trouble)
        assert str(record.trouble).startswith("the console of pi1 was lost, and nothing is recorded since then: ")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabgridServer]:
    """Yield a running coordinator, which the exporter's machine can reach, too."""
    server = LabgridServer(tmp_path)
    try:
        yield server
    finally:
        server.stop()


def export(server: LabgridServer, board: Board, serial: str, ssh_port: int) -> None:
    """Write what the exporter serves for the board."""
    (server.folder / "exporter.yaml").write_text(
        f"{SERVED}:\n"
        f"  NetworkPowerPort: {{model: rest, host: '{board.pdu.host}', index: 1}}\n"
        f"  {serial}\n"
        f"  NetworkService: {{address: 127.0.0.1, port: {ssh_port}, username: root}}\n"
    )


def make_keys(folder: Path) -> Path:
    """Make the keys of a user and of a host; return the user's key."""
    for name in ("key", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True, timeout=20)
    return folder / "key"


def start_sshd(folder: Path, namespace: NetNamespace, addresses: list[str]) -> subprocess.Popen[bytes]:
    """Start sshd in the namespace, for the key of ``make_keys``."""
    Path("/run/sshd").mkdir(exist_ok=True)
    listen = "".join(f"ListenAddress {address}\n" for address in addresses)
    (folder / "sshd_config").write_text(
        f"{listen}HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\nStrictModes no\n"
        "UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
    )
    argv = ["nsenter", f"--net={namespace.path}", "/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "sshd.log").open("wb") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def connect_machines(namespace: NetNamespace) -> str:
    """Connect the exporter's machine, which is this namespace, to this machine; return the device of this machine."""
    mine, theirs = f"pinet-h{os.getpid() % 100000}", f"pinet-t{os.getpid() % 100000}"
    lines = [
        f"ip link add {mine} type veth peer name {theirs} netns {namespace.path}",
        f"ip addr add {HERE}/30 dev {mine}",
        f"ip link set {mine} up",
        f"nsenter --net={namespace.path} ip addr add {THERE}/30 dev {theirs}",
        f"nsenter --net={namespace.path} ip link set {theirs} up",
        f"nsenter --net={namespace.path} ip link set lo up",
    ]
    for line in lines:
        subprocess.run(line.split(), check=True, timeout=10)
    return mine


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.parametrize("kind", ["RawSerialPort", "NetworkSerialPort"])
def test_a_node_on_the_machine_of_an_isolated_exporter(
    server: LabgridServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The other machine offers console, power and ssh of the board on its own loopback only."""
    with ExitStack() as stack:
        there = NetNamespace()
        stack.callback(there.close)
        cable = connect_machines(there)
        stack.callback(subprocess.run, ["ip", "link", "del", cable], check=True, timeout=10)
        key = make_keys(tmp_path)
        # The sshd of the exporter's machine, and that of the board.
        sshd = start_sshd(tmp_path, there, [f"{THERE}:22", "127.0.0.1:2222"])
        stack.callback(sshd.wait, 10)
        stack.callback(sshd.terminate)
        # What a user has in ~/.ssh/config: labgrid connects to the name of the exporter's machine.
        (tmp_path / "config").write_text(
            f"Host *\n HostName {THERE}\n User root\n IdentityFile {key}\n UserKnownHostsFile {tmp_path}/known_hosts\n"
        )
        bin_folder = tmp_path / "bin"
        bin_folder.mkdir()
        (bin_folder / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {tmp_path}/config "$@"\n')
        (bin_folder / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
        stack.callback(sshmanager.close_all)

        with there.entered():
            console = PtyConsole() if kind == "RawSerialPort" else Console()
            board = Board([BOOT], console=console, server=(1, "raw"))
        stack.callback(board.close)
        if isinstance(console, PtyConsole):
            serial = f"RawSerialPort: {{port: {console.path}, speed: 115200}}"
        else:
            serial = f"NetworkSerialPort: {{host: 127.0.0.1, port: {console.port}, protocol: raw}}"
        export(server, board, serial, 2222)
        server.address = f"{HERE}:0"
        server.start()
        server.start_exporter("--isolated", prefix=["nsenter", f"--net={there.path}", "--"])

        session = open_session(server, key)
        stack.callback(session.close)
        node = session.lab.nodes["pi"]
        session.pool.leases.acquire([node.place], 20)
        found = NodeSession(node, session.pool._targets.make(node))
        # ssh refuses a machine that it does not know.
        known_hosts = tmp_path / "known_hosts"
        with pytest.raises(ConsoleError, match=r"-> check that `ssh \S+` works here without a question"):
            found.strategy.open_console()
        known_hosts.write_text(f"* {(tmp_path / 'host_key.pub').read_text()}")
        found.switch_on()
        assert board.pdu.log == ["on"]
        found._connect(Deadline(20))
        assert found.record is not None
        assert "Run /sbin/init as init process" in found.record.tail()
        # The board sees a connection on the loopback of the other machine.
        assert found.shell.run("echo $SSH_CONNECTION").stdout.split()[2:] == ["127.0.0.1", "2222"]
        found.strategy.invalidate()


def open_session(server: LabgridServer, key: Path) -> LabAccess:
    file = server.folder / "lab.yaml"
    file.write_text(LAB.format(address=server.address, key=key))
    return LabAccess(load(file), Identity.of_this_process("main"), 20, lambda _: None)


@pytest.mark.skipif(os.geteuid() != 0, reason="runs sshd")
def test_a_serial_device_of_an_exporter(server: LabgridServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        console = PtyConsole()
        board = Board([BOOT], console=console, server=(1, "raw"))
        stack.callback(board.close)
        export(server, board, f"RawSerialPort: {{port: {console.path}, speed: 115200}}", 1)
        server.start()
        server.start_exporter()
        session = open_session(server, make_keys(tmp_path))
        stack.callback(session.close)
        node = session.lab.nodes["pi"]
        session.pool.leases.acquire([node.place], 20)
        strategy = NodeSession(node, session.pool._targets.make(node)).strategy
        strategy.transition("booted")
        assert "Run /sbin/init as init process" in strategy.record.tail()
        strategy.invalidate()
