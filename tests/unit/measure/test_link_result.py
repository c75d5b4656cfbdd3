"""What a result gets from its link: ids, notes on settings, and the hash of its parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.judge.interleaved import Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.comparison import compared_record
from pytest_pinet.measure.link_result import link_result
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.record.change import ComparisonRecord, SideRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import parameters_hash
from tests.support import link_stand_in

RX = Traffic(Direction.RX, streams=2)
GONE = Tuned("one:onboard", "xps", "all", "", "", SettingOutcome.UNSUPPORTED, "one queue")


@pytest.fixture
def link(tmp_path: Path) -> Link:
    return replace(link_stand_in.link(tmp_path), scale=0.5)


def test_traffic_has_the_id_of_its_metric_and_a_hash_of_its_parameters(link: Link) -> None:
    link.tunings = (GONE,)
    found = link_result(link, RX, MeasurementJudgement(Verdict.PASS, "941 Mbit/s"))
    assert (found.id, found.combination.traffic, found.message) == (
        f"{link.id}/tcp-P2-rx",
        RX.key,
        f"{link.id} 941 Mbit/s",
    )
    assert found.parameters == parameters_hash(RX, 1500, [GONE], 0.5)
    assert found.parameters not in (parameters_hash(RX, 1500, [GONE]), parameters_hash(RX, 1500, (), 0.5))
    assert found.tunings == (GONE,)


def test_a_test_without_goodput_has_its_key_and_no_parameters(link: Link) -> None:
    found = link_result(link, "ping-c10", MeasurementJudgement(Verdict.FAIL, "lost"))
    assert (found.id, found.combination.traffic, found.parameters) == (f"{link.id}/ping-c10", "ping-c10", None)


def test_a_comparison_has_the_hash_of_its_parameters_with_the_settings_of_both_states(link: Link) -> None:
    """State A has been left again, so its setting is not in force any more."""
    link.tried.append(GONE)
    side = SideRecord(a_bps=9e8, b_bps=9e8, change=0.0, interval=(-0.01, 0.01), verdict=Verdict.PASS, why="not slower")
    found = ComparisonRecord(
        id="x", a="A", b="B", why="", tolerance=0.03, error_rate=0.01, pairs=4, turns=(),
        directions={"rx": side}, started="2026-11-23T12:00:00+00:00", seconds=1.0, builds={}, traffic_seconds=1.0,
    )  # fmt: skip
    record = compared_record(link, RX, found, {Side.A: {}, Side.B: {}})
    assert record.parameters == parameters_hash(RX, 1500, [GONE], 0.5)
    assert record.tunings == (GONE,)
