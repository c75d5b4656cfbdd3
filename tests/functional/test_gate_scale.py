"""A lab whose links run at a tenth of their rate tells the figures of full rate, and says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gate_bench import LAB_FILE, GateLab, Project

from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.scale import Trial, Trials
from pytest_pinet.virtual.spec import spec_of
from pytest_pinet.virtual.trial import ENOUGH, carried

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

GATE = """
import pytest

@pytest.mark.pinet(board=["pi3b", "pi4b"], nic="onboard")
def test_rate(link, gate):
    gate.tcp(link, duration=2)

@pytest.mark.pinet(board="pi4b", nic="onboard", min="85%")
def test_both(link, gate):
    gate.tcp(link, direction="bidir", duration=2)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_capped(link, gate):
    gate.tcp(link, streams=4, bitrate="40M", duration=2)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_datagrams(link, gate):
    gate.udp(link, bitrate="300M", duration=2)

@pytest.mark.pinet(board="pi5", nic="onboard", tuning={"mtu": 9000}, tuning_required=True)
def test_jumbo(link, gate):
    gate.tcp(link, duration=2)
"""
SLOW = """
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_rate(link, gate, direction):
    gate.tcp(link, direction=direction, duration=1)
"""
# Other measurements on this machine come first, by turns.
PATIENCE_S = 300
SAID = "links run at 0.1 of their rate; figures are told at full rate"


def lab_file(folder: Path, scale: str) -> Path:
    file = folder / "virtual.yaml"
    text = LAB_FILE.read_text()
    assert text.count("scale: auto") == 1
    file.write_text(text.replace("scale: auto", f"scale: {scale}"))
    return file


@pytest.fixture(scope="module")
def tenth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    lab = GateLab(lab_file(tmp_path_factory.mktemp("tenth"), "0.1"))
    yield lab
    lab.down()


@dataclass(frozen=True)
class Run:
    """A gate on the lab at a tenth."""

    output: pytest.RunResult
    record: dict[str, Any]

    def result(self, test: str) -> dict[str, Any]:
        (found,) = (one for one in self.record["results"] if test in one["test"])
        return dict(found)

    def mbps(self, test: str, way: str = "tx") -> float:
        return float(self.result(test)["directions"][way]["goodput_bps"]) / 1e6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tenth: GateLab) -> Run:
    project = Project(tmp_path_factory.mktemp("project"), tenth)
    project.write("test_gate.py", GATE)
    return Run(project.pytest("-v", timeout_s=PATIENCE_S), project.results)


def test_the_gate_holds_its_limits(run: Run) -> None:
    assert run.output.ret == 0
    run.output.assert_outcomes(passed=6)


@pytest.mark.parametrize(
    ("test", "mbps"), [("test_rate[pi3b", 94.15), ("test_rate[pi4b", 941.5), ("test_jumbo", 989.8)]
)
def test_one_way_figures_are_those_of_full_rate(run: Run, test: str, mbps: float) -> None:
    assert run.mbps(test) == pytest.approx(mbps, rel=0.03)
    assert run.result(test)["limited_by"]["cause"] == "line rate"


def test_figures_of_both_ways_at_once_are_too(run: Run) -> None:
    for way in ("tx", "rx"):
        assert run.mbps("test_both", way) == pytest.approx(915, rel=0.10)


def test_senders_send_what_they_were_told(run: Run) -> None:
    assert run.mbps("test_capped") == pytest.approx(160, rel=0.03)
    assert run.result("test_capped")["limited_by"]["cause"] == "sender capped"
    assert run.mbps("test_datagrams") == pytest.approx(300, rel=0.03)
    assert run.result("test_datagrams")["directions"]["tx"]["lost_packets"] == 0


def test_counters_tell_what_moved_indeed(run: Run) -> None:
    found = run.result("test_rate[pi4b")
    told = sum(sample["bytes"] for sample in found["directions"]["tx"]["samples"])
    dut = next(cable for cable in found["cables"] if cable["end"] == found["combination"]["dut"])
    assert dut["node"]["tx_bytes"] == pytest.approx(told / 10 * 1514 / 1448, rel=0.05)


def test_the_run_says_at_which_scale_it_was(run: Run) -> None:
    assert run.record["scale"] == 0.1
    assert {result["scale"] for result in run.record["results"]} == {0.1}
    assert SAID in " ".join(line.strip() for line in run.output.outlines)


def test_a_link_that_lost_a_tenth_of_its_rate_fails(tmp_path: Path, tenth: GateLab) -> None:
    project = Project(tmp_path, tenth)
    project.write("test_slow.py", SLOW)
    tenth.pinet("degrade", "pi3b-1:onboard", "--rate", "0.9", "--direction", "tx")
    try:
        output = project.pytest(timeout_s=PATIENCE_S)
    finally:
        tenth.pinet("restore")
    output.assert_outcomes(failed=1, passed=1)
    output.stdout.fnmatch_lines(
        ["*tx 8?.? Mbit/s is *below the limit 88.5 Mbit/s*", "  scale      links ran at 0.1 of*"]
    )
    (failed,) = (result for result in project.results["results"] if result["verdict"] == "fail")
    assert failed["directions"]["tx"]["goodput_bps"] == pytest.approx(0.9 * 94.15e6, rel=0.02)


def test_auto_runs_at_a_tenth_where_this_machine_was_too_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = lab_file(tmp_path, "auto")
    # As a machine leaves it that carries less than half of it.
    fastest_bps = spec_of(load(file)).fastest_bps
    Trials().add(Trial(fastest_bps, 0.42, datetime.now(UTC).isoformat(timespec="seconds")))
    lab = GateLab(file)
    try:
        found = lab.status()
        assert found["scale"] == 0.1
        assert found["scale_because"].startswith("this machine carried 42 % of 2.46 Gbit/s on 20")
        (line,) = (line for line in lab.pinet("status").splitlines() if line.startswith("links run at 0.1"))
        assert len(line) <= 80
        # Rates are told at full rate there, too.
        assert max(i["tx_goodput_bps"] for node in found["nodes"] for i in node["interfaces"]) > 2e9
    finally:
        lab.down()


def test_a_trial_tells_what_this_machine_carries_and_what_it_does_not() -> None:
    assert carried(50e6) >= ENOUGH
    assert carried(200e9) < 0.9
