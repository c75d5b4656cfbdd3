"""At which share of their rate a virtual lab runs its links, and what counters have to do with it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import link_bench
import pytest

from pytest_pinet.cables import Cables
from pytest_pinet.config.labfile import load
from pytest_pinet.costs import extras_of
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual import scale
from pytest_pinet.virtual.link_models import goodput, wire_rate
from pytest_pinet.virtual.spec import LabSpec, spec_of

LAB = """\
pinet:
  {key}
  switches:
    sw: {{backend: linux, address: ssh://root@192.0.2.1, ports: [p1, p2, p3]}}
  nodes:
    a: {{board: pi4b, interfaces: {{onboard: {{port: sw/p1}}}}}}
    b: {{board: pi3b, interfaces: {{onboard: {{port: sw/p2}}}}}}
    c: {{board: pi4b, interfaces: {{onboard: {{port: sw/p3}}}}}}
"""


def lab(folder: Path, *keys: str) -> Lab:
    file = folder / "lab.yaml"
    file.write_text(LAB.format(key="\n  ".join(keys) or "name: lab"))
    return load(file)


@pytest.mark.parametrize(("text", "value"), [("auto", None), ("0.1", 0.1), ("1", 1.0)])
def test_a_lab_file_says_the_scale_or_that_it_is_to_be_found(tmp_path: Path, text: str, value: float | None) -> None:
    assert lab(tmp_path, "launcher: virtual", f"scale: {text}").scale == value
    assert lab(tmp_path, "launcher: virtual").scale == 1.0


@pytest.mark.parametrize("text", ["0", "2", "0.001", "fast", "true", "'0.1'"])
def test_other_scales_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected 'auto', or a share of the rate from 0\.01 to 1"):
        lab(tmp_path, "launcher: virtual", f"scale: {text}")


@pytest.mark.parametrize("text", ["auto", "0.1"])
def test_hardware_has_no_scale(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="'scale' is for what a launcher runs links at"):
        lab(tmp_path, f"scale: {text}")


def test_the_scale_travels_to_the_daemon_and_one_that_is_asked_for_is_another_lab(tmp_path: Path) -> None:
    auto = spec_of(lab(tmp_path, "launcher: virtual", "scale: auto"))
    assert auto.scale is None
    chosen = replace(auto, scale=0.1)
    assert LabSpec.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    assert spec_of(lab(tmp_path, "launcher: virtual")).digest != auto.digest


def test_the_fastest_flow_is_what_two_nics_of_one_switch_can(tmp_path: Path) -> None:
    assert spec_of(lab(tmp_path, "launcher: virtual")).fastest_bps == wire_rate(1000)


@pytest.mark.parametrize(("part", "found"), [(1.0, 1.0), (0.975, 1.0), (0.96, 0.1), (0.0, 0.1)])
def test_a_machine_that_misses_3_percent_runs_a_tenth(part: float, found: float) -> None:
    assert scale.scale_for(part) == found


def test_a_report_tells_which_part_arrived() -> None:
    report = {"end": {"sum_received": {"bits_per_second": 0.9 * goodput(wire_rate(1000))}}}
    assert scale.part_of(report, wire_rate(1000)) == pytest.approx(0.9)
    with pytest.raises(LabError, match="iperf3: unable to connect"):
        scale.part_of({"error": "unable to connect"}, 1e9)


def test_who_has_no_link_needs_no_trial(tmp_path: Path) -> None:
    assert scale.found_scale(lab(tmp_path, "launcher: virtual"), 0.0, ["false"]) == 1.0


@pytest.mark.parametrize(("answer", "found"), [("0.99", 1.0), ("0.5", 0.1)])
def test_the_trial_decides(tmp_path: Path, answer: str, found: float) -> None:
    root = [sys.executable, "-c", f"print({answer})"]
    assert scale.found_scale(lab(tmp_path, "launcher: virtual", "domains: {mine: '*'}"), 1e9, root) == found


def test_a_trial_that_fails_says_what_to_write(tmp_path: Path) -> None:
    root = [sys.executable, "-c", "raise SystemExit('no veth here')"]
    with pytest.raises(LabError, match="no veth here") as caught:
        scale.found_scale(lab(tmp_path, "launcher: virtual", "domains: {mine: '*'}"), 1e9, root)
    assert "scale: 0.1" in str(caught.value)


def test_counters_and_processors_know_no_scale(tmp_path: Path) -> None:
    link = link_bench.link(tmp_path)
    link.scale = 0.1
    measured = link_bench.flow(payload=14_480_000, retransmits=10)
    moved = Cables.__new__(Cables)
    moved._link = link
    assert moved._moved([measured])[0].sent == 1_448_000
    one = link_bench.one_try(measured)
    one = replace(one, measurements=(replace(one.measurements[0], cpu_percent={"dut": 11.584}),))
    cost = extras_of(link, link_bench.TX, one, [0]).cpu_percent_per_gbps
    assert cost is not None
    assert cost == pytest.approx(1000, rel=1e-3), "percent of a core for each Gbit/s that really moved"
