"""A stand-in for hardware on loopback: a PDU with an outlet (``rest``), and the serial console of its board."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from labgrid import Target, target_factory
from labgrid.driver import NetworkPowerDriver
from labgrid.resource import NetworkPowerPort, NetworkSerialPort, NetworkService

from pytest_pinet.lab.drivers import PiShellDriver, PiSSHDriver, PiStrategy


class Console:
    """A console server. ``say`` sends text to all clients; ``on_line`` receives each line that they send."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.clients: list[socket.socket] = []
        self.on_line: Callable[[bytes], None] = lambda _: None
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        # A closed listener raises OSError, or ValueError because of its number.
        with suppress(OSError, ValueError):
            while True:
                select.select([self._listener], [], [])
                self._accept_all()

    def _accept_all(self) -> None:
        """Accept all pending connections, however late this process notices them."""
        with self._lock:
            while select.select([self._listener], [], [], 0)[0]:
                client, _ = self._listener.accept()
                self.clients.append(client)
                threading.Thread(target=self._hear, args=[client], daemon=True).start()

    def _hear(self, client: socket.socket) -> None:
        with suppress(OSError), client.makefile("rb") as lines:
            for line in lines:
                self.on_line(line.rstrip())

    def say(self, text: str) -> None:
        self._accept_all()
        for client in self.clients:
            with suppress(OSError):
                client.sendall(text.replace("\n", "\r\n").encode())

    def hang_up(self) -> None:
        while self.clients:
            client = self.clients.pop()
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            client.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()


class Pdu:
    """A PDU with one outlet.

    If ``lies`` is set, it confirms and does nothing; if ``dead``, it connects and never answers.
    """

    def __init__(self, on_power: Callable[[bool], None]) -> None:
        self.on = False
        self.lies = self.dead = False
        self.log: list[str] = []
        self._over = threading.Event()
        pdu = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                self._answer("1" if pdu.on else "0")

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if not pdu.dead and not pdu.lies:
                    pdu.on = body == "1"
                    pdu.log.append("on" if pdu.on else "off")
                    on_power(pdu.on)
                self._answer(body)

            def _answer(self, text: str) -> None:
                if pdu.dead:
                    pdu._over.wait(60)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"http://127.0.0.1:{self._server.server_port}/relay/{{index}}"
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()


class Board:
    """A board that prints ``boots[0]``, ``boots[1]``, ... at each power-on, then a login prompt.

    A boot whose text contains a panic ends there. In a login, ``poweroff`` halts the board. ``strategy`` is the real
    one, on labgrid's own drivers where pytest-pinet has none. ``console`` is a Console or a PtyConsole, ``server`` the
    port and the protocol of a console server other than ``console`` itself.
    """

    def __init__(
        self,
        boots: Iterable[str] = (),
        serial_driver: str = "PiSerialDriver",
        console: Any = None,
        server: tuple[int, str] | None = None,
    ) -> None:
        self._boots = list(boots)
        self._alive = False
        # How often it was shut down.
        self.halts = 0
        self.console: Any = console or Console()
        self.console.on_line = self._typed
        self.pdu = Pdu(self._power)
        self.target = Target("pi1")
        NetworkPowerPort(self.target, None, model="rest", host=self.pdu.host, index=1)
        port, protocol = server or (self.console.port, "raw")
        NetworkSerialPort(self.target, None, host="127.0.0.1", port=port, protocol=protocol)
        NetworkService(self.target, None, address="127.0.0.1", port=1, username="root")
        NetworkPowerDriver(self.target, None, delay=0.2)
        make = target_factory.make_driver
        self.serial: Any = make(self.target, serial_driver, None, {})
        shell = {"prompt": r"root@pi1:~# ", "login_prompt": " login: ", "username": "root"}
        make(self.target, PiShellDriver.__name__, None, shell)
        make(self.target, PiSSHDriver.__name__, None, {})
        self.strategy: PiStrategy = make(self.target, PiStrategy.__name__, None, {})

    def _power(self, on: bool) -> None:
        self._alive = False
        if on:
            log = self._boots.pop(0) if self._boots else "[    0.000000] Booting Linux on physical CPU 0x0\n"
            self.console.say(log)
            if "panic" not in log and log:
                self.come_up()

    def come_up(self) -> None:
        self._alive = True
        self.console.say("pi1 login: ")

    def _typed(self, line: bytes) -> None:
        if not self._alive:
            return
        if line.startswith(b"MARKER="):
            self._run(line.decode())
        if not self._alive:
            return
        if line.startswith(b"echo "):
            self.console.say(line.decode().removeprefix("echo ").replace("'", "") + "\n")
        self.console.say("root@pi1:~# " if line else "pi1 login: ")

    def _run(self, line: str) -> None:
        """Answer a command of labgrid's ShellDriver."""
        marker = line.partition(" ")[0].removeprefix("MARKER=").replace("'", "")
        self.console.say(f"{marker}{'1000.00 4000.00' if 'uptime' in line else ''}\n{marker} 0\n")
        if "poweroff" in line:
            self.halts += 1
            self._alive = False
            self.console.say("root@pi1:~# \n[   42.000000] reboot: Power down\n")

    def close(self) -> None:
        self.target.cleanup()
        self.pdu.close()
        self.console.close()
