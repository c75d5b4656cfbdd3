"""What is known of a lab's figures before they are measured: accepted baselines, noise, tolerances."""

from __future__ import annotations

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.calibration import load_calibration
from pytest_pinet.config.lab_of_file import LabOfFile
from pytest_pinet.judge.baseline import Baseline
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.tolerance import DEFAULT_TOLERANCE

# The least specific tolerance, for accepted baselines of which nobody said more.
ANY_TOLERANCE = Limit(DEFAULT_TOLERANCE, Origin.LAB_FILE, "nobody said otherwise", metric=Metric.TOLERANCE)


class Known:
    """Answers by a figure's id (``pi4b:onboard/pair/tcp-P1-tx``); without a lab nothing is known.

    ``gated``: figures are held against their accepted baselines; False for runs that make up limits of their own. The
    construction raises ConfigError.
    """

    def __init__(self, lab: LabOfFile | None = None, gated: bool = True) -> None:
        self._baselines = load_baselines(lab) if lab is not None and gated else {}
        self._calibration = load_calibration(lab) if lab is not None else {}

    def noise(self, figure_id: str) -> Noise:
        """How much it varies when nothing changed."""
        return self._calibration[figure_id].noise if figure_id in self._calibration else UNKNOWN

    def baseline(self, figure_id: str) -> Baseline | None:
        """What was accepted of it."""
        return self._baselines[figure_id].baseline if figure_id in self._baselines else None

    def tolerance(self, figure_id: str) -> Limit:
        """How far below its baseline it may lie where no limit says so."""
        return self._calibration[figure_id].limit if figure_id in self._calibration else ANY_TOLERANCE
