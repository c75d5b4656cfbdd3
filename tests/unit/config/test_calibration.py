"""The file of pinet calibrate, and what is known of a metric before its gate."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from pytest_pinet.config import labfile
from pytest_pinet.config.baselines import AcceptedBaseline, SessionEntry, write_baselines
from pytest_pinet.config.calibration import (
    Calibration,
    MeasuredNoise,
    ReferenceData,
    load_calibration,
    read_calibration,
    write_calibration,
)
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.judge.baseline import ANY_TOLERANCE, Reference
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.judge.spread import UNKNOWN
from pytest_pinet.model.limits import Metric, Origin, parse_limit
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.traffic import Direction
from tests.support import doctor_lab
from tests.support.link_stand_in import key
from tests.support.two_boards import two_boards

MISTAKES = yaml.safe_load(Path(__file__).with_name("calibration_mistakes.yaml").read_text(encoding="utf-8"))
LAB = two_boards()
GOOD = """\
# Written by `pinet calibrate`: the noise of each metric, and the tolerance that follows from it.
calibration:
- id: pi4b:onboard/pair/tcp-P1-tx
  noise: {connections: 0.3%, links: 0.2%, boots: null, runs: 10, link_ups: 1}
  tolerance: 3%
  repeats: 3
  margin: 1.2%
  date: 2026-11-21
  build: {kernel: 6.12.34-v8+}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabOfFile:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.yaml").write_text(LAB)
    return labfile.load("lab.yaml")


def calibration(name: str = "pi4b:onboard/pair/tcp-P1-tx", links: float | None = 0.002) -> Calibration:
    return Calibration(
        id=name,
        noise=MeasuredNoise(Share(0.003), None if links is None else Share(links), runs=10),
        tolerance=Share(0.03),
        repeats=3,
        margin=Share(0.012),
        date=date(2026, 11, 21),
        build={"kernel": "6.12.34-v8+"},
    )


def test_without_a_file_there_is_no_calibration(lab: LabOfFile) -> None:
    assert load_calibration(lab) == {}


def test_it_is_read_beside_the_lab_file_or_where_that_says(lab: LabOfFile) -> None:
    Path("lab.calibration.yaml").write_text(GOOD)
    assert load_calibration(lab) == {"pi4b:onboard/pair/tcp-P1-tx": calibration()}
    Path("lab.yaml").write_text(f"{LAB}  calibration: noise/bench.yaml\n")
    other = labfile.load("lab.yaml")
    assert load_calibration(other) == {}
    write_calibration(other.calibration, [calibration("x:y/pair/tcp-P1-rx")])
    assert list(load_calibration(other)) == ["x:y/pair/tcp-P1-rx"]


def test_it_gives_the_noise_that_the_judge_reckons_with(lab: LabOfFile) -> None:
    Path("lab.calibration.yaml").write_text(GOOD)
    noise = load_calibration(lab)["pi4b:onboard/pair/tcp-P1-tx"].judged_noise
    assert (noise.connections, noise.freedom, noise.links) == pytest.approx((0.003, 9, 0.002))


def test_noise_that_was_not_measured_has_the_default_value() -> None:
    assert calibration(links=None).judged_noise.sessions == UNKNOWN.sessions
    assert calibration(links=0.0001).judged_noise.sessions == UNKNOWN.sessions
    assert calibration(links=0.02).judged_noise.sessions == pytest.approx(0.02)
    measured = MeasuredNoise(Share(0.003), Share(0.0003), Share(0.0004), runs=10)
    assert replace(calibration(), noise=measured).judged_noise.sessions == pytest.approx(0.0005)


def test_its_tolerance_yields_to_whatever_anybody_wrote() -> None:
    proposed = calibration().limit
    for origin in (Origin.LAB_FILE, Origin.MARKER):
        written = parse_limit(Metric.TOLERANCE, "5%", origin, "written")
        limit = most_specific([proposed, written], key("pi4b", "onboard"), Metric.TOLERANCE)
        assert limit is not None
        assert limit.source == "written"
    assert str(proposed.bound) == "3%"


def test_writing_keeps_the_entries_of_other_metrics(tmp_path: Path) -> None:
    path = tmp_path / "lab.calibration.yaml"
    write_calibration(path, [calibration("b:x/pair/tcp-P1-tx"), calibration("a:x/pair/tcp-P1-tx", links=None)])
    louder = replace(calibration("b:x/pair/tcp-P1-tx"), noise=MeasuredNoise(Share(0.02), runs=10), repeats=7)
    write_calibration(path, [louder])
    found = read_calibration(path)
    assert list(found) == ["a:x/pair/tcp-P1-tx", "b:x/pair/tcp-P1-tx"]
    assert found["b:x/pair/tcp-P1-tx"] == louder
    assert found["a:x/pair/tcp-P1-tx"].noise.links is None


def test_written_calibrations_give_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "lab.calibration.yaml"
    write_calibration(path, [calibration()])
    assert path.read_text() == GOOD
    write_calibration(path, [calibration()])
    assert path.read_text() == GOOD


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "lab.calibration.yaml"
    path.write_text("calibration: [\n")
    with pytest.raises(ConfigError, match="this is not YAML"):
        write_calibration(path, [calibration()])
    assert path.read_text() == "calibration: [\n"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["says"][:60])
def test_a_mistake_is_one_sentence(lab: LabOfFile, mistake: dict[str, str]) -> None:
    assert mistake["old"] in GOOD
    Path("lab.calibration.yaml").write_text(GOOD.replace(mistake["old"], mistake["new"], 1))
    with pytest.raises(ConfigError) as caught:
        load_calibration(lab)
    assert str(caught.value) == f"lab.calibration.yaml:{mistake['says']}"


def test_the_error_of_a_duplicate_id_names_both_places(lab: LabOfFile) -> None:
    Path("lab.calibration.yaml").write_text(GOOD + GOOD.partition("calibration:\n")[2])
    with pytest.raises(ConfigError) as caught:
        load_calibration(lab)
    assert str(caught.value) == (
        "lab.calibration.yaml:10: 'pi4b:onboard/pair/tcp-P1-tx' is a duplicate; the first one is in "
        "lab.calibration.yaml:3"
    )


def test_the_degrees_of_freedom_come_from_runs_and_link_ups() -> None:
    on_eight = MeasuredNoise(Share(0.003), runs=32, link_ups=8)
    found = replace(calibration(), noise=on_eight).judged_noise
    assert (found.freedom, found.session_freedom) == (24, 7)
    assert replace(calibration(), noise=MeasuredNoise(Share(0.003), runs=32)).judged_noise.session_freedom is None


KEY, OTHER = key("pi4b", "onboard"), key("pi4b", "onboard", Direction.RX)
FIGURE = "pi4b:onboard/pair/tcp-P1-tx"


@pytest.fixture
def lab_with_data(tmp_path: Path) -> LabOfFile:
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


def test_reference_data_come_from_the_files(lab_with_data: LabOfFile) -> None:
    known = ReferenceData(lab_with_data).of(KEY)
    baseline = known.baseline
    assert baseline is not None
    assert (baseline.figure, len(baseline.runs), baseline.builds) == (Bitrate.mbps(941), 3, ("kernel 6.12",))
    assert known.noise.connections == 0.002
    limit = known.tolerance
    assert limit.bound == Tolerance(Share(0.04))
    assert limit.source.startswith(f"{lab_with_data.calibration}:")


def test_another_metric_has_no_reference_data(lab_with_data: LabOfFile) -> None:
    known = ReferenceData(lab_with_data)
    assert known.of(OTHER) == Reference()
    assert known.of_traffic(KEY.combination, KEY.traffic)[Direction.TX] == known.of(KEY) != Reference()


def test_runs_with_their_own_limits_use_the_noise_but_no_baseline(lab_with_data: LabOfFile) -> None:
    known = ReferenceData(lab_with_data, gated=False).of(KEY)
    assert known.baseline is None
    assert known.noise.connections == 0.002
    # A broken file must not affect them.
    (lab_with_data.baselines / "broken.yaml").write_text("baselines: 7\n")
    ReferenceData(lab_with_data, gated=False)
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        ReferenceData(lab_with_data)
