"""Checks whether the tolerances of a lab exceed the measured noise."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.calibration import Calibration, load_calibration
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.spread import smallest_margin
from pytest_pinet.judge.text import percent
from pytest_pinet.matrix.inventory import PAIR, entries
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Tolerance
from pytest_pinet.model.traffic import Direction, Traffic


def check_tolerances(bench: Bench) -> Sequence[Finding]:
    """Check that each tolerance exceeds the loss of goodput that noise alone can cause."""
    assert isinstance(bench.lab, LabOfFile), "the doctor reads a lab from its file"
    return look(bench.lab)


def look(lab: LabOfFile) -> list[Finding]:
    """Return tolerances below the smallest margin for their noise, and uncalibrated pairs. Raises ConfigError."""
    pairs = [e.combination for e in entries(lab, [PAIR]) if e.combination is not None]
    baselines = {name: one.goodput for name, one in load_baselines(lab).items()}
    calibration = load_calibration(lab)
    command = f"pinet calibrate --lab {shlex.quote(lab.file)}"
    found = []
    missing = []
    for pair in pairs:
        own = {name: one for name, one in calibration.items() if name.startswith(f"{pair.id}/")}
        if not own:
            missing.append(pair.id)
        for name, calibrated in own.items():
            bound, source = _tolerance(pair, name, lab.limits, calibrated)
            tolerance = _fraction(bound, baselines.get(name))
            margin = smallest_margin(calibrated.judged_noise, PROFILES[lab.profile])
            if tolerance is not None and tolerance < margin:
                message = (
                    f"the tolerance of {name} is {percent(tolerance)} ({source}), but noise alone can lower goodput by "
                    f"{percent(margin)}: an unchanged kernel can fail"
                )
                act = f"raise the tolerance, or remove the cause of the noise and calibrate again: {command} {pair.id}"
                found.append(Finding(Status.WRONG, message=message, act=act))
    if missing:
        everything = len(missing) == len(pairs)
        message = "no pair is calibrated yet" if everything else f"not calibrated: {', '.join(missing)}"
        act = f"measure the noise: {command}{'' if everything else ' ' + ' '.join(missing)}"
        found.append(Finding(Status.UNKNOWN, message=message, act=act))
    return found or [Finding(Status.OK, message=f"{len(pairs)} pairs are calibrated")]


def _fraction(tolerance: Tolerance, baseline: Bitrate | None) -> float | None:
    """Return the tolerance as a fraction of the baseline; None for an absolute tolerance without a baseline."""
    if baseline is None:
        return tolerance.relative.fraction if tolerance.absolute is None else None
    return 1 - tolerance.lowest(baseline).bps / baseline.bps


def _tolerance(pair: Combination, name: str, limits: Iterable[Limit], calibrated: Calibration) -> tuple[Tolerance, str]:
    """Return a metric's tolerance and where it is written: the lab file's, else the one that calibration proposed."""
    way = Direction.RX if name.endswith("-rx") else Direction.TX
    traffic = Traffic(Direction.BIDIR if "-bidir-" in name else way)
    limit = most_specific(list(limits), MetricKey(pair.identity, traffic, way), Metric.TOLERANCE)
    if limit is not None and isinstance(limit.bound, Tolerance):
        return limit.bound, limit.source
    return Tolerance(calibrated.tolerance), str(calibrated.where)
