"""The end of the relay at the machine that runs pytest: runs what a board requests on its peer."""

from __future__ import annotations

import base64
import binascii
import json
import re
import select
import shlex
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from pydantic import BaseModel, ValidationError

from pytest_pinet.errors import PinetError
from pytest_pinet.execution.shell import Completed, Shell, as_root
from pytest_pinet.execution.text import parse_json
from pytest_pinet.lab.ssh import LOST_CONNECTION, SshShell

# The program of the board, as `ssh` and `scp`.
PROGRAM = Path(__file__).with_name("board-ssh")
SOCKET = "peer.socket"
PUT_TIMEOUT_S = 120.0
_POLL_S = 0.05
_LARGEST = 2**26
# Where the selftests put helpers on the peer (drivers/net/lib/py/remote_ssh.py).
_THEIRS = re.compile(r"/tmp/[A-Za-z0-9]{6,20}")


class _RelayRequest(BaseModel):
    command: str = ""
    path: str = ""
    mode: int = 0o644
    data: str = ""


class PeerRelay:
    """Serves a socket on this machine. ``close`` ends all commands on the peer, and removes what was put there."""

    def __init__(self, peer: Shell) -> None:
        self._peer = peer
        self._folder = tempfile.TemporaryDirectory(prefix="pinet-relay-")
        self.path = Path(self._folder.name) / SOCKET
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.path))
        self._server.listen()
        self._closing = False
        self._put: dict[str, None] = {}
        self._threads: list[Thread] = []
        self._start(self._serve)

    def close(self) -> None:
        """End the relay. Raises PinetError if the peer does not answer."""
        self._closing = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join()
        self._folder.cleanup()
        if self._put:
            self._peer.run(as_root(f"rm -rf -- {shlex.join(self._put)}"))

    def _start(self, work: Callable[[], None]) -> None:
        thread = Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._start(lambda connection=connection: self._answer(connection))  # type: ignore[misc]

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                request = _RelayRequest.model_validate(parse_json(stream.readline(_LARGEST)))
                done = self._done(request, connection)
            except (ValidationError, ValueError, PinetError, OSError) as error:
                done = Completed(LOST_CONNECTION, "", f"{error}\n")
            reply = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
            with suppress(OSError):
                connection.sendall(json.dumps(reply).encode() + b"\n")

    def _done(self, request: _RelayRequest, connection: socket.socket) -> Completed:
        if request.path:
            return self._file(request)
        for folder in re.findall(rf"\bmkdir (?:-p )?({_THEIRS.pattern})\b", request.command):
            self._put[folder] = None
        process = self._peer.spawn(as_root(request.command))
        while process.poll() is None:
            if self._closing or _is_closed(connection):
                return process.stop()
            select.select([connection], [], [], _POLL_S)
        return process.wait(1.0)

    def _file(self, request: _RelayRequest) -> Completed:
        try:
            data = base64.b64decode(request.data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"the file is damaged ({error})") from None
        self._put[request.path] = None
        target = shlex.quote(request.path)
        return feed(self._peer, as_root(f"cat >{target} && chmod {request.mode & 0o777:o} {target}"), data)


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the board has ended its program: a selftest that ends its command on the peer kills ssh."""
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def feed(shell: Shell, command: str, source: bytes | Path) -> Completed:
    """Run a command with bytes or a file as its standard input. Raises SshError."""
    if isinstance(source, Path):
        if not isinstance(shell, SshShell):
            return shell.run(f"{{ {command}; }} <{shlex.quote(str(source))}", PUT_TIMEOUT_S)
        with source.open("rb") as file:
            return shell.feed(command, file, PUT_TIMEOUT_S)
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(source)
        copy.flush()
        return feed(shell, command, Path(copy.name))
