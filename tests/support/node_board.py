"""A board without hardware: a node session switches it, logs in to it and halts it, and it logs what happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from labgrid.exceptions import NoDriverFoundError
from pexpect import TIMEOUT

from pytest_pinet.catalogue.load import load
from pytest_pinet.errors import SshError, Where
from pytest_pinet.execution.shell import Completed, as_root
from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.lab.labgrid.power import Power
from pytest_pinet.lab.node import shutdown
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.node.shutdown import COMMAND
from pytest_pinet.model.lab import Node
from tests.support.local_shell import LocalShell

BOOT_S = 60.0


class Answering(LocalShell):
    """Replaces the node over ssh: a shell without leftovers, until the node is requested to halt.

    No command uses the journal and the guards of this machine, which belong to other tests.
    """

    # The log of the board that was made last.
    log: ClassVar[list[str]] = []

    def __init__(self, name: str, *_: object) -> None:
        super().__init__(name)
        self._halted = False

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if command == as_root(COMMAND):
            self.log.append("halt")
            self._halted = True
            return Completed(0, "", "")
        if self._halted:
            raise SshError(f"the ssh connection to {self.name} was lost")
        return super().run(command.replace("/run/pytest-pinet", "/nonexistent"), timeout_s)


def replace_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use ``Answering`` as the shell of nodes, whose shutdown takes no time."""
    monkeypatch.setattr("pytest_pinet.lab.node.node_login.SshShell", Answering)
    for name in ("SILENT_S", "PROBE_S", "REST_S"):
        monkeypatch.setattr(shutdown, name, 0.0)


class Outlet:
    delay = 0.01

    def __init__(self, found: bool | None, log: list[str]) -> None:
        self._on, self._log = found, log

    def get(self) -> bool:
        if self._on is None:
            raise NotImplementedError
        return self._on

    def _switch(self, on: bool) -> None:
        self._log.append("on" if on else "off")
        self._on = None if self._on is None else on

    def on(self) -> None:
        self._switch(True)

    def off(self) -> None:
        self._switch(False)


class Board:
    """Replaces PiStrategy and its drivers. ``answers`` are the results of consecutive steps."""

    def __init__(self, found: bool | None, *answers: Exception | None) -> None:
        self.log = Answering.log = []
        self.timeouts: list[float] = []
        self.node_power = Power("pi1", Outlet(found, self.log))
        self._answers = list(answers)
        self.path: list[str] = []
        self.record: ConsoleRecord | None = None
        self.has_login = self.has_power = True
        self.up_s = float("inf")
        # How many logins on the console answer no command.
        self.going_down = 0
        # Whether it answers over ssh while its console is silent.
        self.answers_alone = False
        self.ssh = SimpleNamespace(
            username="", ssh_prefix=[], networkservice=SimpleNamespace(username="root", port=22, address="pi1")
        )

    def get_driver(self, name: object = None, **_: Any) -> Board:
        if name == "TFTPProviderDriver":
            raise NoDriverFoundError(f"no {name}")
        return self

    def _meet(self, timeout_s: float) -> None:
        self.path = ["somewhere"]
        self.timeouts.append(timeout_s)
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            raise answer

    def log_in(self, timeout_s: float, boot_timeout_s: float = 0.0) -> None:
        self._meet(timeout_s)

    def uptime_s(self) -> float:
        if self.going_down:
            self.going_down -= 1
            raise TIMEOUT("no answer")
        return self.up_s

    def await_boot(self) -> None:
        self.log.append("await boot")

    def run_on_console(self, command: str, timeout_s: float) -> tuple[int, str]:
        assert command == as_root(COMMAND)
        self.log.append("halt on the console")
        return 0, ""

    def open_console(self) -> None:
        pass

    def connect_alone(self, timeout_s: float) -> None:
        if not self.answers_alone:
            raise Exception("Timeout while waiting for ssh connection")

    def connect(self, timeout_s: float) -> None:
        self._meet(timeout_s)

    def force(self, state: str) -> None:
        self.path = [state]

    def switch_on(self) -> None:
        self.log.append("console")
        self.node_power.rest()
        self.node_power.switch(on=True)
        self.path = []

    def transition(self, state: str) -> None:
        assert state == "off"
        if self.path != ["off"]:
            self.path = ["off"]
            self.node_power.switch(on=False)

    def invalidate(self) -> None:
        self.path = []
        self.log.append("invalidate")

    def abandon(self) -> None:
        self.log.append("abandon")


def session(board: Board) -> NodeSession:
    node = Node("pi1", load().boards["pi4b"], "pi1", "pi1", (), Where("lab.yaml", 1), BOOT_S)
    return NodeSession(node, board)


def bring_up(board: Board) -> NodeSession:
    found = session(board)
    found.switch_on()
    found.log_in()
    return found
