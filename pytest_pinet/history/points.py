"""The values of the history: runs, gates and points, which `HistoryStore` stores and returns, and their trends. No I/O.

The measured values of a gate are no part of a trend, because build B may never be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

from pydantic import Field

from pytest_pinet.history.differences import name_of
from pytest_pinet.model.figures import GOODPUT, Better, Figure
from pytest_pinet.model.record.base import Rare, Record
from pytest_pinet.model.record.change import (
    EXACT,
    ChangedCostRecord,
    ChangedDirectionRecord,
    ChangeEntryRecord,
    ChangeHeadRecord,
    ChangeRecord,
    ExactChangeRecord,
)
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord, SkippedRecord
from pytest_pinet.model.verdict import GATE, GOOD, Verdict

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline, Acknowledgement


class GateTurn(Record):
    """One turn of a build (``A`` or ``B``) with the levels of its connections that count, in bit/s.

    ``trouble`` is the reason why nothing was measured; empty if it was measured.
    """

    number: int
    side: str
    levels_bps: tuple[float, ...] = ()
    trouble: str = ""


class GatedMetric(ChangeEntryRecord):
    """The verdict on one metric of two builds, with what its result says of it.

    ``change`` has an ``interval``; ``tolerance`` is the accepted loss (0.03: 3 %). The values are None where they are
    not known. ``instructions`` are all instructions for each packet or answer, with A and with B; None if they were
    not counted.
    """

    interval: tuple[float, float] | None = None
    tolerance: float | None = None
    turns: tuple[GateTurn, ...] = ()
    instructions: tuple[float, float] | None = None

    @property
    def figure(self) -> str:
        """The ID of the metric; see `gated_figure`."""
        return gated_figure(self)


class StoredGate(ChangeHeadRecord):
    """The verdict on a whole change. Its metrics begin with the worst verdict."""

    entries: tuple[GatedMetric, ...]

    def word(self, one: GatedMetric) -> str:
        """Return the verdict on a metric in a word: ``not slower`` if it may be faster by more than the tolerance.

        Metrics of an exact gate have no interval, because their values have no noise.
        """
        if one.finding:
            return one.finding
        wide = one.interval is None or one.interval[1] > (one.tolerance or 0.0)
        if one.verdict is Verdict.PASS and self.baseline != EXACT and wide:
            return "not slower"
        return GATE[one.verdict].metric


def metric_id(result_id: str, way: str) -> str:
    """Return the ID under which this direction of a result is gated, calibrated and accepted."""
    return result_id if not way or result_id.endswith(f"-{way}") else f"{result_id}-{way}"


def gated_figure(entry: ChangeEntryRecord) -> str:
    """Return the ID of a gated metric; with its lab if runs of several labs were merged."""
    figure = metric_id(entry.id, entry.direction) if entry.cost is None else f"{entry.id}-{entry.cost}"
    return figure if entry.lab is None else f"{figure} ({entry.lab})"


def gate_of(head: ChangeHeadRecord, results: Sequence[ResultRecord]) -> StoredGate:
    """Return the gate with this head. Metrics whose result is missing have no interval, tolerance or turns."""
    found = {result.key: result for result in results}
    return StoredGate.of(head, entries=[_metric(entry, found.get(entry.result_key)) for entry in head.entries])


def _metric(entry: ChangeEntryRecord, result: ResultRecord | None) -> GatedMetric:
    change, exact = (result.change, result.exact) if result is not None else (None, None)
    if change is None:
        return GatedMetric.of(entry, instructions=instructions_of(exact))
    one = changed_value(change, entry)
    return GatedMetric.of(
        entry,
        interval=one.interval if one is not None else None,
        tolerance=change.tolerance if entry.cost is None else change.cost_tolerance,
        turns=[
            GateTurn(number=turn.number, side=turn.side, levels_bps=turn.levels(entry.direction), trouble=turn.trouble)
            for turn in (change.turns if entry.cost is None else ())
        ],
        instructions=instructions_of(exact),
    )


def changed_value(change: ChangeRecord, entry: ChangeEntryRecord) -> ChangedDirectionRecord | ChangedCostRecord | None:
    """Return the direction, or the cost, that an entry is about; None if the change does not have it."""
    if entry.cost is None:
        return change.directions.get(entry.direction)
    return (change.costs or {}).get(entry.cost)


def instructions_of(exact: ExactChangeRecord | None) -> tuple[float, float] | None:
    """Return all instructions for each packet or answer with A and with B; None if they were not counted."""
    if exact is None or exact.a.instructions is None or exact.b.instructions is None:
        return None
    return exact.a.instructions, exact.b.instructions


T = TypeVar("T")
# Default length of a trend, and the number of runs in which losses are looked for.
USUAL_LENGTH = 200
LONG_LENGTH = 1000


@dataclass(frozen=True)
class Point:
    """One metric's value in one run.

    ``run`` names the run in the history, ``session`` its pytest session. ``figure`` is the ID of the metric
    (``pi4b:onboard/pair/tcp-P1-tx``), ``direction`` its last part: ``tx``, or the name of a value beside goodput.
    After an ``error`` the ID is that of the combination alone; then ``direction`` is empty and ``value`` is None. Pings
    and values of exact boards have an ID, but no value either. ``kind`` has the unit of ``value``, ``interval``,
    ``limit``, ``oracle`` (the physical limit) and ``values`` (of each connection, beside goodput), and the better side.

    ``artefacts`` are paths relative to the run folder ``folder``. ``of_baseline``: the limit was relative to an
    accepted baseline. ``number`` counts repeated measurements of the metric in one run, from 1. ``limited_by`` says in
    a line what limited the goodput. ``connections`` are without samples and events. ``instructions`` are all
    instructions for each packet of an exact board, ``packets_per_second`` its packets (of requests: answers) in a
    second of virtual time. Other fields are as in `ResultRecord` and `DirectionRecord`.
    """

    run: str
    time: datetime
    lab: str
    figure: str
    combination: str
    direction: str
    value: float | None
    verdict: Verdict
    interval: tuple[float, float] | None = None
    limit: float | None = None
    of_baseline: bool = False
    oracle: float | None = None
    reason: str = ""
    build: Mapping[str, str | None] = field(default_factory=dict)
    serials: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    parameters: str = ""
    session: str = ""
    emulated: bool = False
    artefacts: tuple[str, ...] = ()
    folder: str = ""
    connections: tuple[ConnectionRecord, ...] = ()
    state: str = ""
    number: int = 1
    complete: bool = True
    pinet: str = ""
    limited_by: str = ""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scale: float = 1.0
    boot: str = ""
    link_up: str = ""
    instructions: float | None = None
    packets_per_second: float | None = None
    kind: Figure = GOODPUT
    values: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """The rate (bit/s) that the judges of goodput take in place of the value; 0 without a value."""
        return 0.0 if self.value is None else self.kind.rate(self.value)

    @property
    def is_exact(self) -> bool:
        """Whether the value is that of an exact board."""
        return self.instructions is not None or self.packets_per_second is not None

    @property
    def is_measured(self) -> bool:
        """Whether the run has a value or a verdict of this metric."""
        return self.value is not None or self.verdict in (*GOOD, Verdict.FAIL)

    @property
    def build_name(self) -> str:
        """The build's short name for an axis."""
        return name_of(self.build)

    @property
    def share(self) -> float | None:
        """The share of the physical limit that was reached."""
        return self.value / self.oracle if self.value is not None and self.oracle else None


@dataclass(frozen=True)
class Column(Generic[T]):
    """A property of points, by its name."""

    name: str


TIME = Column[datetime]("time")
RUN = Column[str]("run")
VERDICT = Column[Verdict]("verdict")
REASON = Column[str]("reason")
VALUE = Column[float | None]("value")
INTERVAL = Column[tuple[float, float] | None]("interval")
LIMIT = Column[float | None]("limit")
ORACLE = Column[float | None]("oracle")
SCALE = Column[float]("scale")
PARAMETERS = Column[str]("parameters")
EMULATED = Column[bool]("emulated")


class Points(Sequence[Point]):
    """Points of one metric, oldest first: one by one, or a property of all of them."""

    def column(self, of: Column[T]) -> Sequence[T]:
        """Return a property of all points."""
        return [getattr(point, of.name) for point in self]


class PointList(list[Point], Points):
    """A list. Reports have `packed.PackedPoints`, which makes no points for a column."""


@dataclass(frozen=True)
class LevelChange:
    """A level that moved: ``run`` is the first run at the new level, ``last_before`` the last at the old one.

    The new level began between the runs ``first_possible`` and ``last_possible`` (99 %). ``gradual``: the level drifted
    from ``last_before`` to ``run``, and no single build is to blame. ``differs`` lists the differences of the two
    builds in words; empty if they are the same.
    """

    run: str
    last_before: str
    time: datetime
    before: float
    after: float
    build_before: Mapping[str, str | None]
    build_after: Mapping[str, str | None]
    first_possible: str
    last_possible: str
    differs: tuple[str, ...] = ()
    gradual: bool = False
    kind: Figure = GOODPUT

    @property
    def relative(self) -> float:
        """The new level over the old one, minus one: -0.05 is 5 % less."""
        return self.after / self.before - 1

    @property
    def is_loss(self) -> bool:
        """Whether the new level is the worse one."""
        return (self.relative < 0) is (self.kind.better is Better.UP)


@dataclass(frozen=True)
class Trend:
    """A metric's points in one lab, oldest first. ``levels`` is its level at each point (None: no value).

    ``baseline`` and ``acknowledgement`` are what users decided about the metric.
    """

    figure: str
    lab: str
    points: Points
    baseline: AcceptedBaseline | None = None
    changes: tuple[LevelChange, ...] = ()
    levels: tuple[float | None, ...] = ()
    acknowledgement: Acknowledgement | None = None

    @property
    def last(self) -> Point | None:
        """The newest point."""
        return self.points[-1] if self.points else None

    @property
    def kind(self) -> Figure:
        """The unit of the values, and the better side."""
        return self.points[-1].kind if self.points else GOODPUT


@dataclass(frozen=True)
class RememberedBoard:
    """What ``run`` found out about a board (node), for later runs and other runners."""

    node: str
    since: datetime
    run: str
    reason: str

    @property
    def _origin(self) -> str:
        return f"since {self.since:%Y-%m-%d %H:%M} UTC (run {self.run}): {self.reason}"


@dataclass(frozen=True)
class OutOfService(RememberedBoard):
    """A board that did not come up, and is not used until a user clears it."""

    def __str__(self) -> str:
        return f"out of service {self._origin}"


@dataclass(frozen=True)
class Suspicion(RememberedBoard):
    """A board that failed where others of its kind pass. It is used all the same. ``cleared``: at ``since``, by a user.

    Runs before that time say nothing about the board any more.
    """

    cleared: bool = False

    def __str__(self) -> str:
        return f"suspected {self._origin}"


@dataclass(frozen=True)
class StoredMetric:
    """A metric of a lab in the history: the number of its points, and the time of the newest."""

    id: str
    lab: str
    combination: str
    direction: str
    points: int
    last: datetime


class StoredRun(RunRecord):
    """One run: its record without the results, which are points.

    ``id`` is unique among all runs of all labs. ``folder`` is the run folder. ``verdicts`` counts the points by
    verdict, ``missed`` the combinations that were not measured.
    """

    id: str
    folder: str
    verdicts: Mapping[str, int]
    missed: int = 0
    change: Rare[StoredGate] = None
    results: Annotated[tuple[ResultRecord, ...], Field(exclude=True)] = ()
    skipped: Annotated[tuple[SkippedRecord, ...], Field(exclude=True)] = ()

    @property
    def of_points(self) -> Mapping[str, object]:
        """The fields of the run's points that are the same for all of them."""
        return {
            "run": self.id,
            "session": self.session or "",
            "emulated": self.figures == "emulated",
            "folder": self.folder,
            "complete": self.complete,
            "pinet": self.pinet,
        }
