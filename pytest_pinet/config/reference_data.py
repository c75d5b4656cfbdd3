"""The data about a lab's metrics before a measurement: accepted baselines, noise, tolerances."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.calibration import load_calibration
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.model.metric_key import CombinationId, MetricKey
from pytest_pinet.model.traffic import Direction, Traffic


class ReferenceData:
    """Returns reference data by metric key. Without a lab there are none.

    ``gated``: values are compared with their accepted baselines; False for runs that make their own limits. The
    constructor raises ConfigError.
    """

    def __init__(self, lab: LabOfFile | None = None, gated: bool = True) -> None:
        self.baselines = load_baselines(lab) if lab is not None and gated else {}
        self._calibration = load_calibration(lab) if lab is not None else {}

    def of(self, key: MetricKey) -> Reference:
        name = str(key)
        baseline = self.baselines[name].baseline if name in self.baselines else None
        if name not in self._calibration:
            return Reference(baseline=baseline)
        calibration = self._calibration[name]
        return Reference(calibration.judged_noise, baseline, calibration.limit)

    def is_calibrated(self, combinations: Sequence[CombinationId] | None) -> bool:
        """Return whether the noise of all these combinations was measured (None: of any combination)."""
        known = {name.rpartition("/")[0] for name in self._calibration}
        return bool(known) if combinations is None else {str(one) for one in combinations} <= known

    def of_traffic(self, combination: CombinationId, traffic: Traffic) -> dict[Direction, Reference]:
        """Return the data of each direction, also for one-way traffic, because pairs can run in opposite directions."""
        return {way: self.of(MetricKey(combination, traffic, way)) for way in Direction.BIDIR.parts}
