"""Tolerances must be larger than the noise."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from pytest_pinet.config.calibration import Calibration, MeasuredNoise, write_calibration
from pytest_pinet.config.labfile import load
from pytest_pinet.doctor.bench import Finding, Status
from pytest_pinet.doctor.disturbances import judge_tolerances
from pytest_pinet.model.quantities import Share
from tests.support import doctor_lab

PAIRS = ("pi4b:onboard", "pi4b:ax88179", "cm4:onboard", "cm4:aqc107")


def calibration(pair: str, noise: float, tolerance: float = 0.03) -> Calibration:
    share = Share(noise)
    measured = MeasuredNoise(share, Share(0.0), Share(0.0), runs=20)
    return Calibration(f"{pair}/pair/tcp-P1-tx", measured, Share(tolerance), 1, share, date(2026, 11, 21), {})


def found(folder: Path, *calibrations: Calibration, limits: str = "", baselines: str = "") -> list[Finding]:
    file = folder / "lab.yaml"
    if baselines:
        (folder / "baselines").mkdir()
        (folder / "baselines" / "all.yaml").write_text(baselines)
    file.write_text(doctor_lab.LAB_FILE + limits)
    lab = load(file)
    if calibrations:
        write_calibration(lab.calibration, calibrations)
    return judge_tolerances(lab)


def test_a_lab_without_a_calibration_is_unknown(tmp_path: Path) -> None:
    (finding,) = found(tmp_path)
    assert finding.status is Status.UNKNOWN
    assert finding.message == "no pair is calibrated yet"
    assert finding.act == f"measure the noise: pinet calibrate --lab {tmp_path / 'lab.yaml'}"


def test_pairs_without_a_calibration_are_named_with_the_command(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, *(calibration(pair, 0.001) for pair in PAIRS[1:]))
    assert finding.status is Status.UNKNOWN
    assert finding.message == "not calibrated: pi4b:onboard/pair"
    assert finding.act.endswith(" pi4b:onboard/pair")


def test_tolerances_above_the_noise_are_ok(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, *(calibration(pair, 0.001) for pair in PAIRS))
    assert (finding.status, finding.message) == (Status.OK, "4 pairs are calibrated")


def test_a_tolerance_of_the_lab_file_below_the_noise_is_wrong(tmp_path: Path) -> None:
    limits = "  limits:\n    - {board: cm4, nic: aqc107, tolerance: 1%}\n"
    (finding,) = found(tmp_path, *(calibration(pair, 0.04) for pair in PAIRS), limits=limits)
    assert finding.status is Status.WRONG
    assert finding.message.startswith(f"the tolerance of cm4:aqc107/pair/tcp-P1-tx is 1.0 % ({tmp_path / 'lab.yaml'}:")
    assert "but noise alone can lower goodput by" in finding.message
    assert finding.act.endswith(f"pinet calibrate --lab {tmp_path / 'lab.yaml'} cm4:aqc107/pair")


def test_a_tolerance_of_the_calibration_file_below_the_noise_is_wrong(tmp_path: Path) -> None:
    low = calibration("pi4b:onboard", 0.04, tolerance=0.005)
    (finding,) = found(tmp_path, low, *(calibration(pair, 0.001) for pair in PAIRS[1:]))
    assert finding.status is Status.WRONG
    assert "lab.calibration.yaml:" in finding.message


BOTH_PARTS = "  limits:\n    - {board: cm4, nic: aqc107, tolerance: 1% and 40 Mbit/s}\n"


def accepted(mbps: int) -> str:
    return (
        "baselines:\n"
        f"  - {{id: cm4:aqc107/pair/tcp-P1-tx, goodput: {mbps} Mbit/s, runs: [{mbps} Mbit/s], build: {{kernel: x}}, "
        "date: 2026-11-21, reason: first, sessions: [{day: 2026-11-20}]}\n"
    )


def test_an_absolute_tolerance_is_compared_as_a_share_of_the_baseline(tmp_path: Path) -> None:
    # 40 Mbit/s are 42.6 % of 94 Mbit/s, and 1.7 % of 2353.
    noisy = [calibration(pair, 0.04) if "aqc107" in pair else calibration(pair, 0.001) for pair in PAIRS]
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    for folder in (slow, fast):
        folder.mkdir()
    (well,) = found(slow, *noisy, limits=BOTH_PARTS, baselines=accepted(94))
    assert well.status is Status.OK
    (finding,) = found(fast, *noisy, limits=BOTH_PARTS, baselines=accepted(2353))
    assert finding.message.startswith("the tolerance of cm4:aqc107/pair/tcp-P1-tx is 1.7 % (")


def test_an_absolute_tolerance_without_a_baseline_is_not_judged(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, *(calibration(pair, 0.04, tolerance=0.5) for pair in PAIRS), limits=BOTH_PARTS)
    assert finding.status is Status.OK
