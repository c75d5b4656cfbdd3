"""labgrid's own power backends with dead power switches: their reports, and our findings."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from labgrid import Target, target_factory
from labgrid.driver import ExternalPowerDriver, NetworkPowerDriver, SerialDriver
from labgrid.driver.powerdriver import ManualPowerDriver
from labgrid.resource import NetworkPowerPort, NetworkSerialPort, NetworkService

from pytest_pinet.errors import ConsoleError, PowerError
from pytest_pinet.lab.drivers import PiShellDriver, PiSSHDriver, PiStrategy
from pytest_pinet.lab.labgrid import power
from pytest_pinet.lab.labgrid.power import Power
from tests.support.ports import free_port

# No process listens on its port 161.
DEAD = "127.0.0.77"
SILENT = ("poe_mib", "raritan", "eaton")


# In a separate process, because labgrid leaves its SNMP sockets to the garbage collector, which warns of each.
TRIAL = """
import sys, time
from labgrid import Target
from labgrid.driver import NetworkPowerDriver
from labgrid.resource import NetworkPowerPort
from pytest_pinet.errors import PowerError
from pytest_pinet.lab.labgrid.power import Power

target = Target("pi1")
NetworkPowerPort(target, None, model=sys.argv[1], host=sys.argv[2], index=1)
driver = NetworkPowerDriver(target, None)
target.activate(driver)
print(driver.on())
started = time.monotonic()
try:
    Power("pi1", driver).switch(on=True)
except PowerError as error:
    print(error.message)
print(time.monotonic() - started)
"""


@pytest.mark.slow
def test_backends_that_ignore_a_dead_switch_are_found_by_the_read_back() -> None:
    pytest.importorskip("pysnmp.smi")
    trials = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", TRIAL, model, DEAD], stdout=subprocess.PIPE, text=True)
        for model in SILENT
    ]
    for trial in trials:
        believed, message, seconds = trial.communicate(timeout=120)[0].splitlines()
        assert believed == "None"
        assert message.startswith(f"the power switch of pi1 ({DEAD}, outlet 1) failed to report its state: ")
        assert float(seconds) < 2 * power.CALL_TIMEOUT_S


def test_a_command_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "CALL_TIMEOUT_S", 0.5)
    target = Target("pi1")
    driver = ExternalPowerDriver(target, None, cmd_on="sleep 60", cmd_off="true")
    target.activate(driver)
    switch = Power("pi1", driver)
    started = time.monotonic()
    with pytest.raises(
        PowerError, match=r"power switch of pi1 failed to switch on: TimeoutError: no answer within 0.5"
    ):
        switch.switch(on=True)
    assert time.monotonic() - started < 30
    # Earlier failures do not disturb later commands.
    switch.switch(on=False)


def test_manual_power_has_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "CALL_TIMEOUT_S", 0.1)
    target = Target("pi1")
    driver = ManualPowerDriver(target, None)
    target.activate(driver)
    monkeypatch.setattr("builtins.input", lambda _: time.sleep(0.5))
    Power("pi1", driver).switch(on=True)


@pytest.fixture
def closed_port() -> int:
    return free_port()


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
