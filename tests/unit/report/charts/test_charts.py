"""The charts: results, trends and changes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.history.points import GatedMetric, Point, PointList, StoredGate, StoredRun
from pytest_pinet.model.measurement import Event, EventKind
from pytest_pinet.model.record.measurement import FlowRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.charts.paper import COLOURS, DARK, LIGHT, AxisScale, Paper, value_range
from pytest_pinet.report.charts.results import Forest, overview_chart, throughput_chart
from pytest_pinet.report.charts.trend import short_names, sparkline, trend_chart, trend_words
from pytest_pinet.report.page.page import page
from pytest_pinet.report.terminal import rows_of
from pytest_pinet.report.trends import FigureSeries
from tests.support.chart_series import dot, series
from tests.support.gate_records import build
from tests.support.page_reader import Reader
from tests.support.report_records import NIGHT, direction, result

_NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(paper: Paper) -> list[str]:
    """Return the texts of a chart. The chart must be well-formed XML."""
    root = ElementTree.fromstring(paper.svg())
    return ["".join(element.itertext()) for element in root.iter(f"{_NAMESPACE}text")]


def empty(dots: list[Point]) -> FigureSeries:
    return replace(series(), points=PointList(dots), changes=(), baseline=None)


# -- axes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (880, 945, [880, 900, 920, 940]), (0, 0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])],
)
def test_ticks_are_round_and_within_the_axis(low: float, high: float, ticks: list[float]) -> None:
    assert AxisScale(low, high, 0, 100).ticks() == pytest.approx(ticks)


@given(st.lists(st.floats(min_value=0, max_value=1e12), max_size=8))
def test_every_range_of_rates_can_be_drawn(rates: list[float]) -> None:
    low, high = value_range(rates)
    assert low < high
    assert all(low <= rate <= high for rate in rates)
    assert 1 <= len(AxisScale(low, high, 300, 0).ticks()) <= 13


def test_noise_is_not_blown_up_to_fill_the_chart() -> None:
    low, high = value_range([940.0e6, 940.1e6])
    assert (high - low) / 940e6 >= 0.02


def test_an_axis_says_when_it_does_not_begin_at_zero() -> None:
    assert "Mbit/s, axis does not begin at 0" in texts(trend_chart(series()))
    wide = empty([dot(0, 10e6), dot(1, 940e6)])
    assert "Mbit/s" in texts(trend_chart(wide))


def test_one_unit_for_all_numbers_of_an_axis() -> None:
    assert [text for _, text in AxisScale(8e9, 9e9, 0, 100).labels(1e9, most=2)] == ["8.0", "8.5", "9.0"]


# -- the trend ----------------------------------------------------------------------------------------------------


def test_a_trend_names_limit_physical_limit_baseline_and_builds() -> None:
    found = texts(trend_chart(series(step=40)))
    assert {"limit 885.0 Mbit/s", "physical 941.5 Mbit/s", "baseline 940.8 Mbit/s"} <= set(found)
    assert {f"6.12.{n}" for n in range(10)} <= set(found)
    assert "-8.6 %" in found
    assert any("emulated" in text for text in found)


def test_the_words_of_a_trend_name_the_change_and_its_builds() -> None:
    words = trend_words(series(step=40))
    assert "60 runs from 2026-06-01 to 2026-07-30" in words
    assert "-8.6 %, 941.0 Mbit/s to 860.0 Mbit/s, with 6.12.6-v8+ (before: 6.12.5-v8+)." in words


def test_the_words_of_a_chart_describe_the_runs_that_it_shows() -> None:
    svg = trend_chart(series(runs=100, step=20)).svg()
    assert "60 runs from 2026-07-11 to 2026-09-08" in svg
    assert "100 runs" not in svg
    assert "-8.6 %" not in svg
    assert "-8.6 %, 941.0 Mbit/s to 860.0 Mbit/s" in trend_chart(series(runs=100, step=40)).svg()


def test_builds_of_one_version_are_labelled_by_their_commits() -> None:
    assert short_names({"6.12.25-v8+ga1", "6.12.25-v8+gb2", "6.12.26-v8+", "7.0"}) == {
        "6.12.25-v8+ga1": "6.12.25 ga1",
        "6.12.25-v8+gb2": "6.12.25 gb2",
        "6.12.26-v8+": "6.12.26",
        "7.0": "7.0",
    }


def test_a_failed_measurement_has_a_mark_and_no_value() -> None:
    chart = trend_chart(empty([dot(0, 941e6), dot(1, None, Verdict.ERROR), dot(2, 940e6)]))
    assert "no value, error" in chart.svg()
    assert "error" in texts(chart)


@pytest.mark.parametrize("dots", [[], [dot(0, None, Verdict.ERROR)], [dot(0, 941e6)], [dot(0, 0.0), dot(1, 0.0)]])
def test_a_trend_of_nearly_nothing_is_drawn(dots: list[Point]) -> None:
    for paper in (trend_chart(empty(dots)), sparkline(empty(dots))):
        assert ElementTree.fromstring(paper.svg()).tag == f"{_NAMESPACE}svg"


def test_each_verdict_has_a_shape_of_its_own() -> None:
    shapes = {}
    for verdict in SEVERITY:
        if verdict is Verdict.SKIPPED:
            continue
        paper = Paper(20, 20, "")
        paper.mark(10, 10, verdict)
        shape = paper.inline(label=False)
        for name in set(LIGHT):
            shape = shape.replace(f"f-{name}", "f").replace(f"s-{name}", "s")
        shapes[verdict] = shape
    assert len(set(shapes.values())) == len(shapes)


def test_names_cannot_break_out_of_a_picture() -> None:
    evil = replace(series(runs=3), figure='</title><script>alert(1)</script>"&\x00\ud800')
    svg = trend_chart(evil).svg()
    ElementTree.fromstring(svg)
    assert "<script" not in svg


def test_what_an_image_may_not_have_is_not_there() -> None:
    for paper in (trend_chart(series()), throughput_chart(NIGHT[0]), overview_chart(rows_of(NIGHT), "t", "n")):
        svg = paper.svg()
        assert not [word for word in ("<script", "href", "url(", "@import", "<foreignObject") if word in svg]
        assert "fill:var(--paper)" in svg


# -- throughput over time -----------------------------------------------------------------------------------------


def test_throughput_shows_each_direction_with_its_goodput_limit_and_physical_limit() -> None:
    both = result(
        "pi4b:onboard/pair",
        {"tx": direction(920e6, 885e6), "rx": direction(841.2e6, 885e6, "fail")},
        traffic="tcp-P1-bidir",
    )
    found = texts(throughput_chart(both))
    assert {"tx 920.0 Mbit/s", "rx 841.2 Mbit/s", "limit 885.0 Mbit/s", "physical 941.5 Mbit/s"} <= set(found)
    assert "seconds of traffic" in found


def test_connections_follow_each_other_and_an_event_is_named() -> None:
    one = direction(900e6, 885e6)
    (first,) = one.connections
    stall = Event(EventKind.STALL, 2.0, 0.5, "nothing came")
    three = one.replace(connections=[first, replace(first, events=(stall,)), first])
    found = texts(throughput_chart(result("pi4b:onboard/pair", {"tx": three})))
    assert {"#1", "#2", "#3", "stall"} <= set(found)


def test_each_of_several_flows_has_a_line_that_differs_from_all_others() -> None:
    flows = [
        FlowRecord(
            **direction(300e6 + n * 1e6).model_dump(),
            name=f"pi4b-1:onboard>pi{n}",
            sender="",
            receiver="",
            direction="tx",
            fair_bps=1.0,
        )
        for n in range(14)
    ]
    many = result("pi4b:onboard/outcast:14", {"tx": direction(940e6)}).replace(flows=flows)
    svg = throughput_chart(many).svg()
    looks = [part.partition('"')[0] for part in svg.split('class="s-hue')[1:]]
    assert len({look for look in looks if look.endswith(" strong")}) == 14


# -- the overview of a run -----------------------------------------------------------------------------------------


def test_the_overview_has_every_metric_worst_first() -> None:
    found = texts(overview_chart(rows_of(NIGHT), "Run 1", "12 metrics"))
    verdicts = [text for text in found if ", " in text and text.partition(",")[0] in list(Verdict)]
    assert len(verdicts) == len(rows_of(NIGHT))
    order = [SEVERITY.index(Verdict(text.partition(",")[0])) for text in verdicts]
    assert order == sorted(order)


# -- colours ------------------------------------------------------------------------------------------------------


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_stand_out_from_their_paper(colours: dict[str, str]) -> None:
    """WCAG 2.2 requires a contrast of 4.5 for text, and 3 for other elements with a meaning."""
    for name in ("ink", "muted", *COLOURS.values()):
        assert _contrast(colours[name], colours["paper"]) >= 4.5, name
    for name in ("limit", "oracle", "line", *(f"hue{n}" for n in range(6))):
        assert _contrast(colours[name], colours["paper"]) >= 3, name


def test_charts_are_small_and_quick() -> None:
    assert len(trend_chart(series()).svg()) < 40_000
    assert len(sparkline(series()).inline()) < 2_000


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
