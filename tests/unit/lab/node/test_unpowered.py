"""A node that only its own system can reboot."""

from __future__ import annotations

import pytest

from pytest_pinet.catalogue.load import load
from pytest_pinet.errors import Where
from pytest_pinet.lab.node import kinds
from pytest_pinet.lab.node.kinds import UnpoweredSession
from pytest_pinet.lab.node.node_login import NoAnswer
from pytest_pinet.model.lab import Node
from tests.support.node_board import BOOT_S, Board


class SshBoard(Board):
    """A board with ssh and nothing else."""

    def __init__(self) -> None:
        super().__init__(True)
        self.has_login = self.has_power = False

    def await_boot(self) -> None:
        self.path = []


def test_the_wait_for_a_board_that_runs_no_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "boot_id", lambda _: None)
    node = Node("pi1", load().boards["pi4b"], "pi1", "pi1", (), Where("lab.yaml", 1), BOOT_S)
    session = UnpoweredSession(node, SshBoard())
    session._ending = "0123"
    with pytest.raises(NoAnswer) as caught:
        session._connect(0.1)
    assert caught.value.error.message == "pi1 takes ssh connections, but runs no command"
