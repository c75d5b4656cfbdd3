from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pytest_pinet.history.gates import GateBuild, GatedMetric, StoredGate
from pytest_pinet.history.points import StoredRun
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.page.change import outcome_word
from pytest_pinet.report.page.forest import Forest
from pytest_pinet.report.page.page import page
from tests.support.chart_series import series
from tests.support.page_reader import Reader

NOW = datetime(2026, 8, 2, 12, 0, tzinfo=UTC)
METRICS = (
    GatedMetric("pi4b:onboard/pair/tcp-P1-tx", "regression", 941e6, 894e6, -0.05, (-0.06, -0.04), 0.01, "", "tso: off"),
    GatedMetric("pi4b:onboard/pair/tcp-P1-rx", "unchanged", 941e6, 942e6, 0.001, (-0.005, 0.03), 0.01),
)
GATE = StoredGate(
    GateBuild("good", "k1", "6.12.1"), GateBuild("new", "k2", "6.12.2"), "interleaved", "regression", 1,
    "new must not be merged: 1 of 2 metrics slower, by 5.0 % in pi4b:onboard/pair/tcp-P1-tx, against good.", 8, METRICS,
)  # fmt: skip
RUN = StoredRun("gate-1", "bench", NOW, NOW, False, True, 1, "0.1", "", "s", {}, gate=GATE)


@pytest.mark.parametrize(
    ("outcome", "interval", "word"),
    [
        ("unchanged", (-0.005, 0.005), "unchanged"),
        # Whether it is faster is not known.
        ("unchanged", (-0.005, 0.03), "not slower"),
        ("unchanged", None, "not slower"),
        ("improved", (0.02, 0.03), "improved"),
        ("undecided", (-0.03, 0.03), "undecided"),
    ],
)
def test_unchanged_is_only_what_is_known_to_be_neither_slower_nor_faster(
    outcome: str, interval: tuple[float, float] | None, word: str
) -> None:
    assert outcome_word(GatedMetric("x", outcome, interval=interval, tolerance=0.01)) == word


def test_all_metrics_are_on_one_axis_with_interval_and_tolerated_band() -> None:
    forest = Forest.of([(one.change, one.interval) for one in METRICS], [0.01, 0.01])
    rows = [forest.row((one.change, one.interval), Verdict.FAIL) for one in METRICS]
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


def test_metrics_with_different_tolerances_have_no_band() -> None:
    forest = Forest.of([(0.0, None), (0.01, None)], [0.01, 0.03])
    assert "f-band" not in forest.row((0.0, None), Verdict.PASS)


def test_the_page_lists_the_gates_of_the_history_but_not_the_newest_change_twice() -> None:
    text = page([series()], NOW, gates=[RUN])
    assert Reader(text).wrong == []
    section = text.partition('id="gates"')[2].partition("</section>")[0]
    assert "2026-08-02 gate of new against good: regression" in section
    assert "not slower" in section
    assert "Look first at: tso: off" in section
    assert "8 turns" in section
    assert 'id="gates"' not in page([series()], NOW, gates=[replace(RUN, gate=None)])
