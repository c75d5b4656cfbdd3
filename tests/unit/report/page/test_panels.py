"""Parts of the page: trends and a change."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet
from pytest_pinet.history.points import PointList
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.page.panels import CombinationChart
from pytest_pinet.report.trends import FigureSeries
from tests.support.change_session import Bench, fresh_plans
from tests.support.chart_series import LIMIT, baseline, dot, series
from tests.support.page_reader import Reader

RUNS = 20


def level(bps: float, direction: str = "tx", limit: float | None = LIMIT) -> FigureSeries:
    dots = PointList(replace(dot(number, bps), limit=limit, interval=None) for number in range(RUNS))
    return replace(series(direction=direction, runs=RUNS), points=dots, baseline=None)


def height(panel: str, look: str) -> float:
    """Return the place of a level line in pixels, from the top."""
    (found,) = re.findall(rf'<path class="{look}" d="M-?[\d.]+ (\d+)l', panel)
    return int(found) / 4


def test_both_directions_are_on_one_scale() -> None:
    fast, slow = level(941e6), level(470e6, direction="rx", limit=None)
    chart = CombinationChart([fast, slow])
    panels = [str(chart.panel(one, "x")) for one in (fast, slow)]
    ticks = [re.findall(r'<g class="ticks">(.*?)</g>', panel) for panel in panels]
    assert ticks[0] == ticks[1] != []
    assert height(panels[1], "s-hue0") > height(panels[0], "s-hue0") + 20


def test_the_limit_is_a_line_below_a_good_value_and_above_a_bad_one() -> None:
    good, bad, without = level(941e6), level(860e6, direction="rx"), level(900e6, direction="x", limit=None)
    chart = CombinationChart([good, bad, without])
    panel = str(chart.panel(good, "x"))
    assert height(panel, "s-limit dash") > height(panel, "s-hue0")
    panel = str(chart.panel(bad, "x"))
    assert height(panel, "s-limit dash") < height(panel, "s-hue0")
    assert "s-limit" not in chart.panel(without, "x")


def test_a_single_run_has_its_limit() -> None:
    one = level(941e6)
    chart = CombinationChart([replace(one, points=PointList(one.points[:1]))])
    assert '<path class="s-limit dash" d="M-0.5 ' in chart.panel(replace(one, points=PointList(one.points[:1])), "x")


def test_the_baseline_is_a_band_from_its_lowest_to_its_highest_run() -> None:
    one = replace(level(900e6), baseline=baseline(890e6, 900e6, 910e6))
    panel = str(CombinationChart([one]).panel(one, "x"))
    (found,) = re.findall(r'<rect class="f-band" y="([0-9.]+)" width="100%" height="([0-9.]+)"', panel)
    top, high = map(float, found)
    assert top < height(panel, "s-hue0") < top + high
    assert height(panel, "s-hue0") == pytest.approx(top + high / 2, abs=0.6)


def test_each_bad_run_has_the_mark_of_its_verdict_at_its_place() -> None:
    one = level(941e6)
    dots = PointList(one.points)
    dots[5] = replace(dots[5], verdict=Verdict.FAIL, value=860e6)
    dots[15] = replace(dots[15], verdict=Verdict.INVALID)
    one = replace(one, points=dots)
    panel = str(CombinationChart([one]).panel(one, "x"))
    marks = {name: (float(x), float(y)) for name, x, y in re.findall(r'#m-(\w+)" x="([0-9.]+)%" y="([0-9.]+)"', panel)}
    assert marks["fail"][0] == pytest.approx(100 * 5.5 / RUNS)
    assert marks["invalid"][0] == pytest.approx(100 * 15.5 / RUNS)
    # The slower run is lower.
    assert marks["fail"][1] > marks["invalid"][1]


def test_another_firmware_of_the_same_kernel_is_a_build_of_its_own() -> None:
    kernel = {"uname": "Linux 6.12.9-v8+ #1", "driver": "r8152"}
    one = level(9e8)
    builds = [{**kernel, "firmware": "a" if at < 8 else "b"} for at in range(RUNS)]
    dots = PointList(replace(dot, build=build) for dot, build in zip(one.points, builds, strict=True))
    chart = CombinationChart([replace(one, points=dots)])
    assert chart.builds == [(0, "6.12.9-v8+ r8152 (firmware a)"), (8, "6.12.9-v8+ r8152 (firmware b)")]
    assert ">6.12.9<title>6.12.9-v8+ r8152 (firmware b)</title>" in chart.axis()


TEST = """
import pytest

@pytest.mark.pinet(board="pi4b")
def test_rate(link, gate):
    gate.tcp(link, direction="rx")
"""


@pytest.fixture
def text(pytester: pytest.Pytester) -> str:
    """Return the page of a change in which B makes one NIC slower and one not."""
    bench = Bench(pytester)
    bench.plan("PLAN = Plan(ratio={'ax88179': 0.95})")
    pytester.makepyfile(TEST)
    with fresh_plans(pytester.path):
        bench.run()
        done = CliRunner().invoke(pinet, ["report", "-o", "report.html"])
    assert done.exit_code == 0, done.output
    assert "1 change" in done.output
    return (pytester.path / "report.html").read_text(encoding="utf-8")


def test_it_shows_the_newest_change_though_no_trend_has_it(text: str) -> None:
    reader = Reader(text)

    assert reader.wrong == []
    assert reader.open == []
    assert "new must not be merged: 1 of 2 metrics slower" in text
    assert "No answer" not in text
    assert "Nothing was measured yet" not in text
    # Every turn of both results is drawn, and has a text alternative.
    drawings = [found["aria-label"] for tag, found in reader.tags if tag == "svg" and "aria-label" in found]
    turns = [label for label in drawings if label is not None and label.startswith("Turns: A ")]
    assert len(turns) == 2
    assert all(re.match(r"Turns: A 94\d\.\d Mbit/s, B \d{3}\.\d Mbit/s, ", label) for label in turns)
    assert "Look first at: tcp-segmentation-offload: on" in text


def test_a_folder_without_any_run_has_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(pinet, ["report"])

    assert done.exception is not None
    assert "to report; run pytest first" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
