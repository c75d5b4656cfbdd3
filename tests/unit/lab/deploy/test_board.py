"""A board is rebooted when the next boot answers, not when the old one stops to answer."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy import board as module
from pytest_pinet.lab.deploy.board import LeasedBoard


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


class Session:
    """A session whose logins work at once. ``logins`` counts them."""

    record = None
    boots = has_power = True
    where_to_look = "look at the console"

    def __init__(self, *answers: str | None) -> None:
        self.shell = Shell(list(answers))
        self.logins = 0
        self.node: Any = type("Node", (), {"name": "pi", "boot_timeout_s": 60.0, "board": type("B", (), {"name": "x"})})
        self.driver = self.reset = self.hang = lambda *_: None

    def await_boot(self) -> None:
        self.logins += 1


def board_of(session: Session) -> LeasedBoard:
    return LeasedBoard(session)  # type: ignore[arg-type]  # only what a reboot needs


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
    board_of(session).reboot("reboot")
    assert session.logins == logins
    assert session.shell.answers == []
    assert len(session.shell.requests) == 1


def test_a_board_that_takes_logins_and_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LOGINS", 3)
    session = Session("old")
    with pytest.raises(SshError, match="pi takes ssh connections, but runs no command"):
        board_of(session).reboot("reboot")
    assert session.logins == 3


def test_a_board_whose_boot_is_unknown_is_not_rebooted() -> None:
    """Any later answer, also of the same boot, would look like that of the next boot."""
    session = Session(None, "old", "old")
    with pytest.raises(SshError, match="no answer"):
        board_of(session).reboot("reboot")
    assert session.shell.requests == []
