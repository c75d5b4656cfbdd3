"""Known values before a measurement, read from the files beside a lab."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pytest_pinet.config.baselines import AcceptedBaseline, SessionEntry, write_baselines
from pytest_pinet.config.calibration import Calibration, MeasuredNoise, ReferenceData, write_calibration
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.judge.baseline import ANY_TOLERANCE, Reference
from pytest_pinet.judge.noise import UNKNOWN
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.traffic import Direction
from tests.support import doctor_lab
from tests.support.link_stand_in import key

KEY, OTHER = key("pi4b", "onboard"), key("pi4b", "onboard", Direction.RX)
FIGURE = "pi4b:onboard/pair/tcp-P1-tx"


@pytest.fixture
def lab(tmp_path: Path) -> LabOfFile:
    """Return a lab with one accepted and calibrated metric."""
    found = doctor_lab.lab(tmp_path)
    assert isinstance(found, LabOfFile)
    runs = tuple(Bitrate.mbps(mbps) for mbps in (940, 941, 942))
    found.baselines.mkdir()
    path = found.baselines / "all.yaml"
    sessions = (SessionEntry(date(2026, 11, 20), runs=3),)
    accepted = AcceptedBaseline(
        FIGURE, runs[1], runs, {"kernel": "6.12"}, date(2026, 11, 21), "first", sessions, Where("x")
    )
    write_baselines(path, [accepted])
    some, none = Share(0.002), Share(0.0)
    write_calibration(
        found.calibration,
        [Calibration(FIGURE, MeasuredNoise(some, none, none, runs=20), Share(0.04), 2, some, date(2026, 11, 21), {})],
    )
    return found


def test_without_a_lab_there_are_no_reference_data() -> None:
    assert ReferenceData().of(KEY) == Reference(UNKNOWN, None, ANY_TOLERANCE)
    assert ANY_TOLERANCE.metric is Metric.TOLERANCE


def test_a_lab_without_files_has_no_reference_data(tmp_path: Path) -> None:
    found = doctor_lab.lab(tmp_path)
    assert isinstance(found, LabOfFile)
    assert ReferenceData(found).of(KEY) == Reference()


def test_reference_data_come_from_the_files(lab: LabOfFile) -> None:
    known = ReferenceData(lab).of(KEY)
    baseline = known.baseline
    assert baseline is not None
    assert (baseline.figure, len(baseline.runs), baseline.builds) == (Bitrate.mbps(941), 3, ("kernel 6.12",))
    assert known.noise.connections == 0.002
    limit = known.tolerance
    assert limit.bound == Tolerance(Share(0.04))
    assert limit.source.startswith(f"{lab.calibration}:")


def test_another_metric_has_no_reference_data(lab: LabOfFile) -> None:
    known = ReferenceData(lab)
    assert known.of(OTHER) == Reference()
    assert known.of_traffic(KEY.combination, KEY.traffic)[Direction.TX] == known.of(KEY) != Reference()


def test_runs_with_their_own_limits_use_the_noise_but_no_baseline(lab: LabOfFile) -> None:
    known = ReferenceData(lab, gated=False).of(KEY)
    assert known.baseline is None
    assert known.noise.connections == 0.002
    # A broken file must not affect them.
    (lab.baselines / "broken.yaml").write_text("baselines: 7\n")
    ReferenceData(lab, gated=False)
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        ReferenceData(lab)
