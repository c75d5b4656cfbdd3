"""What a reader of the history gets: points, trends and where they moved; and `History`, which answers with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_pinet.model.verdict import Verdict

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline
    from pytest_pinet.history.store import Store

# What a reader sees of a trend unless it asks for more.
USUAL_LENGTH = 200


@dataclass(frozen=True)
class Attempt:
    """One connection: what was fresh, its figure, its counted seconds, and why it is excluded (empty: it counts)."""

    fresh: str
    goodput_bps: float
    seconds: float
    excluded: str = ""


@dataclass(frozen=True)
class Attempts:
    """The connections behind a figure, in their order.

    ``state`` is what came of a suspicion: ``confirmed``, ``cleared``, ``undecided``, or empty.
    """

    each: tuple[Attempt, ...] = ()
    state: str = ""

    @property
    def connections(self) -> int:
        return len(self.each)

    @property
    def counted(self) -> int:
        """How many stand in the figure."""
        return sum(not one.excluded for one in self.each)

    @property
    def link_ups(self) -> int:
        """How many came after a fresh link-up."""
        return sum(one.fresh == "link-up" for one in self.each)

    @property
    def seconds(self) -> float:
        """Of traffic that counts."""
        return sum(one.seconds for one in self.each if not one.excluded)


@dataclass(frozen=True)
class Spread:
    """The intervals at the receiver behind a figure, in bit/s; ``sd`` is None for fewer than two."""

    intervals: int
    least_bps: float
    median_bps: float
    most_bps: float
    sd_bps: float | None


@dataclass(frozen=True)
class Point:
    """One figure of one run.

    ``run`` names the run in the history, ``session`` the pytest session that it was. ``figure`` is the figure's id
    (``pi4b:onboard/pair/tcp-P1-tx``), or that of the combination alone where nothing came about (``error``); then
    ``direction`` is empty and ``goodput_bps`` None. So it is with pings, which have an id and no goodput.

    ``serials`` are of the boards, by end; ``artefacts`` are paths relative to the run folder ``folder``. ``parameters``
    is a hash of what was measured and how: points with different ones are no trend. ``number`` counts from 1 when a run
    measured the same figure again. ``limited_by`` says in a line what set the figure. ``scale`` is the share of their
    rate at which links ran.
    """

    run: str
    time: datetime
    lab: str
    figure: str
    combination: str
    direction: str
    goodput_bps: float | None
    verdict: Verdict
    interval_bps: tuple[float, float] | None = None
    limit_bps: float | None = None
    rule: str | None = None
    oracle_bps: float | None = None
    reason: str = ""
    build: Mapping[str, str | None] = field(default_factory=dict)
    serials: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    parameters: str = ""
    session: str = ""
    emulated: bool = False
    artefacts: tuple[str, ...] = ()
    folder: str = ""
    attempts: Attempts = Attempts()
    spread: Spread | None = None
    number: int = 1
    complete: bool = True
    pinet: str = ""
    limited_by: str = ""
    scale: float = 1.0

    @property
    def share(self) -> float | None:
        """The part of the physical limit that was reached."""
        return self.goodput_bps / self.oracle_bps if self.goodput_bps is not None and self.oracle_bps else None


@dataclass(frozen=True)
class Band:
    """An accepted baseline: its figure, and the least and the most of the runs behind it."""

    figure_bps: float
    low_bps: float
    high_bps: float
    runs: int
    date: str
    reason: str


@dataclass(frozen=True)
class Change:
    """A level that moved: ``run`` is the first at the new one, ``last_before`` the last at the old one.

    ``first_possible`` and ``last_possible`` are the runs between which the new level may have begun (99 %).
    ``gradual``: it drifted from ``last_before`` until ``run``, and no single build is to blame. ``differs`` says what
    the two builds differ in, in words; empty when they are the same.
    """

    run: str
    last_before: str
    time: datetime
    before_bps: float
    after_bps: float
    build_before: Mapping[str, str | None]
    build_after: Mapping[str, str | None]
    first_possible: str
    last_possible: str
    differs: tuple[str, ...] = ()
    gradual: bool = False

    @property
    def relative(self) -> float:
        """After over before minus one: -0.05 is 5 % slower."""
        return self.after_bps / self.before_bps - 1


@dataclass(frozen=True)
class Trend:
    """A figure's points in one lab, oldest first; ``levels_bps`` is its level at each point (None: no figure)."""

    figure: str
    lab: str
    points: tuple[Point, ...]
    baseline: Band | None = None
    changes: tuple[Change, ...] = ()
    levels_bps: tuple[float | None, ...] = ()

    @property
    def last(self) -> Point | None:
        """The newest point."""
        return self.points[-1] if self.points else None


@dataclass(frozen=True)
class Figure:
    """What the history has of a figure in a lab: how many points, and when the newest was measured."""

    id: str
    lab: str
    combination: str
    direction: str
    points: int
    last: datetime


@dataclass(frozen=True)
class Run:
    """One run; ``verdicts`` counts its points by verdict, ``skipped`` is how many combinations were not measured."""

    id: str
    lab: str
    started: datetime
    finished: datetime
    emulated: bool
    complete: bool
    exitstatus: int
    pinet: str
    folder: str
    session: str
    verdicts: Mapping[str, int]
    skipped: int = 0


class History:
    """Answers about everything that was measured before; close it, or use it in a ``with``."""

    def __init__(self, store: Store, baselines: Mapping[str, AcceptedBaseline] | None = None) -> None:
        self._store = store
        self._baselines = baselines or {}

    @classmethod
    def open(cls, url: str, baselines: Mapping[str, AcceptedBaseline] | None = None) -> History:
        """Open for reading. ``url`` is a path of an SQLite file, or a URL (``postgresql://user@host/name``).

        ``baselines`` are those of the lab file (`config.baselines.load_baselines`). Raises ConfigError where there is
        no history, or SQLAlchemy is not installed.
        """
        from pytest_pinet.history.store import Store

        return cls(Store.open(url), baselines)

    def trend(self, figure: str, last: int = USUAL_LENGTH, lab: str | None = None, changes: bool = True) -> Trend:
        """The last points of a figure with its baseline, and where its level moved.

        ``lab``: by default the one that measured it last. ``changes=False`` leaves out what costs time.
        """
        from pytest_pinet.history.trends import trend

        lab = lab or self._store.lab_of(figure) or ""
        accepted = self._baselines.get(figure)
        return trend(figure, lab, self._store.points(figure, lab, last), accepted, changes)

    def figures(self, lab: str | None = None) -> list[Figure]:
        """All figures by id, in one lab or in all."""
        return self._store.figures(lab)

    def runs(self, last: int = USUAL_LENGTH, lab: str | None = None) -> list[Run]:
        """The last runs, oldest first."""
        return self._store.runs(last, lab)

    def last_run(self, lab: str | None = None) -> Run | None:
        """The newest run."""
        return next(iter(self.runs(1, lab)), None)

    def points_of(self, run: str) -> Sequence[Point]:
        """All points of a run, by figure."""
        return self._store.points_of(run)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
