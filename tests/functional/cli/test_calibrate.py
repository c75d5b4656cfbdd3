"""``pinet calibrate`` on a real lab: gates read the file that it writes, and the lab is unchanged afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.config.calibration import load_calibration, read_calibration
from pytest_pinet.config.labfile import load
from tests.support.doctor_command import copy_with, pinet
from tests.support.gate_project import PINET, GateLab
from tests.support.visited_link import GOODPUT, PAIR
from tests.support.waiting import wait_until

TX = f"{PAIR}/tcp-P1-tx"


@pytest.fixture
def lab_file(full_rate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the running lab's file in its own folder, where its calibration is written. It names the coordinator."""
    for name, value in full_rate_lab.environment.items():
        monkeypatch.setenv(name, value)
    return copy_with(full_rate_lab, tmp_path, [])


@pytest.mark.slow
def test_connections_link_ups_and_boots_are_measured_written_and_read(full_rate_lab: GateLab, lab_file: Path) -> None:
    on = full_rate_lab.nodes_on()
    words = ("--connections", "2", "--links", "1", "--boots", "1", "--direction", "tx", "--json", "--yes")
    answer = pinet(full_rate_lab, "calibrate", "--lab", str(lab_file), PAIR, *words)
    assert answer.code == 0
    assert "8 connections of 3 s, tx" in answer.errors
    (found,) = json.loads(answer.output)
    assert found["id"] == TX
    assert found["goodput_bps"] == pytest.approx(GOODPUT.bps, rel=0.2)
    # Two connections on each of two link-ups of each of two boots. One disturbed connection may be excluded.
    freedom = {name: part["freedom"] for name, part in found["noise"].items()}
    assert freedom in [{"connections": connections, "links": 2, "boots": 1} for connections in (3, 4)]
    lab = load(lab_file)
    calibration = load_calibration(lab)
    assert list(calibration) == [TX]
    assert calibration[TX].noise.runs == 4 + freedom["connections"]
    assert calibration[TX].tolerance.fraction == pytest.approx(found["tolerance"])
    assert calibration[TX].noise.connections.fraction == pytest.approx(found["noise"]["connections"]["sd"], abs=1e-8)
    assert str(calibration[TX].build["uname"]).startswith("Linux ")
    assert full_rate_lab.nodes_on() == on
    assert full_rate_lab.holders() == []


@pytest.mark.slow
def test_an_interrupted_calibration_keeps_complete_results_and_restores_the_lab(
    full_rate_lab: GateLab, lab_file: Path
) -> None:
    on = full_rate_lab.nodes_on()
    calibration = load(lab_file).calibration
    words = [PAIR, "pi4b:onboard/pair", "--connections", "2", "--links", "0", "--direction", "tx", "--yes"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LG_", "PINET_"))}
    process = subprocess.Popen(
        [PINET, "calibrate", "--lab", str(lab_file), *words],
        env={**environment, **full_rate_lab.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # The file appears when the first combination is complete.
        wait_until("the first calibration", calibration.exists, timeout_s=180)
        full_rate_lab.await_traffic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "interrupted: 1 complete result saved" in errors
    assert f"{TX}, " in output
    assert list(read_calibration(calibration)) == [TX]
    wait_until("the end of the traffic", lambda: full_rate_lab.processes("iperf3") == [])
    assert full_rate_lab.nodes_on() == on
    assert full_rate_lab.holders() == []


def test_a_dry_run_prints_the_time_and_changes_nothing(
    gate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_file = copy_with(gate_lab, tmp_path, [])
    use_variables(gate_lab, monkeypatch)
    answer = pinet(gate_lab, "calibrate", "--lab", str(lab_file), "--dry-run", "pi4b:*/pair")
    assert answer.code == 0
    assert [line.partition(":")[2].split("/")[0] for line in answer.errors.splitlines()[:3]] == [
        "onboard",
        "ax88179",
        "rtl8153",
    ]
    assert "this takes about 8 min and writes " in answer.errors
    assert not load(lab_file).calibration.exists()


def use_variables(lab: GateLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables of the lab file in this process, which reads it, too."""
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)


def test_wrong_arguments_exit_with_code_4_before_a_measurement(
    gate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_file = copy_with(gate_lab, tmp_path, [])
    use_variables(gate_lab, monkeypatch)
    wrong = pinet(gate_lab, "calibrate", "--lab", str(lab_file), "pi4b:onboad/pair")
    assert wrong.code == 4
    assert "did you mean 'pi4b:onboard/pair'?" in wrong.errors
    way = pinet(gate_lab, "calibrate", "--lab", str(lab_file), "pi4b:onboard/incast:3", "--direction", "tx")
    assert way.code == 4
    assert "--direction: direction 'tx' is not possible in topology incast:3; accepted: rx" in way.errors
    broken = load(lab_file).calibration
    broken.write_text("calibration: 5\n")
    answer = pinet(gate_lab, "calibrate", "--lab", str(lab_file), PAIR)
    assert answer.code == 4
    assert f"{broken}:1" in answer.errors
    assert broken.read_text() == "calibration: 5\n"
