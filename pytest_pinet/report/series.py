"""The data of charts and pages: the runs of one metric as plain values, independent of the storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.history.points import LevelChange, Point
from pytest_pinet.model.metric_key import CombinationId


@dataclass(frozen=True)
class FigureSeries:
    """The runs of one metric, oldest first. ``band_bps`` is its baseline: lowest run, accepted value, highest run."""

    figure: str
    board: str
    nic: str
    topology: str
    traffic: str
    direction: str
    dots: Sequence[Point]
    shifts: Sequence[LevelChange] = ()
    band_bps: tuple[float, float, float] | None = None
    lab: str = ""
    tuning: str = ""

    @property
    def combination(self) -> str:
        return str(CombinationId(self.board, self.nic, self.topology, self.tuning))

    @property
    def key(self) -> str:
        """Return a unique key. It contains the lab, because several labs may measure the same metric."""
        return f"{self.lab} {self.figure}"

    @property
    def latest(self) -> Point:
        """Return the newest run, which the grid shows."""
        return self.dots[-1]

    @property
    def change(self) -> float | None:
        """Return the newest value over the one before it, minus one."""
        known = [dot.goodput_bps for dot in self.dots if dot.goodput_bps]
        return known[-1] / known[-2] - 1 if len(known) > 1 else None

    @property
    def measured(self) -> Sequence[Point]:
        """Return the runs that have a value."""
        return [dot for dot in self.dots if dot.goodput_bps is not None]
