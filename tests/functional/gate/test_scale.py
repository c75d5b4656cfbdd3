"""A lab with links at a tenth of their rate reports values at full rate, and says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.scale import ENOUGH, Trial, Trials, carried
from pytest_pinet.virtual.spec import spec_of
from tests.support.gate_project import LAB_FILE, GateLab, NewProject

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

GATE = """
import pytest

@pytest.mark.pinet(board=["pi3b", "pi4b"], nic="onboard", min="50%")
def test_rate(link, gate):
    gate.tcp(link, duration=1)

@pytest.mark.pinet(board="pi4b", nic="onboard", min="50%")
def test_both(link, gate):
    gate.tcp(link, direction="bidir", duration=1)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_capped(link, gate):
    gate.tcp(link, streams=4, bitrate="40M", duration=1, min="100 Mbit/s")

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_datagrams(link, gate):
    gate.udp(link, bitrate="300M", duration=1, min="200 Mbit/s")

@pytest.mark.pinet(board="pi5", nic="onboard", tuning={"mtu": 9000}, tuning_required=True, min="50%")
def test_jumbo(link, gate):
    gate.tcp(link, duration=1)
"""
SAID = "links run at 0.1 of their rate; values are converted to full rate"


@dataclass(frozen=True)
class Run:
    """A gate on the lab at a tenth of the rate."""

    output: pytest.RunResult
    record: dict[str, Any]

    def result(self, test: str) -> dict[str, Any]:
        (found,) = (one for one in self.record["results"] if test in one["test"])
        return dict(found)

    def mbps(self, test: str, way: str = "tx") -> float:
        return float(self.result(test)["directions"][way]["goodput_bps"]) / 1e6


@pytest.fixture(scope="module")
def run(new_project: NewProject) -> Run:
    project = new_project({"test_gate.py": GATE})
    return Run(project.pytest("-v", timeout_s=300), project.results)


def test_the_gate_holds_its_limits(run: Run) -> None:
    assert run.output.ret == 0
    run.output.assert_outcomes(passed=6)


@pytest.mark.parametrize(
    ("test", "mbps"), [("test_rate[pi3b", 94.15), ("test_rate[pi4b", 941.5), ("test_jumbo", 989.8)]
)
def test_one_way_figures_are_those_of_full_rate(run: Run, test: str, mbps: float) -> None:
    # Without the conversion the values would be a tenth of this.
    assert 0.8 * mbps < run.mbps(test) < 1.005 * mbps


def test_figures_of_both_ways_at_once_are_too(run: Run) -> None:
    for way in ("tx", "rx"):
        assert run.mbps("test_both", way) == pytest.approx(915, rel=0.25)


def test_senders_send_what_they_were_told(run: Run) -> None:
    assert run.mbps("test_capped") == pytest.approx(160, rel=0.1)
    assert run.result("test_capped")["limited_by"]["cause"] == "sender capped"
    assert run.mbps("test_datagrams") == pytest.approx(300, rel=0.1)


def test_counters_tell_what_moved_indeed(run: Run) -> None:
    found = run.result("test_rate[pi4b")
    told = sum(sample["bytes"] for one in found["directions"]["tx"]["connections"] for sample in one["samples"])
    dut = next(cable for cable in found["cables"] if cable["end"] == found["combination"]["dut"])
    assert told / 10 < dut["node"]["tx_bytes"] < 1.3 * told / 10


def test_the_run_says_at_which_scale_it_was(run: Run) -> None:
    assert run.record["scale"] == 0.1
    assert {result["scale"] for result in run.record["results"]} == {0.1}
    assert SAID in " ".join(line.strip() for line in run.output.outlines)


def test_auto_runs_at_a_tenth_where_this_machine_was_too_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "virtual.yaml"
    file.write_text(LAB_FILE.read_text())
    # As on a machine that carries less than half of it.
    fastest_bps = spec_of(load(file)).fastest_bps
    Trials().add(Trial(fastest_bps, 0.42, datetime.now(UTC).isoformat(timespec="seconds")))
    lab = GateLab(file)
    try:
        found = lab.status()
        assert found["scale"] == 0.1
        assert found["scale_because"].startswith("this machine carried 42 % of 2.46 Gbit/s on 20")
        (line,) = (line for line in lab.pinet("status").splitlines() if line.startswith("links run at 0.1"))
        assert len(line) <= 80
        # This command also reports rates at full rate.
        assert max(i["tx_goodput_bps"] for node in found["nodes"] for i in node["interfaces"]) > 2e9
    finally:
        lab.down()


def test_a_trial_tells_what_this_machine_carries_and_what_it_does_not() -> None:
    # So little that the queues of the path can bridge the time that other work takes a processor away.
    assert carried(5e6) >= ENOUGH
    assert carried(200e9) < 0.9
