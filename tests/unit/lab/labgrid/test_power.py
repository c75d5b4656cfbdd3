"""Power switches with read-back, without read-back, and with wrong answers."""

from __future__ import annotations

import time

import pytest

from pytest_pinet.errors import PowerError
from pytest_pinet.lab.labgrid import power
from pytest_pinet.lab.labgrid.power import Power


class Blind:
    """A driver that switches but cannot report its state."""

    def __init__(self) -> None:
        self.real = False

    def on(self) -> None:
        self.real = True

    def off(self) -> None:
        self.real = False


class Unimplemented(Blind):
    """Behaves like labgrid's PDUDaemonDriver."""

    def get(self) -> bool:
        raise NotImplementedError("pdudaemon does not support retrieving the port's state")


class Stuck(Blind):
    def get(self) -> bool:
        return False


class Broken(Blind):
    def get(self) -> bool:
        raise ConnectionRefusedError("connection refused")


@pytest.mark.parametrize("driver", [Blind(), Unimplemented()])
def test_a_switch_without_read_back_is_unknown(driver: Blind) -> None:
    switch = Power("pi1", driver)
    assert switch.is_on() is None
    switch.switch(on=True)
    assert driver.real
    assert switch.is_on() is None


def test_a_switch_that_reports_the_opposite_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "SETTLE_TIMEOUT_S", 0.1)
    with pytest.raises(PowerError, match="power switch of pi1 accepted 'on', but still reports the opposite"):
        Power("pi1", Stuck()).switch(on=True)


class Slow(Blind):
    """Answers after a moment, as the virtual switch of a full machine does."""

    def on(self) -> None:
        time.sleep(0.3)
        super().on()


def test_a_board_in_virtual_time_has_longer_for_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "CALL_TIMEOUT_S", 0.1)
    with pytest.raises(PowerError, match="power switch of virt-1 failed to switch on"):
        Power("virt-1", Slow()).switch(on=True)
    driver = Slow()
    Power("virt-1", driver, patience=40.0).switch(on=True)
    assert driver.real


def test_a_failing_switch_is_an_error() -> None:
    with pytest.raises(PowerError, match="power switch of pi1 failed to report its state: ConnectionRefusedError"):
        Power("pi1", Broken()).is_on()
