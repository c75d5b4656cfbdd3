"""What charts and pages draw: the figures of one combination, run after run; plain values, whoever kept them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pytest_pinet.model.combination import combination_id
from pytest_pinet.model.verdict import Verdict


@dataclass(frozen=True)
class Dot:
    """One figure of one run; None where nothing was measured, known or limited. ``build`` is what ran, shortly.

    ``limited_by`` says what set the figure, where somebody looked. ``scale`` is the share of their rate at which links
    ran.
    """

    run: str
    when: datetime
    goodput_bps: float | None
    verdict: Verdict
    interval_bps: tuple[float, float] | None = None
    limit_bps: float | None = None
    oracle_bps: float | None = None
    build: str = ""
    driver: str = ""
    rule: str = ""
    reason: str = ""
    emulated: bool = False
    limited_by: str = ""
    scale: float = 1.0

    @property
    def share(self) -> float | None:
        """The part of the physical limit that was reached."""
        return self.goodput_bps / self.oracle_bps if self.goodput_bps is not None and self.oracle_bps else None


@dataclass(frozen=True)
class Shift:
    """The level moved with ``run``: from what to what, and which builds lie on either side.

    ``gradual``: it drifted, and no single build is to blame. ``differs`` says what the builds differ in.
    """

    run: str
    before_bps: float
    after_bps: float
    build_before: str
    build_after: str
    gradual: bool = False
    differs: str = ""

    @property
    def change(self) -> float:
        """Relative: -0.1 is 10 % slower."""
        return self.after_bps / self.before_bps - 1 if self.before_bps else 0.0


@dataclass(frozen=True)
class Series:
    """One figure's runs, oldest first; ``band_bps`` is the accepted baseline: lowest run, figure, highest run."""

    figure: str
    board: str
    nic: str
    topology: str
    traffic: str
    direction: str
    dots: Sequence[Dot]
    shifts: Sequence[Shift] = ()
    band_bps: tuple[float, float, float] | None = None
    lab: str = ""
    tuning: str = ""

    @property
    def combination(self) -> str:
        return combination_id(self.board, self.nic, self.topology, self.tuning)

    @property
    def key(self) -> str:
        """What no other series has: several labs may measure the same figure."""
        return f"{self.lab} {self.figure}"

    @property
    def latest(self) -> Dot:
        """What stands in the grid: the newest run's."""
        return self.dots[-1]

    @property
    def change(self) -> float | None:
        """The newest figure over the one before it, minus one."""
        known = [dot.goodput_bps for dot in self.dots if dot.goodput_bps]
        return known[-1] / known[-2] - 1 if len(known) > 1 else None

    @property
    def measured(self) -> Sequence[Dot]:
        """Those that have a figure."""
        return [dot for dot in self.dots if dot.goodput_bps is not None]
