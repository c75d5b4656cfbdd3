"""The processes that run beside the traffic are stopped, whatever happens while they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support.doctor_lab import lab
from tests.support.link_stand_in import link
from tests.support.local_shell import LocalProcess, LocalShell


class Counting(LocalShell):
    """This machine. Ctrl-C arrives while the second process starts."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[LocalProcess] = []

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return LocalShell().run(command, timeout_s)

    def spawn(self, command: str) -> LocalProcess:
        if self.begun:
            raise KeyboardInterrupt
        self.begun.append(super().spawn(command))
        return self.begun[-1]


def test_ctrl_c_while_the_second_observer_starts_stops_the_first(tmp_path: Path) -> None:
    shell = Counting()
    found = link(tmp_path, shells=(shell, shell))
    wired = lab(tmp_path).switches["s"]
    found.switches = {"s": ManagedSwitch(wired, FixedSwitch(), Journal("lab.yaml", tmp_path))}
    runs = Runs(MeasureContext(found, Iperf3()), 60.0)
    with pytest.raises(KeyboardInterrupt):
        runs.__enter__()
    assert [process.poll() is not None for process in shell.begun] == [True]
