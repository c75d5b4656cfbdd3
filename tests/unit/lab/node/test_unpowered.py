"""A node that only its own system can reboot."""

from __future__ import annotations

import pytest

from pytest_pinet.catalogue.load import load
from pytest_pinet.errors import ShutdownError, Where
from pytest_pinet.lab.labgrid.ssh_driver import SshRefused
from pytest_pinet.lab.node.unpowered import UnpoweredSession
from pytest_pinet.model.lab import Node
from tests.unit.lab.node.test_node_session import BOOT_S, Board


def test_no_person_must_unplug_a_board_that_refuses_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: float) -> None:
        raise SshRefused("pi1: ssh refused pi@pi1: Permission denied (publickey).", "add the key on the node")

    board = Board(True)
    monkeypatch.setattr(board, "connect_alone", refuse)
    session = UnpoweredSession(
        Node("pi1", load().boards["pi4b"], "pi1", "pi1", (), Where("lab.yaml", 1), BOOT_S), board
    )
    said: list[str] = []
    session.announce = said.append
    with pytest.raises(ShutdownError, match=r"pi1 runs, but pinet cannot log in to reboot it: .*publickey") as caught:
        session.reset()
    assert caught.value.act == "add the key on the node"
    assert said == []
