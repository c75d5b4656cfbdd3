"""``pinet calibrate`` on a real lab: what it writes is what gates read, and the lab is left as found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from doctor_bench import copy_with, pinet
from gate_bench import PINET, GateLab, wait_until
from visiting_bench import GOODPUT, PAIR

from pytest_pinet.config.calibration import load_calibration, read_calibration
from pytest_pinet.config.labfile import load

TX = f"{PAIR}/tcp-P1-tx"


@pytest.fixture
def lab_file(gate_lab: GateLab, tmp_path: Path) -> Path:
    """The running lab's file in a folder of its own, where its calibration goes."""
    return copy_with(gate_lab, tmp_path, [])


@pytest.mark.slow
def test_connections_link_ups_and_boots_are_measured_written_and_read(gate_lab: GateLab, lab_file: Path) -> None:
    on = gate_lab.nodes_on()
    words = ("--runs", "2", "--links", "1", "--boots", "1", "--direction", "tx", "--json", "--yes")
    told = pinet(gate_lab, "calibrate", "--lab", str(lab_file), PAIR, *words)
    assert told.code == 0
    assert "8 connections of 3 s, tx" in told.errors
    (found,) = json.loads(told.output)
    assert found["id"] == TX
    assert found["goodput_bps"] == pytest.approx(GOODPUT.bps, rel=0.02)
    # Two connections on each of two link-ups of each of two boots; one that was disturbed may be left out.
    freedom = {name: part["freedom"] for name, part in found["noise"].items()}
    assert freedom in [{"connections": connections, "links": 2, "boots": 1} for connections in (3, 4)]
    lab = load(lab_file)
    calibration = load_calibration(lab)
    assert list(calibration) == [TX]
    assert calibration[TX].runs == 4 + freedom["connections"]
    assert calibration[TX].tolerance.fraction == pytest.approx(found["tolerance"])
    assert calibration[TX].noise.connections == pytest.approx(found["noise"]["connections"]["sd"], abs=1e-8)
    assert str(calibration[TX].build["uname"]).startswith("Linux ")
    assert gate_lab.nodes_on() == on
    assert gate_lab.holders() == []


@pytest.mark.slow
def test_an_interruption_keeps_what_is_complete_and_undoes_the_rest(gate_lab: GateLab, lab_file: Path) -> None:
    on = gate_lab.nodes_on()
    calibration = load(lab_file).calibration
    words = [PAIR, "pi4b:onboard/pair", "--runs", "2", "--links", "0", "--direction", "tx", "--yes"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LG_", "PINET_"))}
    process = subprocess.Popen(
        [PINET, "calibrate", "--lab", str(lab_file), *words],
        env={**environment, **gate_lab.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # It appears when the first combination is complete.
        wait_until("the first calibration", calibration.exists, timeout_s=90)
        gate_lab.await_traffic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "interrupted: 1 figures are complete, and written" in errors
    assert f"{TX}, 9" in output
    assert list(read_calibration(calibration)) == [TX]
    wait_until("the end of the traffic", lambda: gate_lab.processes("iperf3") == [])
    assert gate_lab.nodes_on() == on
    assert gate_lab.holders() == []


def test_a_dry_run_tells_the_time_and_touches_nothing(gate_lab: GateLab, lab_file: Path) -> None:
    told = pinet(gate_lab, "calibrate", "--lab", str(lab_file), "--dry-run", "pi4b:*/pair")
    assert told.code == 0
    assert [line.partition(":")[2].split("/")[0] for line in told.errors.splitlines()[:3]] == [
        "onboard",
        "ax88179",
        "rtl8153",
    ]
    assert "about 8 min in all; writes " in told.errors
    assert not load(lab_file).calibration.exists()


def test_mistakes_are_told_with_exit_code_4_before_anything_is_measured(gate_lab: GateLab, lab_file: Path) -> None:
    wrong = pinet(gate_lab, "calibrate", "--lab", str(lab_file), "pi4b:onboad/pair")
    assert wrong.code == 4
    assert "did you mean 'pi4b:onboard/pair'?" in wrong.errors
    way = pinet(gate_lab, "calibrate", "--lab", str(lab_file), "pi4b:onboard/incast:3", "--direction", "tx")
    assert way.code == 4
    assert "--direction: direction 'tx' makes no sense in topology incast:3; accepted: rx" in way.errors
    broken = load(lab_file).calibration
    broken.write_text("calibration: 5\n")
    told = pinet(gate_lab, "calibrate", "--lab", str(lab_file), PAIR)
    assert told.code == 4
    assert f"{broken}:1" in told.errors
    assert broken.read_text() == "calibration: 5\n"
