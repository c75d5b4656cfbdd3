"""Values of links that ran below their rate: every report says so, and none is compared with full rate."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import jsonschema
import pytest

from pytest_pinet.history.accepting import candidate
from pytest_pinet.history.history import lines_of, runs_of
from pytest_pinet.history.points import PointList
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.history.trends import trend
from pytest_pinet.judge.baseline import Baseline, Reference
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.measure.measurement import _ungated
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.published.table import page as published_page
from pytest_pinet.report.allure import content
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.run_files import environment
from pytest_pinet.report.export.openmetrics import openmetrics
from pytest_pinet.report.failure import failure_text
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.page.page import page
from pytest_pinet.report.result_record import parameters_hash
from pytest_pinet.report.sentences import scale_text
from tests.support import link_stand_in
from tests.support.chart_series import series
from tests.support.history_records import FIGURE, day, kept, points_in, with_goodput, with_result
from tests.support.report_records import direction, result, run_record
from tools.results_schema import results_schema

SAID = "inks ran at 0.1 of their rate; values are converted to full rate"
TX = Traffic(Direction.TX)


def tenth(scale: float = 0.1, **more: object) -> ResultRecord:
    return result("pi4b:onboard/pair", {"tx": direction(941.3e6, 885e6)}).replace(scale=scale, **more)


def nights(first: int, count: int, scale: float = 1.0) -> list[RunRecord]:
    found = [day(number) for number in range(first, first + count)]
    if scale == 1:
        return found
    return [with_result(run, scale=scale, parameters="ba9876543210") for run in found]


def test_one_clause_for_all_of_them() -> None:
    full = result("pi4b:onboard/pair", {"tx": direction(941.3e6)})
    assert scale_text([full]) == ""
    assert scale_text([full, tenth(), tenth()]) == f"l{SAID}"
    assert scale_text([tenth(), tenth(scale=0.05)]).startswith("links ran at 0.05 and 0.1 of their rate")


def test_results_of_a_tenth_are_valid_by_the_schema() -> None:
    jsonschema.validate(run_record([tenth()], scale=0.1).dump(), results_schema())


def test_a_summary_in_markdown_says_it_first() -> None:
    assert f"L{SAID}." in summary_markdown(run_record([tenth()])).splitlines()[0]
    assert "of their rate" not in summary_markdown(run_record([result("pi4b:onboard/pair", {"tx": direction(9e8)})]))


def test_a_failure_says_it() -> None:
    slow = tenth(directions={"tx": direction(700e6, 885e6, "fail")}, verdict="fail")
    assert f"  scale      l{SAID}" in failure_text(slow).splitlines()


def test_junit_has_it_as_a_property() -> None:
    assert ("pinet.scale", 0.1) in junit_properties([tenth()])
    assert "pinet.scale" not in dict(junit_properties([result("pi4b:onboard/pair", {"tx": direction(9e8)})]))


def test_allure_has_it_in_environment_parameters_and_description() -> None:
    subject = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {}, "test_rate.py")
    assert ("scale", "0.1", True) in content.parameters(subject, [tenth()])
    assert f"l{SAID}" in content.description_html([tenth()], [])
    assert "scale=links at 0.1 of their rate" in environment(run_record([tenth()])).splitlines()
    assert "scale" not in environment(run_record([result("pi4b:onboard/pair", {"tx": direction(9e8)})]))


def test_the_page_says_it_of_all_runs_or_of_some() -> None:
    now = datetime(2026, 8, 1, tzinfo=UTC)
    full = series()
    assert SAID not in page([full], now)
    some = replace(full, points=PointList([replace(full.points[0], scale=0.1), *full.points[1:]]))
    assert f"In some runs l{SAID}." in page([some], now)
    every = replace(full, points=PointList(replace(dot, scale=0.1) for dot in full.points))
    assert f"In all runs l{SAID}." in page([every], now)


def test_the_table_of_published_values_says_it() -> None:
    assert SAID in " ".join(published_page([], [run_record([tenth()])]).split())
    assert SAID not in " ".join(published_page([], [run_record([])]).split())


def test_exports_say_it() -> None:
    points = [point for _, found in kept(nights(0, 1, scale=0.1)) for point in found]
    assert 'emulated="true",scale="0.1"' in openmetrics(points)
    full = [replace(point, scale=1.0) for point in points]
    assert "scale" not in openmetrics(full)


def test_values_at_different_scales_are_no_trend() -> None:
    assert parameters_hash(TX, 1500, (), 1.0) == parameters_hash(TX, 1500)
    assert len({parameters_hash(TX, 1500, (), scale) for scale in (1.0, 0.1, 0.05)}) == 3
    slow = [with_goodput(run, 900) for run in nights(30, 10, scale=0.1)]
    assert trend(FIGURE, "virtual", points_in([*nights(0, 30), *slow])).changes == ()


def test_the_history_keeps_it(tmp_path: Path) -> None:
    runs = kept([*nights(0, 1), *nights(1, 1, scale=0.1)])
    assert [point.scale for _, points in runs for point in points] == [1.0, 0.1]
    store = HistoryStore.open(f"{tmp_path}/history.db", create=True)
    try:
        store.add_all(runs)
        assert sorted(point.scale for point in store.points(FIGURE, "virtual", 10)) == [0.1, 1.0]
    finally:
        store.close()
    lines = list(lines_of(runs))
    assert sum('"scale"' in line for line in lines) == 1, "files of full rate are what they were"
    assert [point.scale for _, points in runs_of(lines, "here", pytest.fail) for point in points] == [1.0, 0.1]


def test_a_run_at_a_tenth_never_feeds_a_baseline() -> None:
    points = points_in([*nights(0, 6), *nights(6, 7, scale=0.1)])
    found = candidate(trend(FIGURE, "virtual", points), date(2026, 11, 22), "new bench")
    assert found.refused == {"with links below full rate": 7}
    assert found.baseline is not None
    assert len(found.baseline.runs) == 6


@pytest.mark.parametrize(("scale", "gated"), [(1.0, True), (0.1, False)])
def test_a_baseline_of_full_rate_holds_nothing_against_a_tenth(scale: float, gated: bool) -> None:
    link = link_stand_in.facts(scale=scale)
    # Far above the link's rate.
    accepted = Reference(baseline=Baseline(Bitrate(940e6), (Bitrate(940e6),) * 5))
    plan = GatePlan((), PROFILES["fast"], {Direction.TX: accepted})
    found = figures(link, TX, [link_stand_in.one_connection(link_stand_in.flow(payload=110_000_000))], plan).directions[
        Direction.TX
    ]
    assert (found.baseline is not None) is gated
    notes = _ungated(link, TX, plan)
    assert bool(notes) is not gated
    assert all("run at 0.1 of it" in note for note in notes)
