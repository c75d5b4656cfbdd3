"""A node that boots refuses each connection: this is expected, and no warning of the report."""

from __future__ import annotations

import socket

import pytest
from labgrid import Target
from labgrid.driver.exception import ExecutionError
from labgrid.resource import NetworkService

from pytest_pinet.lab.drivers import PiSSHDriver


@pytest.fixture
def driver() -> PiSSHDriver:
    """Return the driver of a board on a port that refuses connections."""
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        port = once.getsockname()[1]
    target = Target("board")
    NetworkService(target, name=None, address="127.0.0.1", username="pi", port=port)
    found = PiSSHDriver(target, "ssh")  # type: ignore[call-arg]  # labgrid is not typed
    found.connection_timeout = 1.0
    return found


def test_refused_connections_are_in_the_error_and_not_in_the_log(
    driver: PiSSHDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Exception, match="Timeout while waiting for ssh connection") as found:
        driver.target.activate(driver)
    assert isinstance(found.value.__cause__, ExecutionError)
    assert found.value.__cause__.msg.startswith("pi@127.0.0.1: ")
    assert found.value.__cause__.msg.endswith("Connection refused")
    assert caplog.text == ""


def test_other_warnings_of_the_driver_stay(driver: PiSSHDriver, caplog: pytest.LogCaptureFixture) -> None:
    def start() -> str:
        driver.logger.warning("ssh: %s", "Connection refused")
        driver.logger.warning("the disk is full")
        return "control"

    assert driver.start_master(start) == "control"
    driver.logger.warning("ssh: %s", "after the start")
    assert [record.message for record in caplog.records] == ["the disk is full", "ssh: after the start"]
