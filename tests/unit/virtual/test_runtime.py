"""The directory of a virtual lab: one process at a time, even if another one removes it, and labs without a user."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.runtime import Runtime, await_ssh


def test_the_lock_works_while_other_processes_remove_the_directory(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "pinet" / "lab")
    inside: list[int] = []
    together: list[int] = []
    broken: list[BaseException] = []

    def lock_and_release() -> None:
        try:
            for _ in range(300):
                # No lab exists when the lock is released, so lock and directory are removed.
                with runtime.locked():
                    inside.append(1)
                    time.sleep(0)
                    together.append(len(inside))
                    inside.pop()
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=lock_and_release) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []
    assert set(together) == {1}
    assert not (tmp_path / "pinet").exists()


@pytest.fixture
def running(tmp_path: Path) -> Runtime:
    """A lab that pytest started, without a user."""
    runtime = Runtime(tmp_path / "pinet" / "lab")
    runtime.create()
    runtime.write_json("state.json", {"keep": False, "complete": True})
    return runtime


def test_nobody_can_join_a_lab_that_is_abandoned(running: Runtime) -> None:
    assert running.is_abandoned(last_look=False)
    assert running.read_json("state.json") == {"keep": False, "complete": True}
    assert running.is_abandoned(last_look=True)
    assert running.read_json("state.json") == {"keep": False, "complete": False}


def test_a_lab_with_a_user_is_not_abandoned(running: Runtime) -> None:
    with running.locked():
        user = running.join("a run")
    assert not running.is_abandoned(last_look=True)
    os.close(user)
    assert running.is_abandoned(last_look=True)


@pytest.mark.parametrize("state", [{"keep": True, "complete": True}, {"keep": False, "complete": False}])
def test_a_lab_that_pinet_lab_up_started_or_that_starts_is_not_abandoned(
    running: Runtime, state: dict[str, bool]
) -> None:
    running.write_json("state.json", state)
    assert not running.is_abandoned(last_look=True)


def test_a_lab_that_another_process_starts_or_stops_is_not_abandoned(running: Runtime) -> None:
    with running.locked():
        assert not running.is_abandoned(last_look=True)
    assert running.is_abandoned(last_look=False)


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
