from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from pytest_pinet.history.points import GatedMetric, StoredGate, StoredRun
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.charts.results import Forest
from pytest_pinet.report.page.page import page
from tests.support.chart_series import series
from tests.support.gate_records import build
from tests.support.page_reader import Reader

NOW = datetime(2026, 8, 2, 12, 0, tzinfo=UTC)
TX, RX = "pi4b:onboard/pair/tcp-P1-tx", "pi4b:onboard/pair/tcp-P1-rx"


def metric(verdict: str, figure: str = TX, **values: object) -> GatedMetric:
    entry = {"id": figure, "direction": "", "verdict": verdict, "text": "", "tolerance": 0.01}
    return GatedMetric.model_validate(entry | values)


METRICS = (
    metric("fail", a_bps=941e6, b_bps=894e6, change=-0.05, interval=(-0.06, -0.04), suspect="tso: off"),
    metric("pass", RX, a_bps=941e6, b_bps=942e6, change=0.001, interval=(-0.005, 0.03)),
)
GATE = StoredGate(
    a=build("good", "k1"), b=build("new", "k2"), baseline="interleaved", verdict=Verdict.FAIL, exit=1,
    bisect_exit=1, turns=8, entries=METRICS,
    sentence="new must not be merged: 1 of 2 metrics slower, by 5.0 % in pi4b:onboard/pair/tcp-P1-tx, against good.",
)  # fmt: skip
RUN = StoredRun(
    schema_version=1, id="gate-1", run="gate-1", lab="bench", started="2026-08-02T12:00:00+00:00", folder="",
    verdicts={}, pinet="0.1", exitstatus=1, change=GATE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "interval", "word"),
    [
        ("pass", (-0.005, 0.005), "unchanged"),
        # Whether it is faster is not known.
        ("pass", (-0.005, 0.03), "not slower"),
        ("pass", None, "not slower"),
        ("improved", (0.02, 0.03), "improved"),
        ("inconclusive", (-0.03, 0.03), "undecided"),
    ],
)
def test_unchanged_is_only_what_is_known_to_be_neither_slower_nor_faster(
    verdict: str, interval: tuple[float, float] | None, word: str
) -> None:
    one = metric(verdict, interval=interval)
    assert GATE.word(one) == word
    # Values of an exact gate have no noise, so no interval.
    assert GATE.replace(baseline="exact").word(one) == {"pass": "unchanged"}.get(verdict, word)


def test_all_metrics_are_on_one_axis_with_interval_and_tolerated_band() -> None:
    forest = Forest.of([(one.change, one.interval) for one in METRICS], [0.01, 0.01])
    rows = [forest.row((one.change, one.interval), Verdict.FAIL, one.tolerance) for one in METRICS]
    bands = [re.findall(r'<rect class="f-band" x="([0-9.]+)%" width="([0-9.]+)%"', row) for row in rows]
    assert bands[0] == bands[1] != []
    places = [re.search(r'<use href="#m-fail" x="([0-9.]+)%"', row) for row in rows]
    lefts = [float(place[1]) for place in places if place]
    assert lefts[0] < float(bands[0][0][0]) < lefts[1]
    intervals = [re.findall(r'<line x1="([0-9.]+)%" x2="([0-9.]+)%"/>', row) for row in rows]
    for metric, mark, (interval,) in zip(METRICS, lefts, intervals, strict=True):
        assert metric.interval is not None
        assert interval == tuple(f"{forest.scale(part):.2f}" for part in metric.interval)
        assert float(interval[0]) < mark < float(interval[1])
    assert "-4 %" in forest.axis()


def test_each_metric_has_the_band_of_its_own_tolerance() -> None:
    forest = Forest.of([(0.0, None), (0.01, None)], [0.01, 0.03, None])
    rows = [forest.row((0.0, None), Verdict.PASS, tolerance) for tolerance in (0.01, 0.03, None)]
    widths = [re.findall(r'<rect class="f-band" x="[0-9.]+%" width="([0-9.]+)%"', row) for row in rows]
    assert [len(one) for one in widths] == [1, 1, 0]
    assert float(widths[1][0]) == pytest.approx(3 * float(widths[0][0]), rel=0.01)


@pytest.mark.parametrize(
    ("tolerances", "said"),
    [
        ((0.01, 0.01), "Changes in the shaded band, up to 1&nbsp;%, are tolerated."),
        ((0.01, 0.03), "The shaded band of a metric is its tolerance."),
    ],
)
def test_the_page_says_what_the_band_is(tolerances: tuple[float, float], said: str) -> None:
    metrics = tuple(one.replace(tolerance=own) for one, own in zip(METRICS, tolerances, strict=True))
    text = page([], NOW, gates=[RUN.replace(change=GATE.replace(entries=metrics))])
    assert said in text
    without = tuple(one.replace(tolerance=None) for one in METRICS)
    assert "shaded band" not in page([], NOW, gates=[RUN.replace(change=GATE.replace(entries=without))])


def test_the_page_lists_the_gates_of_the_history_but_not_the_newest_change_twice() -> None:
    text = page([series()], NOW, gates=[RUN])
    assert Reader(text).wrong == []
    section = text.partition('id="gates"')[2].partition("</section>")[0]
    assert "2026-08-02 12:00 gate of new against good: regression" in section
    assert "not slower" in section
    assert "Look first at: tso: off" in section
    assert "8 turns" in section
    assert 'id="gates"' not in page([series()], NOW, gates=[RUN.replace(change=None)])
