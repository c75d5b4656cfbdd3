"""The scale of a virtual lab: the share of the full rate at which its links run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.judge.extras import extras_of
from pytest_pinet.lab.contention import exclusive, lab_key
from pytest_pinet.measure.counters import CounterCheck
from pytest_pinet.model.lab import Lab, Scale
from pytest_pinet.model.limits import Metric
from pytest_pinet.virtual import scale
from pytest_pinet.virtual.link_models import wire_rate
from pytest_pinet.virtual.scale import Trial, Trials
from pytest_pinet.virtual.spec import LabSpec, spec_of
from tests.support import link_stand_in

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
def test_a_lab_file_sets_the_scale_or_asks_for_a_trial(tmp_path: Path, text: str, value: float | None) -> None:
    assert lab(tmp_path, "launcher: virtual", f"scale: {text}").scale == value
    assert lab(tmp_path, "launcher: virtual").scale == 1.0


@pytest.mark.parametrize("text", ["0", "2", "0.001", "fast", "true", "'0.1'"])
def test_other_scales_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected 'auto', or a share of the rate from 0\.01 to 1"):
        lab(tmp_path, "launcher: virtual", f"scale: {text}")


@pytest.mark.parametrize("text", ["auto", "0.1"])
def test_a_lab_of_hardware_cannot_have_a_scale(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="'scale' needs a launcher"):
        lab(tmp_path, f"scale: {text}")


def test_the_daemon_gets_the_scale_and_another_scale_is_another_lab(tmp_path: Path) -> None:
    auto = spec_of(lab(tmp_path, "launcher: virtual", "scale: auto"))
    assert auto.lab.scale is None
    chosen = replace(auto, lab=replace(auto.lab, scale=0.1))
    chosen.write(tmp_path / "spec")
    assert LabSpec.read(tmp_path / "spec") == chosen
    assert spec_of(lab(tmp_path, "launcher: virtual")).digest != auto.digest


def test_the_fastest_flow_is_between_two_nics_of_one_switch(tmp_path: Path) -> None:
    assert spec_of(lab(tmp_path, "launcher: virtual")).fastest_bps == wire_rate(1000)


def trial(part: float, mbps: float = 2461, days: float = 0) -> Trial:
    return Trial(mbps * 1e6, part, (datetime.now(UTC) - timedelta(days=days)).isoformat())


@pytest.fixture
def trials(tmp_path: Path) -> Trials:
    return Trials(tmp_path / "kept" / "trials-here.json")


@pytest.mark.parametrize(("part", "found"), [(1.0, 1.0), (0.975, 1.0), (0.96, 0.1), (0.0, 0.1)])
def test_a_machine_that_misses_the_rate_by_3_percent_runs_at_a_tenth(part: float, found: float) -> None:
    assert scale.scale_for(trial(part)).share == found


def test_the_scale_is_described_in_one_line() -> None:
    kept = Trial(2.461e9, 0.41234, "2026-11-22T06:30:00+00:00")
    assert str(scale.scale_for(kept)) == (
        "links run at 0.1 of their rate (this machine carried 41.2 % of 2.46 Gbit/s on 2026-11-22); "
        "values are converted to full rate"
    )
    assert str(scale.scale_for(replace(kept, part=0.998))) == (
        "links run at full rate (this machine carried 99.8 % of 2.46 Gbit/s on 2026-11-22)"
    )
    assert str(Scale(0.1)) == "links run at 0.1 of their rate; values are converted to full rate"


def test_a_stored_trial_is_used_for_the_rates_that_it_decides(trials: Trials) -> None:
    assert trials.of(2.461e9) is None
    trials.add(trial(0.99))
    assert trials.of(2.461e9) == trials.of(1e9) == trials.read()[0]
    assert trials.of(6e9) is None
    trials.add(trial(0.5, 6315))
    assert trials.of(6.315e9) == trials.of(9e9) == trials.read()[1]
    assert trials.of(3e9) is None, "no trial decides between a rate that was carried and one that was not"


def test_trials_expire_after_a_day_if_slow_and_after_a_month_if_fast(trials: Trials) -> None:
    trials.add(trial(0.5, days=0.9))
    assert trials.of(2.461e9) is not None
    trials.add(trial(0.5, days=1.1))
    assert trials.of(2.461e9) is None
    trials.add(trial(0.98, days=29))
    assert trials.of(2.461e9) is not None
    trials.add(trial(0.98, days=31))
    assert trials.of(2.461e9) is None
    assert len(trials.read()) == 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"machine": 1, "trials": 2}', "null", '{"trials": [{}]}'])
def test_a_broken_file_of_trials_is_ignored(trials: Trials, tmp_path: Path, text: str) -> None:
    trials.add(trial(0.99))
    (tmp_path / "kept" / "trials-here.json").write_text(text)
    assert trials.read() == []
    trials.add(trial(0.99))
    assert len(trials.read()) == 1


def test_trials_of_another_kernel_or_machine_are_ignored(trials: Trials, tmp_path: Path) -> None:
    trials.add(trial(0.99))
    file = tmp_path / "kept" / "trials-here.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "machine": "another"}))
    assert trials.read() == []


def test_trials_that_cannot_be_stored_are_run_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = Trials(tmp_path / "file" / "trials.json")
    nowhere.add(trial(0.99))
    assert nowhere.read() == []


def test_trials_are_stored_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Trials().add(trial(0.99))
    assert [file.parent for file in tmp_path.rglob("trials-*.json")] == [tmp_path / "pytest-pinet"]


def test_a_lab_without_a_link_needs_no_trial(tmp_path: Path, trials: Trials) -> None:
    assert scale.measured_scale(lab(tmp_path, "launcher: virtual"), 0.0, ["false"], trials).share == 1.0


@pytest.mark.parametrize(("answer", "found"), [("0.99", 1.0), ("0.5", 0.1)])
def test_a_trial_is_run_only_once(tmp_path: Path, trials: Trials, answer: str, found: float) -> None:
    # Its own domain, because other measurements need not wait for this one.
    own = lab(tmp_path, "launcher: virtual", f"domains: {{{tmp_path.name[:20]}-{answer[-2:]}: '*'}}")
    root = [sys.executable, "-c", f"print({answer})"]
    assert scale.measured_scale(own, 1e9, root, trials).share == found
    assert scale.measured_scale(own, 1e9, ["false"], trials).share == found


def test_a_failed_trial_says_what_to_write_into_the_lab_file(tmp_path: Path, trials: Trials) -> None:
    root = [sys.executable, "-c", "raise SystemExit('no veth here')"]
    own = lab(tmp_path, "launcher: virtual", "domains: {mine: '*'}")
    with pytest.raises(LabError, match="no veth here") as caught:
        scale.measured_scale(own, 1e9, root, trials)
    assert "scale: 0.1" in str(caught.value)
    assert trials.read() == []


def test_no_trial_is_run_while_another_measurement_runs(tmp_path: Path, trials: Trials) -> None:
    own = lab(tmp_path, "launcher: virtual", "domains: {mine-too: '*'}")
    with exclusive(lab_key(own, ""), ["mine-too"], 1.0, lambda _: None):
        found = scale.measured_scale(own, 1e9, ["false"], trials)
    assert str(found) == "links run at full rate (not measured: another measurement runs on this machine)"
    assert trials.read() == []


def test_counters_and_processor_costs_are_not_scaled(tmp_path: Path) -> None:
    link = link_stand_in.link(tmp_path)
    link.scale = 0.1
    measured = link_stand_in.flow(payload=14_480_000, retransmits=10)
    moved = CounterCheck.__new__(CounterCheck)
    moved._link = link
    assert moved._moved([measured])[0].sent == 1_448_000
    one = link_stand_in.one_connection(measured)
    one = replace(one, measurements=(replace(one.measurements[0], cpu_percent={"dut": 11.584}),))
    cost = extras_of(link.facts, link_stand_in.TX, one, [0])[Metric.CPU]
    assert cost is not None
    assert cost == pytest.approx(1000, rel=1e-3), "percent of a core for each Gbit/s that really moved"
