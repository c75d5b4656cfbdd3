"""A real network manager on an emulated board: the NIC that carries ssh is never taken from it.

NetworkManager and ifupdown are Debian's packages. Each also configures the NIC under test, and a Wi-Fi station on the
kernel's simulated radios.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.lab.link.end import End, read_surroundings
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Endpoint
from tests.support.emulated_gate import NEEDS, card_or_skip
from tests.support.managed_board import ManagedBoard, managed_board

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]


@pytest.fixture(scope="module", params=["NetworkManager", "ifupdown"])
def board(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedBoard]:
    with card_or_skip(), managed_board(tmp_path_factory.mktemp("managed"), request.param) as board:
        board.start_wifi()
        yield board


def test_the_interface_that_carries_ssh_is_never_taken(board: ManagedBoard) -> None:
    interface = SimpleNamespace(node="board", device="mgmt0", port=SimpleNamespace(port="p1", switch="sw1"))
    endpoint = cast(Endpoint, SimpleNamespace(interface=interface))
    around = read_surroundings(
        End(
            endpoint, cast(NodeSession, SimpleNamespace(facts={})), board.shell, ipaddress.IPv4Interface("192.0.2.1/24")
        )
    )
    assert around.carries_ssh
    assert around.holding is not None
    assert around.holding.manager == board.manager
    assert around.to_take is None
