"""Whole runs of the product on a simulated board, by the functions that its commands and its gate call.

`measure.measurement.measure` gates, `history.accepting.candidate` accepts what the history keeps of the runs,
`calibration.connections.calibrate` calibrates, `measure.comparison.compare` compares two states, and
`ab.boots.BuildBooter` with `ab.series.TurnSeries` gates a build. Nothing of their logic is written again here, apart
from two loops without a decision: over the runs of a day, and over the turns of a gate of builds (`ab.rounds`).
"""

from __future__ import annotations

import ipaddress
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from benchmarks.verdicts.whole_runs.board import DEVICE, OPENING_S, Board, BoardShell, BoardTool, Clock, Kind
from pytest_pinet.ab import boots
from pytest_pinet.ab.boots import BuildBooter
from pytest_pinet.ab.series import Rules, TurnSeries, connections_per_boot
from pytest_pinet.calibration.connections import Levels, calibrate, outcome
from pytest_pinet.config.baselines import AcceptedBaseline
from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.history.accepting import candidate
from pytest_pinet.history.points import Point, PointList
from pytest_pinet.history.records import points_of
from pytest_pinet.history.trends import trend
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import fitted
from pytest_pinet.judge.profile import PROFILES, Profile
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.judge.starts import cap_for
from pytest_pinet.judge.turns import MOST_BOOTS, TOLERANCE, side
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.measure.comparison import State, StateComparison, compare
from pytest_pinet.measure.measurement import measure
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.build import RunningBuild
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import SCHEMA_VERSION, ResultRecord, RunRecord
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import Tuning
from tests.support import doctor_lab
from tests.support.link_stand_in import UP, NoTarget

LAB = "simulated"
FIRST_DAY = datetime(2026, 10, 1, 9, 0, tzinfo=UTC)
# As `benchmarks.verdicts.ours`: the runs of a day, and of the first day, after which a baseline is accepted.
RUNS_OF_A_DAY, RUNS_OF_FIRST_DAY = 3, 6
# If too few runs of the first day may be accepted, the lab makes more.
MOST_RUNS_OF_FIRST_DAY = 18
# The longest wait between two runs without a reboot (s).
BETWEEN_RUNS_S = 7200.0
CALIBRATED = Levels(runs=4, links=2, boots=3)


@cache
def _lab() -> Lab:
    """The lab of the simulation; its file is read once."""
    with tempfile.TemporaryDirectory() as folder:
        return doctor_lab.lab(Path(folder))


class _Session(NodeSession):
    """A session on a board that is simulated. Its shell needs no ssh."""

    ready = True
    shell: Any = None
    deployment: Any = None


class _Deployment:
    """Boots a build on the simulated board. Build B is any object; the known-good build is None."""

    def __init__(self, board: Board, node: str) -> None:
        self._board = board
        self.running: object | None = None
        self.tuning = Tuning()
        self.known_good = RunningBuild(node, "Linux 6.12.1 aarch64", "Linux version 6.12.1", "root=/dev/mmcblk0p2")

    def check(self, build: object) -> None: ...

    def risk(self, build: object) -> str:
        return ""

    def runs(self, build: object | None) -> bool:
        return self.running is build

    def start(self, build: object | None, tuning: Tuning | None = None) -> RunningBuild:
        self.running = build
        self._board.side = "A" if build is None else "B"
        self._board.start_boot()
        return self.known_good


class SimulatedLab:
    """A board with one link, and what a lab knows about it: its history, baseline and calibration."""

    def __init__(self, kind: Kind, source: random.Random, profile: str = "standard") -> None:
        self.board = Board(kind, source, Clock())
        self.profile: Profile = PROFILES[profile]
        self.references = ReferenceData()
        self.points: list[Point] = []
        # What was drawn for the days, boots and link-ups of the history: which levels it has seen.
        self.seen: list[dict[str, Any]] = []
        self._kind, self.source = kind, source
        self._day, self._runs = 0, 0
        self._tool = BoardTool(self.board)
        self._sessions: dict[str, _Session] = {}
        self._prepare: Callable[..., None] | None = None
        lab = _lab()
        chosen = [Endpoint(lab.nodes[node], lab.nodes[node].interface("onboard")) for node in ("one", "two")]
        topology = parse_topology("pair")
        self.combination = Combination(topology, tuple(chosen), tuple(() for _ in topology.segments))
        self._switches = {"s": ManagedSwitch(lab.switches["s"], FixedSwitch(), Journal("lab.yaml", Path("/nowhere")))}
        self.traffic = Traffic(Direction.TX, duration_s=self.profile.connection_s - cap_for(1000), warmup_s=None)
        self.key = MetricKey(self.combination.identity, self.traffic, Direction.TX)

    # The lab as the product sees it (`lab.access.LabAccess`).
    @property
    def tool(self) -> BoardTool:
        return self._tool

    watch = None

    def prepare_with(self, prepare: Callable[..., None]) -> None:
        self._prepare = prepare

    @contextmanager
    def open(self, combination: Combination, reset: bool = False, link_required: bool = True) -> Iterator[Link]:
        if reset:
            self.board.start_boot()
        link = self._link()
        if self._prepare is not None:
            before = self.board.boots
            self._prepare(combination, self._sessions)
            if self.board.boots != before:
                self._forget()
        yield link

    def measuring(self, combination: Combination) -> Any:
        return nullcontext()

    exclusive = measuring

    def _link(self) -> Link:
        """Open the link: new sessions know nothing of the boards."""
        board = self.board
        if not self._sessions:
            for index, end in enumerate(self.combination.ends):
                session = self._sessions[end.node.name] = _Session(end.node, NoTarget())
                session.shell = BoardShell(end.node.name, board, index)
                session.deployment = _Deployment(board, end.node.name)
        self._forget()
        ends = tuple(
            End(one, self._sessions[one.node.name], self._sessions[one.node.name].shell, address)
            for one, address in zip(self.combination.ends, _ADDRESSES, strict=True)
        )
        return Link(self.combination, ends, (UP, UP), self._switches)

    def _forget(self) -> None:
        self.board.clock.passes(self.source.uniform(*OPENING_S))
        for session in self._sessions.values():
            session.facts.clear()
            session.facts[f"wireless {DEVICE}"] = False

    # Runs of pytest.
    def new_day(self) -> None:
        self._day += 1
        self.board.new_day()
        self._runs = 0

    def run(self) -> ResultRecord:
        """Run a test of one gate call as a run of its own, with the limits of the lab's baseline if it has one."""
        board, kind = self.board, self._kind
        if self._runs and kind.reboots:
            board.start_boot()
        elif self._runs:
            board.clock.passes(self.source.uniform(0.0, BETWEEN_RUNS_S))
        self._runs += 1
        with board.clock.running(), self.open(self.combination) as link:
            context = MeasureContext(link, self._tool)
            if kind.before and self.source.random() < 0.5:
                other = GatePlan([], _long(self.profile, kind.before))
                measure(MeasureContext(link, self._tool), self.traffic, other)
            budget = fitted(self.profile, self.traffic.seconds_with(cap_for(1000)))
            references = self.references.of_traffic(self.combination.identity, self.traffic)
            record = measure(context, self.traffic, GatePlan([], budget, references, error_rate=ERROR_RATE))
        started = FIRST_DAY + timedelta(days=self._day, minutes=10 * self._runs)
        return record.replace(started=started.isoformat(), lab=LAB)

    def keep(self, record: ResultRecord) -> None:
        """Store a run in the history."""
        board = self.board
        run = RunRecord(
            schema_version=SCHEMA_VERSION, run=f"run{len(self.points)}", lab=LAB, started=record.started or "",
            results=(record,), session=f"s{len(self.points)}",
        )  # fmt: skip
        self.points += points_of(run)[1]
        self.seen += [{**scope.drawn} for scope in (board.day, board.boot, board.link_up)]

    def accept(self) -> bool:
        """Do what ``pinet accept`` does. Return whether there was something to accept."""
        last = self.points[-1]
        found = candidate(trend(last.figure, LAB, PointList(self.points)), last.time.date(), "the right value").baseline
        if found is None:
            return False
        self.references.baselines = {str(self.key): found}
        return True

    def make_baseline(self, days: int) -> bool:
        """Make a baseline as ``error-rates.md`` says: accept on the first day, and again when it spans ``days``.

        The later runs are gated by the baseline of the first day. Return whether there is a baseline.
        """
        self.new_day()
        for count in range(1, MOST_RUNS_OF_FIRST_DAY + 1):
            self.keep(self.run())
            if count >= RUNS_OF_FIRST_DAY and self.accept():
                break
        for _ in range(days - 1):
            self.new_day()
            for _ in range(RUNS_OF_A_DAY):
                self.keep(self.run())
        if days > 1:
            self.accept()
        return bool(self.references.baselines)

    @property
    def baseline(self) -> AcceptedBaseline | None:
        return self.references.baselines.get(str(self.key))

    def calibrate(self) -> None:
        """Do what ``pinet calibrate`` does, on one day."""
        self.new_day()
        with self.board.clock.running():
            found = calibrate(self, self.combination, {Direction.TX: self.traffic}, CALIBRATED, lambda _: None)  # type: ignore[arg-type]
        for name, connections in found.figures.items():
            own = outcome(name, connections, self.profile, date(2026, 10, 1), found.build)
            self.references._calibration = {**self.references._calibration, name: own.calibration}

    def compare(self, slower: float, tolerance: float = 0.03) -> Any:
        """Compare two states of the link in one session; state B is slower by ``slower`` percent."""
        board = self.board
        board.slower_of_b = slower

        def entered(name: str) -> Callable[[], None]:
            def enter() -> None:
                board.side = name

            return enter

        with board.clock.running(), self.open(self.combination) as link:
            references = self.references.of_traffic(self.combination.identity, self.traffic)
            states = State("A", entered("A")), State("B", entered("B"))
            job = StateComparison(self.traffic, states, tolerance, ERROR_RATE, references=references)
            return compare(MeasureContext(link, self._tool), job).comparison

    def gate_build(self, slower: float) -> TurnSeries:
        """Gate a build that is slower by ``slower`` percent, boot by boot. Return its series of turns."""
        board = self.board
        board.slower_of_b = slower
        new = SimpleNamespace(name="new")
        options: Any = SimpleNamespace(
            new=new,
            good=None,
            most_boots=MOST_BOOTS,
            build=lambda which: new if str(which) == "B" else None,
            name=str,
        )
        with board.clock.running(), _any_pi():
            booter = BuildBooter(options, self, lambda _: None)  # type: ignore[arg-type]
            series: TurnSeries | None = None
            for number in range(MOST_BOOTS):
                booter.next(side(number))
                with booter.open(self.combination) as link:
                    boot = booter.of(self.combination.dut.node.name)[-1]
                    if series is None:
                        count = connections_per_boot(link, self.traffic, self.references, boot.turn.seconds, 1)
                        rules = Rules(self.references, ERROR_RATE, lambda: 1, MOST_BOOTS)
                        series = TurnSeries(self.traffic, rules, count, dict.fromkeys(Direction, TOLERANCE))
                    series.take(MeasureContext(link, self._tool), boot)
                if series.decided:
                    break
            self._prepare = None
        assert series is not None
        series.give_up()
        return series


_ADDRESSES = tuple(ipaddress.IPv4Interface(f"192.0.2.{number}/24") for number in (1, 2))


def _long(profile: Profile, connections: int) -> Profile:
    """Return a profile that makes so many connections without a limit."""
    return replace(profile, passes_after=connections)


@contextmanager
def _any_pi() -> Iterator[None]:
    """The stand-in of a build has no files that could name a board."""
    with patch.object(boots, "require_any_pi", lambda _: None):
        yield
