"""Checks whether the tolerances of a lab exceed the measured noise."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.calibration import Calibration, load_calibration
from pytest_pinet.config.lab_of_file import LabOfFile
from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.profile import PROFILES, Profile
from pytest_pinet.judge.spread import smallest_margin
from pytest_pinet.judge.text import percent
from pytest_pinet.matrix import inventory
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.tolerance import Tolerance
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.traffic import Direction, Traffic


class Tolerances:
    """Checks that each tolerance exceeds the loss of goodput that noise alone can cause."""

    name = "tolerance"
    blocks = ""

    def run(self, bench: Bench) -> Sequence[Finding]:
        lab = bench.lab
        assert isinstance(lab, LabOfFile), "the doctor reads a lab from its file"
        return look(self.name, lab)


def look(check: str, lab: LabOfFile) -> list[Finding]:
    """Return the findings for all pairs of a lab. Raises ConfigError for a file that cannot be read."""
    pairs = [e.combination for e in inventory.entries(lab, [parse_topology("pair")]) if e.combination is not None]
    accepted = {name: one.goodput for name, one in load_baselines(lab).items()}
    return judge(check, lab.file, pairs, lab.limits, load_calibration(lab), PROFILES[lab.profile], accepted)


def judge(
    check: str,
    lab_file: str,
    pairs: Sequence[Combination],
    limits: Iterable[Limit],
    calibration: Mapping[str, Calibration],
    profile: Profile,
    baselines: Mapping[str, Bitrate],
) -> list[Finding]:
    """Report tolerances below the least margin for their metric's noise, and pairs that are not calibrated.

    ``baselines`` are the accepted values by metric ID.
    """
    command = f"pinet calibrate --lab {shlex.quote(lab_file)}"
    found = []
    missing = []
    for pair in pairs:
        own = {name: one for name, one in calibration.items() if name.startswith(f"{pair.id}/")}
        if not own:
            missing.append(pair.id)
        for name, calibrated in own.items():
            bound, source = _tolerance(pair, name, list(limits), calibrated)
            tolerance = _part(bound, baselines.get(name))
            least = smallest_margin(calibrated.noise, profile)
            if tolerance is not None and tolerance < least:
                message = f"{name} tolerates {percent(tolerance)} ({source}), and its noise takes {percent(least)}"
                act = f"tolerate more than that, or look for the noise and measure it again: {command} {pair.id}"
                found.append(Finding(check, Status.WRONG, message=message, act=act))
    if missing:
        what = "nothing" if len(missing) == len(pairs) else ", ".join(missing)
        message = f"{what} is calibrated yet" if what == "nothing" else f"not calibrated: {what}"
        names = "" if len(missing) == len(pairs) else f" {' '.join(missing)}"
        found.append(Finding(check, Status.UNKNOWN, message=message, act=f"{command}{names}"))
    if not found:
        found.append(Finding(check, Status.OK, message=f"{len(pairs)} pairs are calibrated"))
    return found


def _part(tolerance: Tolerance, baseline: Bitrate | None) -> float | None:
    """Return the tolerance as a fraction of the baseline; None for an absolute tolerance without a baseline."""
    if baseline is None:
        return tolerance.relative.fraction if tolerance.absolute is None else None
    return 1 - tolerance.lowest(baseline).bps / baseline.bps


def _tolerance(
    pair: Combination, figure: str, limits: Sequence[Limit], calibrated: Calibration
) -> tuple[Tolerance, str]:
    """Return a metric's tolerance and where it is written: the lab file's, else the one that calibration proposed."""
    way = Direction.RX if figure.endswith("-rx") else Direction.TX
    traffic = Traffic(Direction.BIDIR if "-bidir-" in figure else way)
    limit = most_specific(limits, MetricKey(pair.identity, traffic, way), Metric.TOLERANCE)
    if limit is not None and isinstance(limit.bound, Tolerance):
        return limit.bound, limit.source
    return Tolerance(calibrated.tolerance), str(calibrated.where)
