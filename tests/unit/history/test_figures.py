"""Values beside goodput in the history: points, levels, losses, baselines, exports."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from pytest_pinet.config.baselines import Reviewed, read_baselines, write_baselines
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.accepting import Candidate, candidate
from pytest_pinet.history.compare import RunSet, compared
from pytest_pinet.history.history import open_history
from pytest_pinet.history.losses import level_of
from pytest_pinet.history.records import points_of
from pytest_pinet.history.text import figure_lines
from pytest_pinet.history.trends import trend
from pytest_pinet.model.figures import FIGURES, GOODPUT
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.quantities import amount
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.charts.trend import trend_chart
from pytest_pinet.report.export.openmetrics import openmetrics
from pytest_pinet.report.trends import all_series
from tests.support.history_records import BEGINS, day, keep, points_in, with_result

RESULT = "pi4b:onboard/pair/latency-sockperf-s64-r1000"
P50 = f"{RESULT}-p50"
TODAY = BEGINS.date() + timedelta(days=60)


def judged(name: str, *values: float, verdict: Verdict = Verdict.PASS) -> FigureJudgement:
    kind = FIGURES[name]
    return FigureJudgement(
        kind.unit, kind.better, sorted(values)[len(values) // 2], values, verdict, "no limit was set"
    )


def night(number: int, **figures: FigureJudgement) -> RunRecord:
    """Return the run of one night with these values."""
    return with_result(day(number), id=RESULT, directions={}, figures=figures, boot=f"boot{number}")


def nights(*levels: tuple[int, float], count: int = 60, name: str = "p50") -> list[RunRecord]:
    """Return a run a night with three connections. Each level (its first night, seconds) lasts until the next."""
    chance = random.Random(5)
    found = []
    for number in range(count):
        level = [value for first, value in levels if first <= number][-1]
        found.append(night(number, **{name: judged(name, *(level * (1 + chance.gauss(0, 0.02)) for _ in range(3)))}))
    return found


def accepted(runs: Sequence[RunRecord], figure: str = P50) -> Candidate:
    return candidate(trend(figure, "virtual", points_in(runs)), TODAY, "a quiet link")


def test_each_value_of_a_result_is_a_point_with_its_unit() -> None:
    _, points = points_of(night(1, p50=judged("p50", 0.001, 0.0012, 0.0011), late=judged("late", 0.0, 0.0, 0.01)))
    assert [(one.figure, one.direction, one.value, one.kind.unit, one.kind.better) for one in points] == [
        (P50, "p50", 0.0011, "s", "down"),
        (f"{RESULT}-late", "late", 0.0, "share", "down"),
    ]
    assert points[0].values == (0.001, 0.0012, 0.0011)
    (of_goodput,) = points_of(day(1))[1]
    assert (of_goodput.kind, of_goodput.rate) == (GOODPUT, of_goodput.value)


def test_a_stored_point_is_the_point_and_reports_know_its_kind(tmp_path: Path) -> None:
    url, runs = str(tmp_path / "h.db"), nights((0, 0.001), count=3)
    keep(runs, url)
    with open_history(url) as history:
        assert history.points(P50, "virtual", 10) == points_in(runs)
        ((_, packed),) = history.latest(10)
        assert [point.kind for point in packed] == [FIGURES["p50"]] * 3
        # The best level, as a rate: the lowest time.
        (best,) = history.best_levels().values()
    assert FIGURES["p50"].of_rate(best) == pytest.approx(0.001, rel=0.02)


def test_a_rise_of_a_time_is_a_loss_and_a_fall_is_none() -> None:
    worse = trend(P50, "virtual", points_in(nights((0, 0.001), (30, 0.0012))))
    (change,) = worse.changes
    assert change.is_loss
    assert change.relative == pytest.approx(0.2, abs=0.02)
    loss = level_of(worse, TODAY).loss
    assert loss is not None
    assert [loss.before, loss.now] == pytest.approx([0.001, 0.0012], rel=0.02)
    assert level_of(trend(P50, "virtual", points_in(nights((0, 0.0012), (30, 0.001)))), TODAY).loss is None


def test_lines_and_charts_have_the_unit(tmp_path: Path) -> None:
    lines = figure_lines(trend(P50, "virtual", points_in(nights((0, 0.001), (30, 0.0012)))))
    assert lines[0].startswith(f"{P50}  1.19 ms emulated  pass  ")
    assert lines[1].endswith("] 0.955 ms to 1.23 ms")
    assert ": 0.999 ms -> 1.2 ms (+20.0 %)" in lines[2]
    url = str(tmp_path / "h.db")
    keep(nights((0, 0.001)), url)
    with open_history(url) as history:
        (series,) = all_series(history, 60)
    drawn = trend_chart(series).svg()
    assert ">p50, 60 runs" in drawn
    assert ">ms, axis does not begin at 0<" in drawn
    assert "bit/s" not in drawn


def test_openmetrics_has_base_units() -> None:
    _, points = points_of(night(1, p50=judged("p50", 0.0011), late=judged("late", 0.01)))
    text = openmetrics(points)
    assert "# UNIT pinet_p50_seconds seconds\n" in text
    assert f'pinet_p50_seconds{{figure="{P50}",' in text
    assert text.partition("pinet_p50_seconds{")[2].partition("} ")[2].startswith("0.0011\n")
    assert "# TYPE pinet_late_ratio gauge\n" in text


def test_a_baseline_has_its_values_with_their_unit(tmp_path: Path) -> None:
    found = accepted(nights((0, 0.001), count=8)).baseline
    assert found is not None
    assert amount(found.value) == pytest.approx(0.001, rel=0.02)
    assert (len(found.runs), len({one.day for one in found.sessions})) == (24, 8)
    path = tmp_path / "pi4b.yaml"
    write_baselines(path, [found])
    assert f"  value: {amount(found.value) * 1000:.6f} ms\n" in path.read_text()
    (read,) = read_baselines(path)
    assert [amount(one) for one in read.runs] == pytest.approx([amount(one) for one in found.runs], abs=1e-9)
    baseline = read.baseline(FIGURES["p50"])
    assert baseline.figure.bps == pytest.approx(FIGURES["p50"].rate(amount(found.value)), rel=1e-5)
    with pytest.raises(ConfigError, match=r"the unit s; expected bit/s"):
        read.baseline()


def test_a_share_near_0_is_not_accepted() -> None:
    found = accepted(nights((0, 0.01), count=8, name="late"), f"{RESULT}-late")
    assert (found.baseline, found.why) == (
        None,
        "shares near 0 have no useful logarithm: set an absolute limit",
    )


def test_a_baseline_at_the_new_level_ends_a_loss() -> None:
    runs = nights((0, 0.001), (30, 0.0012))
    baseline = accepted(runs).baseline
    assert baseline is not None
    known = replace(baseline, date=date(2026, 10, 30))
    found = trend(P50, "virtual", points_in(runs), Reviewed("virtual", {P50: known}))
    assert level_of(found, TODAY).loss is None


def test_two_sets_of_runs_compare_on_the_better_side() -> None:
    a, b = (points_in(nights((0, level), count=8)) for level in (0.001, 0.0012))
    (slower,) = compared(RunSet("A", a), RunSet("B", b), 0.03)
    assert slower.word == "slower"
    assert slower.change == pytest.approx(0.2, abs=0.01)
    assert slower.why.startswith("worse: +20.")
    (faster,) = compared(RunSet("A", b), RunSet("B", a), 0.03)
    assert faster.word == "faster"
