"""A board on a desk that boots from a folder: ssh is all that a lab file says of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.card_board import CardBoard, card_board

_LAB = """\
imports:
  - pytest_pinet.lab.drivers
targets:
  pi:
    resources:
      NetworkService: {{address: 127.0.0.1, port: {port}, username: root}}
    drivers:
      PiSSHDriver: {{keyfile: {key}}}
      PiStrategy: {{}}
pinet:
  switches:
    cable: {{backend: fixed, ports: [pi]}}
  nodes:
    pi: {{board: pi4b, boot_timeout: 6 s, interfaces: {{onboard: {{port: cable/pi}}}}}}
"""


def desk_file(folder: Path, board: CardBoard) -> Path:
    """Write the lab file, and return its path."""
    file = folder / "desk.yaml"
    file.write_text(_LAB.format(port=board.port, key=board.folder / "key"))
    return file


def lock_of(board: CardBoard) -> Path:
    return board.folder / "var/pinet-lease/lock"


@contextmanager
def obedient_board(folder: Path) -> Iterator[CardBoard]:
    """Yield a board that reboots whenever a command on it requests that."""
    over = threading.Event()

    def obey() -> None:
        while not over.wait(0.1):
            board.obey()

    with card_board(folder) as board:
        thread = threading.Thread(target=obey)
        thread.start()
        try:
            yield board
        finally:
            over.set()
            thread.join()
