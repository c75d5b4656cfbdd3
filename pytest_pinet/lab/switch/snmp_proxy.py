"""A way to an SNMP agent that only another machine can reach, mostly the host of labgrid's exporter.

ssh forwards TCP only, and SNMP uses UDP. So a small Python program on that machine sends and receives the datagrams,
which pass through the ssh connection, each after its length. The program ends with the connection.
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

from pytest_pinet.errors import SwitchError, Where
from pytest_pinet.execution.shell import Spool
from pytest_pinet.lab.ssh import SshConnection

_LARGEST = 65_535
_LENGTH = struct.Struct(">H")
# For every Python 3: the machine's system Python runs it.
_FAR_END = """\
import os, select, socket, struct, sys
family, kind, _, _, agent = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), 0, socket.SOCK_DGRAM)[0]
agent_socket = socket.socket(family, kind)
agent_socket.connect(agent)
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
        self._connection: SshConnection | None = None
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = Spool()
        self._pump: threading.Thread | None = None

    def __str__(self) -> str:
        return self._ssh

    def open(self) -> tuple[str, int]:
        """Connect, if that is necessary, and return the local address of the agent. Raises SshError."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.bind(("127.0.0.1", 0))
        if self._process is None or self._process.poll() is not None:
            self._disconnect()
            self._connect(self._socket)
        host, port = self._socket.getsockname()
        return str(host), int(port)

    def _connect(self, local: socket.socket) -> None:
        self._connection = SshConnection(f"the proxy of switch {self._name}", self._ssh, self._keyfile)
        host, port = self._agent
        command = f"exec python3 -c {shlex.quote(_FAR_END)} {shlex.quote(host)} {port}"
        self._errors = Spool()
        process = self._process = subprocess.Popen(
            [*self._connection.shell.argv, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.fileno,
            start_new_session=True,
        )
        self._pump = threading.Thread(target=_pump, args=(local, process), name=f"SNMP of {self._name}", daemon=True)
        self._pump.start()

    def check(self) -> None:
        """Raise SwitchError if the program on the other machine has ended."""
        if self._process is not None and self._process.poll() is not None:
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise SwitchError(
                f"the proxy {self._ssh} of switch {self._name} ended: "
                f"{lines[-1] if lines else f'exit status {self._process.returncode}'}",
                f"check that python3 is installed there, and check the address of the switch in {self._where}",
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
            # The input of the program on the other machine ends, and then the program ends.
            process.kill()
            process.wait()
        if self._pump is not None:
            self._pump.join()
            self._pump = None
        for stream in () if process is None else (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


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
