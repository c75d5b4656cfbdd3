"""Simulated boards: each boot gives the goodput that a plan defines for its build.

pytest, gate and reports are real.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.ab.boots import MadeBoot
from pytest_pinet.ab.series import Turn, TurnSeries
from pytest_pinet.errors import PinetError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link, addresses
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.build import Build, RunningBuild
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import Tuning
from tests.support.link_stand_in import UP, NoTarget
from tests.support.local_shell import LocalShell

LAB_FILE = """\
pinet:
  switches:
    s: {backend: fixed, ports: p1-p9}
  nodes:
    one:
      board: pi4b
      interfaces:
        onboard: {port: s/p1}
        usb: {nic: ax88179, port: "s/p2"}
    two:
      board: cm4
      interfaces:
        onboard: {port: 's/p3'}
"""
CONFTEST = """
from tests.support import change_session
import plans
def pytest_configure(config): change_session.install(plans.PLAN)
def pytest_unconfigure(config): change_session.remove(plans.PLAN, getattr(config, "workerinput", {}).get("workerid"))
"""
ONE_TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""
THREE_TESTS = """
import pytest

@pytest.mark.pinet(board="pi4b")
def test_tx(link, gate):
    goodput = gate.tcp(link, direction="tx")
    assert goodput["tx"].bps > 0

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_rx(link, gate):
    gate.tcp(link, direction="rx")

def test_without_a_lab():
    pass
"""
GOOD, NEW = "sysctls: {net.core.rmem_max: 1000000}\n", "sysctls: {net.core.rmem_max: 2000}\n"
A_BPS = 940e6
LOG = "boards.log"


@dataclass
class Plan:
    """What the boards do. ``ratio`` is B over A by NIC.

    ``start`` and ``opening`` (by side) and ``traffic`` may return an error to raise, given the boot's number.
    ``drops`` says whether the link drops in this boot.
    ``reports`` returns what a board reports about the build that it runs.
    ``boot_noise`` and ``noise`` are relative standard deviations.
    """

    ratio: Mapping[str, float] = field(default_factory=dict)
    start: Callable[[Side, int], PinetError | None] = lambda side, boot: None
    opening: Callable[[Side, int], PinetError | None] = lambda side, boot: None
    traffic: Callable[[Side, int], PinetError | None] = lambda side, boot: None
    drops: Callable[[Side, int], bool] = lambda side, boot: False
    check: Callable[[Build], PinetError | None] = lambda build: None
    reports: Callable[[Side], dict[str, Any]] = lambda side: {}
    # What the peer of a boot reports as its setting of generic-receive-offload.
    peer_gro: Callable[[int], str] = lambda boot: "on"
    boot_noise: float = 0.001
    noise: float = 0.001
    missing: bool = False
    # What a build that hangs needs on a board without power control.
    risk: str = ""
    # Whether boards were just booted when they are leased.
    fresh: bool = False
    # Seconds to leave the lab.
    leaving_s: float = 0.0
    log: list[str] = field(default_factory=list)
    seed: int = 1

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.effects: dict[int, float] = {}


class StandInDeployment:
    """Boots any build at once."""

    def __init__(self, node: str, plan: Plan) -> None:
        self._node = node
        self._plan = plan
        self.running: Build | None = None
        self.tuning = Tuning()
        self.boots = 0
        self.known_good = RunningBuild(node, "Linux 6.12.1 aarch64", "Linux version 6.12.1", "root=/dev/vda2")

    def check(self, build: Build) -> None:
        error = self._plan.check(build)
        if error is not None:
            raise error

    def risk(self, build: Build) -> str:
        return self._plan.risk

    def runs(self, build: Build | None) -> bool:
        return self.running == build

    def start(self, build: Build | None, tuning: Tuning | None = None) -> RunningBuild:
        assert not tuning
        self.boots += 1
        side = Side.B if build is not None and build.name == "new" else Side.A
        self._plan.log.append(f"boot {self._node} {side}" if build is not None else f"known-good {self._node}")
        error = self._plan.start(side, self.boots)
        if error is not None:
            raise error
        self.running = build
        return replace(self.known_good, **self._plan.reports(side))


class StandInShell(LocalShell):
    """Answers whether a network device exists."""

    def __init__(self, name: str, plan: Plan) -> None:
        super().__init__(name)
        self._plan = plan

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if "device-tree/model" in command:
            # Board and NICs.
            return Completed(0, "model=\n" if self._plan.missing else "model=\ndevice=eth0\ndevice=eth1\n", "")
        return Completed(0, "", "")


class StandInSession(NodeSession):
    ready = True
    shell: StandInShell = None  # type: ignore[assignment]
    deployment: Any = None


class StandInLab:
    """Replaces LabAccess.open and TurnSeries.take, without a lab."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.opened = False
        self._sessions: dict[str, StandInSession] = {}

    def session(self, combination: Combination, name: str) -> StandInSession:
        if name not in self._sessions:
            node = next(node for node in combination.nodes if node.name == name)
            session = self._sessions[name] = StandInSession(node, NoTarget())
            session.shell = StandInShell(name, self.plan)
            session.deployment = StandInDeployment(name, self.plan)
            session.fresh = self.plan.fresh
        return self._sessions[name]

    @contextmanager
    def open(self, access: LabAccess, combination: Combination) -> Iterator[Link]:
        access._interrupt()
        self.opened = True
        sessions = {node.name: self.session(combination, node.name) for node in combination.nodes}
        access._prepare(combination, sessions)
        for session in sessions.values():
            session.begin_use()
        deployment = sessions[combination.dut.node.name].deployment
        error = self.plan.opening(side_of(deployment), deployment.boots)
        if error is not None:
            raise error
        ends = tuple(
            End(endpoint, sessions[endpoint.node.name], sessions[endpoint.node.name].shell, address)
            for endpoint, address in zip(combination.ends, addresses(combination), strict=True)
        )
        self.plan.log.append(f"open {combination.id}")
        yield Link(combination, ends, tuple(UP for _ in ends), {})

    def take(self, series: TurnSeries, link: Link, boot: MadeBoot) -> None:
        plan, side, number = self.plan, boot.side, boot.turn.number
        self.plan.log.append(f"measure {link.id} {series.traffic.direction} {side}")
        error = plan.traffic(side, number)
        if error is not None:
            raise error
        effect = plan.effects.setdefault(number, plan.random.gauss(0, plan.boot_noise))
        ratio = plan.ratio.get(link.combination.nic, 1.0) if side is Side.B else 1.0
        rates = [A_BPS * ratio * (1 + effect + plan.random.gauss(0, plan.noise)) for _ in range(series.connections)]
        connections = tuple(one_connection(rate, link, series.traffic) for rate in rates)
        if plan.drops(side, number):
            connections = (replace(connections[0], excluded="the link dropped", dropped=(0,)), *connections)
        settings = {
            "dut": {"end": str(link.ends[0].endpoint), "tcp-segmentation-offload": "on" if ratio == 1 else "off"},
            "peer": {"end": str(link.ends[1].endpoint), "generic-receive-offload": plan.peer_gro(number)},
        }
        series.add(Turn(side, number, boot.turn.started_s, link, connections, (), settings))


def side_of(deployment: StandInDeployment) -> Side:
    running = deployment.running
    return Side.B if running is not None and running.name == "new" else Side.A


def one_connection(rate: float, link: Link, traffic: Traffic) -> Connection:
    """Return a connection of two seconds at this rate, in both directions for bidirectional traffic."""
    samples = tuple(Sample(index * 0.1, 0.1, round(rate / 80)) for index in range(20))
    (run,) = link.combination.topology.runs(traffic.direction)
    found = {way: Flow(way, samples) for way in traffic.direction.parts}
    flows = tuple(
        MeasuredFlow(*((0, 1) if way is Direction.TX else (1, 0)), run, way, flow) for way, flow in found.items()
    )
    return Connection(flows, measurements=(Measurement(traffic, found),), lasted_s=2.0)


_PATCHES = pytest.MonkeyPatch()


def install(plan: Plan) -> None:
    """Make pytest measure on boards of this plan."""
    lab = StandInLab(plan)

    def close(self: LabAccess) -> list[str]:
        if lab.opened:
            lab.opened = False
            time.sleep(plan.leaving_s)
            plan.log.append("left")
            return ["pi4b-1 is still powered on"]
        return []

    _PATCHES.setattr(LabAccess, "start", lambda self: None)
    _PATCHES.setattr(LabAccess, "close", close)
    _PATCHES.setattr(LabAccess, "open", lambda self, combination, **_: lab.open(self, combination))

    def take(self: TurnSeries, context: MeasureContext, boot: MadeBoot) -> None:
        lab.take(self, context.link, boot)

    _PATCHES.setattr(TurnSeries, "take", take)


def remove(plan: Plan, worker: str | None = None) -> None:
    """Undo ``install``, and write the boards' log to LOG; each worker has its own log file."""
    _PATCHES.undo()
    Path(f"{LOG}.{worker}" if worker else LOG).write_text("".join(f"{line}\n" for line in plan.log))


class Bench:
    """A folder with a lab, two builds and tests."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makeconftest(CONFTEST)
        pytester.makeini("[pytest]\n")
        for name, text in {"lab.yaml": LAB_FILE, "good.yaml": GOOD, "new.yaml": NEW}.items():
            (pytester.path / name).write_text(text)

    def plan(self, text: str = "PLAN = Plan()") -> None:
        """Write the module whose ``text`` defines PLAN."""
        words = "from tests.support.change_session import *\nfrom pytest_pinet.errors import *\n"
        (self.pytester.path / "plans.py").write_text(words + text)

    def words(self, *options: str) -> list[str]:
        return [
            "-p", "no:labgrid", "-p", "no:cacheprovider", "--pinet-history=off",
            "--pinet-lab=lab.yaml", "--pinet-json=out.json", *options,
        ]  # fmt: skip

    def run(self, *options: str, builds: tuple[str, ...] = ("new.yaml", "good.yaml")) -> pytest.RunResult:
        asked = [f"{option}={value}" for option, value in zip(("--pinet-build", "--pinet-against"), builds)]  # noqa: B905
        return self.pytester.runpytest_inprocess(*self.words(*asked, *options), no_reraise_ctrlc=True)

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.pytester.path / "out.json").read_text())
        return found

    @property
    def head(self) -> dict[str, Any]:
        """Return the verdict on the whole change."""
        found: dict[str, Any] = self.record["change"]
        return found

    @property
    def verdicts(self) -> list[str]:
        """Return the verdict on each value."""
        return [entry["verdict"] for entry in self.head["entries"]]

    @property
    def log(self) -> list[str]:
        return (self.pytester.path / LOG).read_text().splitlines()

    @property
    def boots(self) -> str:
        """Return the builds of all boots in order; G is the board's own build."""
        builds = [line.split()[-1] if line.startswith("boot") else "G" for line in self.log if "one" in line.split()]
        return "".join(builds)


def printed(result: pytest.RunResult, *lines: str) -> None:
    """Assert that the output has lines which contain these texts, in this order."""
    result.stdout.fnmatch_lines([f"*{line}*" for line in lines])


@contextmanager
def fresh_plans(path: Path) -> Iterator[None]:
    """Let each test import its own module ``plans``, because tests of one process write modules of the same name."""
    import sys

    sys.modules.pop("plans", None)
    sys.path.insert(0, str(path))
    try:
        yield
    finally:
        sys.path.remove(str(path))
        sys.modules.pop("plans", None)


@contextmanager
def bench_with(pytester: pytest.Pytester, test: str) -> Iterator[Bench]:
    """Yield a bench whose project has this test, with the default plan."""
    with fresh_plans(pytester.path):
        found = Bench(pytester)
        found.plan()
        pytester.makepyfile(test_it=test)
        yield found


__all__ = ["Bench", "Plan", "Side", "bench_with", "fresh_plans", "install", "printed", "remove"]
