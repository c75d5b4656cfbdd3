"""The wait of ``pinet lab exec`` for a board that boots, with a socket in place of its sshd."""

from __future__ import annotations

import socket
import threading

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.status import await_ssh


def test_a_board_that_boots_is_awaited() -> None:
    """As the daemon does: it accepts connections, and closes them until sshd runs."""
    asked: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while len(asked) < 3:
                connection, _ = server.accept()
                with connection:
                    asked.append(len(asked))
                    if len(asked) == 3:
                        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        await_ssh("pi4b-1", server.getsockname()[1], 30)
        thread.join(30)
    assert len(asked) == 3


def test_a_board_that_does_not_boot_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(LabError, match=r"^pi4b-1 is switched on, but did not answer over ssh within 0 s\n  -> look at"):
        await_ssh("pi4b-1", port, 0.2)
