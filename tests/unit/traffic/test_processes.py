"""The time until a hanging machine is reported, with a simulated clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_pinet.errors import SshError, TrafficError
from pytest_pinet.evidence import collecting, observer
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.execution.shell import Completed
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import iperf3_run, processes
from pytest_pinet.traffic.iperf3_command import Iperf3Run, ProcessSide
from pytest_pinet.traffic.iperf3_run import run_both
from pytest_pinet.traffic.processes import LISTENING, MidRunProbe
from pytest_pinet.traffic.tool import TrafficJob

STOP_S = 2.0  # an ssh process waits this long for a node that does not answer


class Clock:
    """Replaces the module ``time``."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Machine:
    """A shell on a machine that hangs from a given time on. Its processes then never end."""

    name: str
    clock: Clock
    hangs_at: float = float("inf")
    asked: list[tuple[float, str]] = field(default_factory=list)

    @property
    def hangs(self) -> bool:
        return self.clock.now >= self.hangs_at

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        self.asked.append((self.clock.now, command))
        if self.hangs:
            self.clock.now += timeout_s
            raise SshError(f"{self.name} did not answer")
        self.clock.now += 0.01
        return Completed(0, "12345\n", "")

    def spawn(self, command: str) -> Job:
        return Job(self, self.clock.now)

    def signs_of_life(self) -> list[float]:
        return [moment for moment, command in self.asked if command == "true"]


@dataclass
class Job:
    """One iperf3. It ends by itself only while both machines live."""

    machine: Machine
    started: float
    ends_at: float = float("inf")

    def poll(self) -> int | None:
        return 0 if self.machine.clock.now >= self.ends_at and not self.machine.hangs else None

    def wait(self, timeout_s: float) -> Completed:
        raise AssertionError("no process waits for the listening server")

    def stop(self) -> Completed:
        if self.machine.hangs:
            self.machine.clock.now += STOP_S
        return Completed(0 if self.poll() == 0 else 143, "{}", "")

    def lines(self) -> list[str]:
        return [LISTENING]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (iperf3_run, processes, observer, collecting):
        monkeypatch.setattr(module, "time", clock)
    return clock


def run_for(seconds: int, client: Machine, server: Machine) -> None:
    """Simulate traffic with all readings during it: observers, and the socket query in the middle."""
    run = Iperf3Run(
        Traffic(Direction.TX, duration_s=seconds, warmup_s=0), 20_000, ProcessSide("10.0.0.1"), ProcessSide("10.0.0.2")
    )
    midway = MidRunProbe({Direction.TX: (client, server), Direction.RX: (server, client)}, run.port, 1, run.middle_s)
    with Observer(client, "eth0", "p1", seconds) as near, Observer(server, "eth0", "p2", seconds) as far:

        def show(_: float) -> None:
            for one in (near, far):
                one.rate()

        # The client is at the receiving end.
        run_both(run, TrafficJob(server, client, "", "", run.traffic, on_progress=show, watch=midway.look))


@pytest.mark.parametrize("seconds", [1, 5, 6, 9, 10, 11, 60])
@pytest.mark.parametrize("hanging", ["dut-1", "peer-1", "both"])
def test_a_machine_that_hangs_is_reported_within_20_s(clock: Clock, seconds: int, hanging: str) -> None:
    for tenth in range(seconds * 10 + 1):
        clock.now = 0.0
        frozen = tenth / 10
        machines = [Machine(n, clock, frozen if hanging in (n, "both") else float("inf")) for n in ("dut-1", "peer-1")]
        with pytest.raises(SshError, match=r"^(dut|peer)-1 does not answer any more, ") as caught:
            run_for(seconds, *machines)
        assert hanging == "both" or str(caught.value).startswith(hanging)
        assert clock.now - frozen < 20, f"frozen at {frozen} s"


def await_two(
    clock: Clock, seconds: float, ends_at: float, grace_s: float = 15.0, quiet: bool = False
) -> list[Machine]:
    """Wait for traffic between two machines that ends at this time, and return the machines."""
    machines = [Machine(name, clock) for name in ("dut-1", "peer-1")]

    def hanging(late_s: float) -> TrafficError:
        raise AssertionError("both machines answer")

    processes.await_traffic(lambda: clock.now >= ends_at, machines, seconds, hanging, grace_s=grace_s, quiet=quiet)
    return machines


@pytest.mark.parametrize(
    ("seconds", "expected"), [(5, [7]), (6, [5, 8]), (10, [5, 12]), (18, [5, 10, 15, 20])], ids=str
)
def test_ends_are_checked_during_and_after_the_traffic(clock: Clock, seconds: int, expected: list[float]) -> None:
    for machine in await_two(clock, seconds, ends_at=seconds + 2.5):
        assert machine.signs_of_life() == pytest.approx(expected, abs=0.3)


def test_a_run_that_ends_in_time_is_not_checked_after_its_end(clock: Clock) -> None:
    assert [machine.asked for machine in await_two(clock, 5, ends_at=5.5)] == [[], []]


def test_an_end_with_a_virtual_clock_is_not_checked_before_it_is_overdue(clock: Clock) -> None:
    machines = await_two(clock, 5, ends_at=40.0, grace_s=75.0, quiet=True)
    assert [machine.asked for machine in machines] == [[], []]
