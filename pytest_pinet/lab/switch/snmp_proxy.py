"""A way to an SNMP agent that only another machine can reach, mostly the host of labgrid's exporter.

ssh forwards TCP only, and SNMP uses UDP. So a small Python program on that machine sends and receives the datagrams,
which pass through the ssh connection, each after its length. Its first datagram is empty: it says that the program
runs. The program ends with the connection, and the connection with our process.
"""

from __future__ import annotations

import os
import select
import shlex
import socket
import struct
import subprocess
import threading
from contextlib import suppress

from pytest_pinet.errors import SshError, SwitchError, Where
from pytest_pinet.execution.shell import Spool
from pytest_pinet.lab.ssh import CONNECT_TIMEOUT_S, LOST_CONNECTION, STOP_TIMEOUT_S, ssh_words

_LARGEST = 65_535
_LENGTH = struct.Struct(">H")
# For every Python 3: the machine's system Python runs it.
_FAR_END = r"""
import os, select, socket, struct, sys
family, kind, _, _, agent = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), 0, socket.SOCK_DGRAM)[0]
agent_socket = socket.socket(family, kind)
agent_socket.connect(agent)
os.write(1, b"\0\0")
waiting = b""
while True:
    ready = select.select([0, agent_socket], [], [])[0]
    if 0 in ready:
        data = os.read(0, 65536)
        if not data:
            break
        waiting += data
        while len(waiting) > 1:
            end = 2 + struct.unpack(">H", waiting[:2])[0]
            if len(waiting) < end:
                break
            try:
                agent_socket.send(waiting[2:end])
            except OSError:
                pass
            waiting = waiting[end:]
    if agent_socket in ready:
        try:
            data = agent_socket.recv(65535)
        except OSError:
            continue
        os.write(1, struct.pack(">H", len(data)) + data)
"""


class SnmpProxy:
    """Makes the agent at ``host:port`` of the machine ``address`` (``ssh://user@host``) available on a local UDP port.

    ``where`` is the place of the switch ``name`` in the lab file.
    """

    def __init__(self, name: str, address: str, keyfile: str | None, agent: tuple[str, int], where: Where) -> None:
        self._name = name
        self._ssh = address
        self._keyfile = keyfile
        self._agent = agent
        self._where = where
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = Spool()
        self._pump: threading.Thread | None = None

    def __str__(self) -> str:
        return self._ssh

    def open(self) -> tuple[str, int]:
        """Connect, if necessary, and return the local address of the agent. Raises SshError, SwitchError."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.bind(("127.0.0.1", 0))
        if self._process is None or self._process.poll() is not None:
            self._disconnect()
            self._connect(self._socket)
        host, port = self._socket.getsockname()
        return str(host), int(port)

    def _connect(self, local: socket.socket) -> None:
        host, port = self._agent
        options, destination = ssh_words(self._ssh, self._keyfile)
        command = f"exec python3 -c {shlex.quote(_FAR_END)} {shlex.quote(host)} {port}"
        self._errors = Spool()
        process = self._process = subprocess.Popen(
            ["ssh", *options, *destination, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.fileno,
            start_new_session=True,
        )
        assert process.stdout is not None
        timeout_s = CONNECT_TIMEOUT_S + 3
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            self._disconnect()
            raise self._unreachable(f"no answer within {timeout_s} s")
        first = os.read(process.stdout.fileno(), _LENGTH.size)
        if first != _LENGTH.pack(0):
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            self.check()
            self._disconnect()
            raise self._unreachable(f"its login shell prints text before the command ({first!r} ...)")
        self._pump = threading.Thread(target=_pump, args=(local, process), name=f"SNMP of {self._name}", daemon=True)
        self._pump.start()

    def check(self) -> None:
        """Raise SshError if the connection has ended, and SwitchError if the program on the other machine has."""
        if self._process is None or self._process.poll() is None:
            return
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"exit status {self._process.returncode}"
        if self._process.returncode == LOST_CONNECTION:
            raise self._unreachable(why)
        raise SwitchError(
            f"the proxy {self._ssh} of switch {self._name} ended: {why}",
            f"check that python3 is installed there, and check the address of the switch in {self._where}",
        )

    def _unreachable(self, why: str) -> SshError:
        return SshError(
            f"no ssh connection to the proxy {self._ssh} of switch {self._name}: {why}",
            f"check `proxy:` and `keyfile:` of {self._name} in {self._where}",
        )

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self._disconnect()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _disconnect(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # The program on the other machine sees the end of its input, and ends.
            process.kill()
            process.wait()
        if self._pump is not None:
            self._pump.join()
            self._pump = None
        for stream in () if process is None else (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def _pump(local: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Move datagrams in both directions until the process ends its output. Only the first client is served."""
    assert process.stdin is not None
    assert process.stdout is not None
    far, client, waiting = process.stdout.fileno(), None, b""
    while True:
        ready = select.select([local.fileno(), far], [], [])[0]
        if local.fileno() in ready:
            with suppress(OSError, ValueError):
                data, sender = local.recvfrom(_LARGEST)
                client = client or sender
                if sender == client:
                    os.write(process.stdin.fileno(), _LENGTH.pack(len(data)) + data)
        if far in ready:
            data = os.read(far, _LARGEST)
            if not data:
                return
            waiting += data
            while len(waiting) >= _LENGTH.size:
                end = _LENGTH.size + _LENGTH.unpack_from(waiting)[0]
                if len(waiting) < end:
                    break
                if client is not None:
                    with suppress(OSError):
                        local.sendto(waiting[_LENGTH.size : end], client)
                waiting = waiting[end:]
