"""Exceptions of labgrid's drivers during activation become errors that say who must act."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from labgrid import Target, target_factory
from labgrid.driver import NetworkPowerDriver, SerialDriver
from labgrid.resource import NetworkPowerPort, NetworkSerialPort, NetworkService

from pytest_pinet.errors import ConsoleError, PowerError
from pytest_pinet.lab.drivers import PiShellDriver, PiSSHDriver, PiStrategy


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def board(closed_port: int) -> Iterator[PiStrategy]:
    """Yield a target whose console server does not exist."""
    target = Target("pi1")
    NetworkPowerPort(target, None, model="rest", host=f"http://127.0.0.1:{closed_port}/", index=1)
    NetworkSerialPort(target, None, host="127.0.0.1", port=closed_port, protocol="raw")
    NetworkService(target, None, address="127.0.0.1", username="root")
    NetworkPowerDriver(target, None)
    SerialDriver(target, None)
    make = target_factory.make_driver
    make(target, PiShellDriver.__name__, None, {"prompt": "# ", "login_prompt": " login: ", "username": "root"})
    make(target, PiSSHDriver.__name__, None, {})
    yield make(target, PiStrategy.__name__, None, {})
    target.cleanup()


def test_a_refusing_console_server_is_named(board: PiStrategy, closed_port: int) -> None:
    for step in (board.open_console, lambda: board.log_in(1)):
        with pytest.raises(
            ConsoleError,
            match=rf"console server of pi1 at 127\.0\.0\.1:{closed_port} cannot be reached: (?s:.*)-> the lab's admin",
        ):
            step()


def test_a_power_driver_that_cannot_be_activated_is_a_power_error(board: PiStrategy) -> None:
    board.power.port.avail = False
    with pytest.raises(PowerError, match=r"labgrid cannot use the power switch of pi1: NoResourceFoundError"):
        assert board.node_power


def test_a_console_whose_resource_is_gone_is_a_console_error(board: PiStrategy) -> None:
    board.console.port.avail = False
    with pytest.raises(ConsoleError, match=r"labgrid cannot open the serial console of pi1: NoResourceFoundError"):
        board.open_console()
