"""The processes that run beside the traffic are stopped, whatever happens while they start."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.evidence.observer import Observer
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.measure import traffic_runner
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support.doctor_lab import lab
from tests.support.link_stand_in import link
from tests.support.local_shell import LocalProcess, LocalShell
from tests.support.waiting import wait_until


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


class Receiving(LocalShell):
    """An end that receives 100 kB in each tenth of a second, after one second of a slower start."""

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return LocalShell().run(command, timeout_s)

    def spawn(self, command: str) -> LocalProcess:
        received, lines = 0, []
        for tenth, grown in enumerate([20_000] * 10 + [100_000] * 30):
            received += grown
            lines.append(f"{tenth / 10:.2f} {received} 0 1 2 up 100")
        return super().spawn(f"printf '%s\\n' {shlex.quote(chr(10).join(lines))}; sleep 60")


def test_progress_is_the_goodput_of_the_connection_without_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[float, Mapping[str, float | None], float | None]] = []
    context = MeasureContext(
        link(tmp_path, shells=(Receiving(), Receiving())),
        Iperf3(),
        on_progress=lambda _, elapsed_s, goodput, __, now_bps: shown.append((elapsed_s, dict(goodput), now_bps)),
    )
    runs = Runs(context, 60.0)
    runs._observers = {}
    # The traffic began before the first sample.
    monkeypatch.setattr(traffic_runner, "time", SimpleNamespace(monotonic=lambda: time.monotonic() - 10.0))
    with ExitStack() as stack:
        for index, end in enumerate(context.link.ends):
            runs._observers[index] = stack.enter_context(Observer(end.shell, end.device, "p", 60.0))
        wait_until("the samples", lambda: all(one.rate() is not None for one in runs._observers.values()))
        report = runs._progress(Traffic(Direction.TX), 1)
        assert report is not None
        report(2.5)
        runs._observers.clear()
        # After the traffic, the last values stay.
        report(60.0)
    payload = 8e6 * 1448 / 1514
    assert [elapsed for elapsed, _, _ in shown] == [2.5, 60.0]
    for _, goodput, now_bps in shown:
        assert goodput["tx"] == pytest.approx(payload, rel=0.02)
        assert now_bps == pytest.approx(payload, rel=0.02)
