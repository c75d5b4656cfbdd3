"""A stand-in for a switch's command line: two strict dialects, written from the vendors' manuals.

``cli_switch_terminal.py DIALECT STATE``: sshd runs it as ForceCommand on the terminal of the login. STATE is a JSON
file with ``ports``, ``vlans``, and planted ``faults`` (lists of commands to ``drop``, ``hang`` or ``lie`` at).
"""

from __future__ import annotations

import os
import sys
import termios
import time
import tty
from pathlib import Path

from tests.support.cli_switch_ios import Ios
from tests.support.cli_switch_routeros import RouterOs
from tests.support.cli_switch_state import faulty


class Terminal:
    """A raw terminal, because the switch echoes by itself. Enter is CR, LF or both."""

    def __init__(self) -> None:
        tty.setraw(0, termios.TCSANOW)
        self._pending = b""

    def write(self, text: str) -> None:
        data = text.replace("\n", "\r\n").encode()
        while data:
            data = data[os.write(1, data) :]

    def read_line(self) -> str:
        """Read one command and echo it."""
        typed = b""
        while True:
            if not self._pending:
                self._pending = os.read(0, 4096)
                if not self._pending:
                    raise SystemExit(0)
            char, self._pending = self._pending[:1], self._pending[1:]
            if char in b"\r\n":
                if char == b"\r" and self._pending[:1] == b"\n":
                    self._pending = self._pending[1:]
                return typed.decode()
            if char in b"\x00\x03":
                continue
            typed += char
            os.write(1, char)


def main() -> None:
    dialect, file = sys.argv[1], Path(sys.argv[2])
    terminal = Terminal()
    cli: Ios | RouterOs = Ios(file) if dialect == "ios" else RouterOs(file)
    terminal.write(cli.greeting)
    while True:
        terminal.write(cli.prompt)
        line = terminal.read_line()
        terminal.write(cli.echo(line))
        fault = faulty(file, line.strip())
        if fault == "drop":
            return
        if fault == "hang":
            time.sleep(600)
        answer = "" if fault == "lie" else cli.run(line)
        if answer is None:
            return
        terminal.write(answer)


if __name__ == "__main__":
    main()
