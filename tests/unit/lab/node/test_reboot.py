"""A board is rebooted when the next boot answers, not when the old one stops to answer."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.catalogue.load import load
from pytest_pinet.errors import SshError, Where
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.node import node_session as module
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.lab import Node
from tests.support.link_stand_in import NoTarget


class Shell:
    """Answers with the next of these boot ids; None: the board does not answer."""

    def __init__(self, answers: list[str | None]) -> None:
        self.answers = answers
        self.requests: list[str] = []

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if "boot_id" not in command:
            self.requests.append(command)
            return Completed(0, "", "")
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            raise SshError("no answer", "")
        return Completed(0, answer, "")


class Session(NodeSession):
    """A session whose logins work at once. ``logins`` counts them."""

    record = None
    where_to_look = "look at the console"
    shell: Any = None

    def __init__(self, *answers: str | None) -> None:
        super().__init__(Node("pi", load().boards["pi4b"], "pi", "pi", (), Where("lab.yaml", 1), 60.0), NoTarget())
        self.shell = Shell(list(answers))
        self.logins = 0

    def hang(self) -> None:
        pass

    def await_boot(self) -> None:
        self.logins += 1


@pytest.mark.parametrize(
    ("answers", "logins"),
    [
        pytest.param(["old", None, "new"], 1, id="it goes down and comes up"),
        pytest.param(["old", None, "old", None, "new"], 2, id="busy, then it goes down and comes up"),
        # The login reaches the old boot, which ends before it answers.
        pytest.param(["old", None, None, None, "new"], 2, id="it takes a login while it goes down"),
    ],
)
def test_only_an_answer_of_the_next_boot_ends_the_wait(answers: list[str | None], logins: int) -> None:
    session = Session(*answers)
    session.reboot("reboot")
    assert session.logins == logins
    assert session.shell.answers == []
    assert len(session.shell.requests) == 1


def test_a_board_that_takes_logins_and_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LOGINS", 3)
    session = Session("old")
    with pytest.raises(SshError, match="pi takes ssh connections, but runs no command"):
        session.reboot("reboot")
    assert session.logins == 3


def test_a_board_whose_boot_is_unknown_is_not_rebooted() -> None:
    """Any later answer, also of the same boot, would look like that of the next boot."""
    session = Session(None, "old", "old")
    with pytest.raises(SshError, match="no answer"):
        session.reboot("reboot")
    assert session.shell.requests == []
