"""Judgements: verdicts with the values behind them. Results are built from them; nothing changes them later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.figures import FIGURES, Better, Figure
from pytest_pinet.model.limits import Threshold
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict


@dataclass(frozen=True)
class ExtraJudgement:
    """The judgement on a cost of the traffic (retransmits, loss, latency, processor time) by its limit.

    The verdict is ``skipped`` if the value is not known.
    """

    limit: Threshold
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class BaselineDifference:
    """The accepted baseline of a metric (bit/s), and its difference to the connections of this run.

    ``runs`` is the number of runs behind the baseline; with too few runs it does not gate. ``difference`` is relative
    (-0.03: 3 % slower), ``interval`` its interval at the error rate; both are null if there are too few values.
    ``verdict`` is ``skipped`` if the baseline does not gate. ``text`` says all of this.
    """

    figure_bps: float
    runs: int
    date: str
    builds: tuple[str, ...]
    difference: float | None
    interval: tuple[float, float] | None
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class FigureJudgement:
    """One value beside goodput: its ``unit`` (``/s``, ``s``, ``share``, ``ms/Gbit``, ``/Gbit``), and the verdict.

    ``values`` has one value for each connection that counts, and ``value`` is their median (null: no connection has a
    value). ``better`` is ``up`` or ``down``. ``interval``, ``stopped`` and ``state`` are as for a direction.
    """

    unit: str
    better: str
    value: float | None
    values: tuple[float, ...]
    verdict: Verdict
    reason: str
    limit: Threshold | None = None
    interval: tuple[float, float] | None = None
    stopped: str = ""
    state: str = ""

    @classmethod
    def without_limit(cls, figure: Figure, values: Sequence[float]) -> FigureJudgement:
        """Return values that pass, because they have no limit."""
        value = median(values) if values else None
        return cls(figure.unit, figure.better, value, tuple(values), Verdict.PASS, "no limit was set")

    def kind(self, name: str) -> Figure:
        """Return the kind of the value, by its name in the result."""
        return FIGURES.get(name) or Figure(name, self.unit, Better(self.better))


@dataclass(frozen=True)
class DirectionJudgement:
    """One direction: the goodput of all its flows together, the limit on it, and the verdict.

    ``flows`` are pooled over all counted connections. ``interval`` (bit/s): the goodput is outside of it
    with a probability of at most ``error_rate``.
    ``oracle`` is the physical limit and ``because`` says what sets it. ``stopped`` says why traffic stopped. ``state``
    is the outcome of a suspicion (``confirmed``, ``cleared``, ``undecided``; empty: there was none).
    """

    verdict: Verdict
    reason: str
    goodput: Bitrate
    oracle: Bitrate
    because: str
    error_rate: float
    limit: Threshold | None = None
    interval: tuple[float, float] | None = None
    stopped: str = ""
    state: str = ""
    flows: tuple[Flow, ...] = ()
    connections: tuple[Connection, ...] = ()
    extras: tuple[ExtraJudgement, ...] = ()
    baseline: BaselineDifference | None = None


@dataclass(frozen=True)
class FlowJudgement:
    """One of several flows that ran at once.

    ``way`` is the direction whose sum includes this flow (None: no sum does). ``fair`` is the flow's max-min fair rate.
    """

    sender: str
    receiver: str
    way: Direction | None
    fair: Bitrate
    judged: DirectionJudgement

    @property
    def name(self) -> str:
        return f"{self.sender}>{self.receiver}"


@dataclass(frozen=True)
class EvennessJudgement:
    """How evenly several flows shared the link: the lowest share of its fair rate that a flow got, and Jain's index."""

    least_share: float
    least_flow: str
    jain: float
    limits: tuple[Threshold, ...]
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class MeasurementJudgement:
    """The judgement of a whole measurement; ``verdict`` is the worst verdict in it and ``reason`` says why.

    ``wanted`` is what must be fresh for another connection; None if every verdict is final. ``wanted_s`` is the
    length of that connection if it must be longer than usual, else 0.
    """

    verdict: Verdict
    reason: str
    directions: Mapping[Direction, DirectionJudgement] = field(default_factory=dict)
    flows: tuple[FlowJudgement, ...] = ()
    evenness: EvennessJudgement | None = None
    wanted: Fresh | None = None
    wanted_s: int = 0
