from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.config.baselines import Acknowledgement
from pytest_pinet.errors import Where
from pytest_pinet.history.losses import BestMonth, Loss, LossState, MetricLevel
from pytest_pinet.history.points import PointList
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.page import page as page_module
from pytest_pinet.report.page.page import page
from pytest_pinet.report.page.panels import PageLinks
from pytest_pinet.report.page.templating import lead
from pytest_pinet.report.trends import FigureSeries
from tests.support.chart_series import BEGIN, dot, moved, series
from tests.support.page_reader import Reader

R = Path(page_module.__file__).parent
NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
SLOW = series(step=36)
NO_CARRIER = dot(59, None, Verdict.ERROR, reason="no carrier on eth0 of cm4-1\nmore")
LAB = FigureSeries(
    "cm4:onboard/pair", "virtual", PointList([NO_CARRIER]),
    combination=CombinationId("cm4", "onboard", "pair"), traffic="", direction="",
)  # fmt: skip
ALL = [SLOW, series(direction="rx"), series("pi5", "x550"), LAB]
LINK = "https://lore.kernel.org/r/1"
KNOWN = Acknowledgement(
    "x", "Ada", date(2026, 12, 1), LINK, Bitrate(896e6), date(2026, 8, 1), Where("acknowledged.yaml", 3)
)


def lossy(one: FigureSeries, state: LossState) -> FigureSeries:
    """Return a series that lost 4.8 %. A user acknowledged the loss, unless it is open."""
    by = None if state is LossState.OPEN else KNOWN
    loss = Loss(one.figure, "virtual", "r040", BEGIN, 941e6, 896e6, state, moved(40, "6.12.5", "6.12.6"), by)
    return replace(one, level=MetricLevel(896e6, -0.047, BestMonth("2026-06", 941e6), loss))


@pytest.fixture(scope="module")
def text() -> str:
    return page(ALL, NOW)


def test_the_first_sentence_says_what_is_wrong() -> None:
    assert lead(ALL) == "Of 4 metrics, 1 misses its limit and 1 ended without a value."
    assert lead([series()]) == "The only metric meets its limit."
    assert lead([series(), series()]) == "All 2 metrics meet their limits, and none has an open loss."
    assert lead([series(step=30)]) == "The only metric misses its limit."
    assert lead([]) == "Nothing was measured yet."
    lost, known = lossy(SLOW, LossState.OPEN), lossy(series(), LossState.ACKNOWLEDGED)
    assert lead([series(), lost]) == (
        "Of 2 metrics, 1 misses its limit and 1 has an open loss of 4.8 %; 1 metric is counted in both."
    )
    assert lead([lossy(series(), LossState.EXPIRED), SLOW]) == (
        "Of 2 metrics, 1 misses its limit and 1 has an open loss of 4.8 %."
    )
    assert lead([known]) == "The only metric meets its limit; 1 loss is acknowledged."
    assert lead([known, known]) == (
        "All 2 metrics meet their limits, and none has an open loss; 2 losses are acknowledged."
    )
    assert lead([lost, known]).endswith("; 1 metric is counted in both; 1 loss is acknowledged.")


def test_it_is_whole_html_whose_links_lead_somewhere(text: str) -> None:
    found = Reader(text)
    assert found.wrong == found.open == []
    ids = found.all("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in found.all("href")} <= set(ids)


def test_it_loads_nothing_and_runs_only_its_own_script(text: str) -> None:
    found = Reader(text)
    assert not found.all("src")
    assert not {"iframe", "object", "link"} & {tag for tag, _ in found.tags}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert "url(" not in text
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [found["content"] for tag, found in found.tags if tag == "meta" and "http-equiv" in found]
    assert policy == (f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'")


def values(text: str) -> dict[str, Any]:
    """Return the values that the script of the page has."""
    found: dict[str, Any] = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    return found


def test_a_cell_has_verdict_value_share_and_trend_in_words_and_picture(text: str) -> None:
    cell = text.partition('<td role="cell" data-board="pi4b">')[2].partition("</td>")[0]
    # The worst comes first.
    assert cell.index("fail") < cell.index("pass")
    latest = SLOW.latest
    assert latest.value is not None
    assert f">{latest.value / 1e6:.1f}\u00a0Mbit/s<" in cell
    assert f"{latest.value / 941.48e6 * 100:.1f}\u00a0%" in cell
    assert cell.count('class="spark"><svg') == 2


def part_of(text: str, name: str) -> str:
    """Return the section on a combination."""
    return text.partition(f"<h2>{name}</h2>")[2].partition("</article>")[0]


def test_a_combination_has_a_panel_for_each_direction_on_one_axis_of_dates_and_kernels(text: str) -> None:
    part = part_of(text, "pi4b:onboard/pair")
    assert "-8.6\u00a0%, 941.0\u00a0Mbit/s to 860.0\u00a0Mbit/s, with 6.12.6-v8+ (before: 6.12.5-v8+)" in part
    panels = [found for tag, found in Reader(part).tags if tag == "svg" and found.get("role") == "img"]
    assert [label.partition(":")[0] for one in panels if (label := one["aria-label"])] == ["Trend of pi4b"] * 2
    axis = part.partition('class="plot axis"')[2].partition("</svg></svg>")[0]
    assert ">2026-06-01<" in axis
    assert ">2026-07-01<" in axis
    # The kernel that moved the level is labelled, and its whole version is a tooltip.
    assert '<text class="strong" ' in axis
    assert ">6.12.6<title>6.12.6-v8+</title>" in axis


def test_the_script_has_every_run_with_its_whole_build(text: str) -> None:
    found = values(text)
    one = next(one for one in found["combinations"] if one["key"].startswith("trends-virtual-pi4b-onboard-pair"))
    (slow, _) = one["metrics"]
    assert len(one["runs"]) == len(slow["value"]) == 60
    assert slow["limit"] == [[0, 885_000]]
    assert slow["verdict"] == "6" * 36 + "0" * 24
    assert [found["verdicts"][0], found["verdicts"][6]] == ["fail", "pass"]
    assert [found["texts"][text] for _, text in one["builds"]] == [f"6.12.{number}-v8+" for number in range(10)]


def test_a_metric_without_a_value_says_why(text: str) -> None:
    part = part_of(text, "cm4:onboard/pair")
    assert "no carrier on eth0 of cm4-1" in part
    assert "1 run, none measured a value." in part


def test_an_open_loss_is_in_the_headline_in_needs_attention_and_in_its_cell() -> None:
    loss = Loss(
        "x",
        "virtual",
        "r040",
        BEGIN,
        941e6,
        896e6,
        LossState.OPEN,
        replace(moved(40, "6.12.5", "6.12.6"), differs=("kernel 6.12.5 -> 6.12.6",)),
    )
    lost = replace(series(), level=MetricLevel(896e6, None, BestMonth("2026-06", 941e6), loss))
    found = page([lost, series(direction="rx")], NOW)
    assert "Of 2 metrics, 1 has an open loss of 4.8\u00a0%." in found
    attention = found.partition("<h2>What needs attention</h2>")[2].partition("</section>")[0]
    assert "-4.8\u00a0% since 2026-06-01 (61 days): 941.0 -&gt; 896.0\u00a0Mbit/s, with kernel 6.12.5" in attention
    assert "open, no owner" in attention
    cell = found.partition('data-board="pi4b"')[2].partition("</td>")[0]
    assert '<span class="word moved bad">moved -4.8\u00a0%</span>' in cell
    # Visible, and not only where the pointer is.
    assert '<span class="level">-4.8\u00a0% since the best month (2026-06)</span>' in cell
    assert "-4.8\u00a0% since the best month (2026-06)" in part_of(found, "pi4b:onboard/pair")


def test_an_acknowledged_loss_names_its_owner_wherever_it_stands_and_needs_no_attention() -> None:
    one = lossy(series(), LossState.ACKNOWLEDGED)
    found = page([one], NOW)
    assert "What needs attention" not in found
    badge, link = '<span class="word moved known">known, Ada, until 2026-12-01</span>', f'href="{LINK}"'
    losses = found.partition("<h2>Known losses</h2>")[2].partition("</section>")[0]
    assert f"<li>{badge} <a " in losses
    assert "-4.8\u00a0% since 2026-06-01 (61 days)" in losses
    assert link in losses
    cell = found.partition('data-board="pi4b"')[2].partition("</td>")[0]
    assert (
        f'{badge}<span class="level">-4.7\u00a0% since the baseline, -4.8\u00a0% since the best month (2026-06)</span>'
        in cell
    )
    assert 'class="cell good"' in cell
    panel = part_of(found, "pi4b:onboard/pair")
    assert badge in panel
    assert link in panel
    # It stands in its own list, not once more below "Level changes".
    assert one.level.loss is not None
    assert one.level.loss.change is not None
    assert "<h2>Level changes</h2>" not in page([replace(one, changes=(one.level.loss.change,))], NOW)


def test_a_loss_whose_acknowledgement_expired_needs_attention_and_names_its_owner() -> None:
    found = page([lossy(series(), LossState.EXPIRED)], NOW)
    attention = found.partition("<h2>What needs attention</h2>")[2].partition("</section>")[0]
    assert "open, owner Ada, acknowledged until 2026-12-01 (expired)" in attention
    assert f'href="{LINK}"' in attention
    assert "Known losses" not in found


def test_the_facts_name_the_newest_kernel_and_not_the_driver_of_one_nic() -> None:
    dots = PointList([replace(dot(1, 941e6), build={"uname": "Linux 6.12.9-v8+ #1", "driver": "r8169"})])
    assert "UTC on 6.12.9-v8+." in page([replace(series(), points=dots)], NOW)


def test_links_lead_to_the_files_of_the_newest_run_to_the_run_before_and_to_the_commit(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "results.json").touch()
    (tmp_path / "runs" / "second" / "raw").mkdir()
    (tmp_path / "runs" / "second" / "raw" / "a b.json").touch()
    build = "Linux 6.12.9-v8+ga1b2c3d4 #1"
    first, second = (str(tmp_path / "runs" / name) for name in ("first", "second"))
    files = ("raw/a b.json", "raw/lost.json")
    dots = PointList([dot(0, 941e6, folder=first), dot(1, 941e6, build=build, folder=second, artefacts=files)])
    links = PageLinks(tmp_path, "https://git.example/?id={commit}")
    found = part_of(page([replace(series(), points=dots)], NOW, links=links), "pi4b:onboard/pair")
    assert [href for href in Reader(found).all("href") if not href.startswith("#")] == [
        "runs/second/results.json",
        "runs/first/results.json",
        "https://git.example/?id=a1b2c3d4",
        "runs/second/raw/a%20b.json",
    ]
    # A result has dozens of raw files, which would hide the chart.
    folded = found.partition("<summary>1 raw file of tcp-P1 tx</summary>")[2].partition("</details>")[0]
    assert "runs/second/raw/a%20b.json" in folded


def test_emulated_values_are_called_emulated(text: str) -> None:
    assert "Values are emulated: the lab sets the rates of its links itself." in text
    measured = replace(series(), points=PointList(replace(one, emulated=False) for one in series().points))
    assert "emulated" not in page([measured], NOW)


def test_nothing_that_was_measured_can_become_html() -> None:
    evil = '"><script>alert(1)</script><!--'
    dots = PointList([dot(1, 1e6, build=evil, reason=evil)])
    one = replace(series(), figure=evil, combination=CombinationId(evil, evil, "pair"), lab=evil, points=dots)
    found = Reader(page([one], NOW))
    assert found.wrong == found.open == []
    scripts = [found for tag, found in found.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]


def test_two_labs_with_the_same_metric_stand_side_by_side() -> None:
    found = page([series(), replace(series(), lab="bench")], NOW)
    assert "<h3>Lab bench</h3>" in found
    assert "<h3>Lab virtual</h3>" in found
    assert found.count('<span class="muted">in lab bench</span></h2>') == 1
    ids = Reader(found).all("id")
    assert len(ids) == len(set(ids))


def test_everything_has_a_name_for_a_screen_reader(text: str) -> None:
    found = Reader(text)
    for tag, attributes in found.tags:
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes.get("aria-label")
        if tag == "th":
            assert attributes.get("scope") in ("row", "col")
        if attributes.get("tabindex") == "0":
            assert attributes.get("role") == "region"
            assert attributes.get("aria-label")
    assert ("html", {"lang": "en"}) in found.tags


def test_a_page_of_five_hundred_metrics_is_small() -> None:
    many = [series(f"pi{b}", f"nic{n}", way) for b in range(5) for n in range(50) for way in ("tx", "rx")]
    assert len(page(many, NOW)) < 500 * 10_000


def test_before_the_first_run_there_is_a_page_too() -> None:
    assert "Nothing was measured yet." in page([], NOW)


def one_of(bps: float, verdict: Verdict = Verdict.PASS, **more: object) -> FigureSeries:
    """Return a metric with one run."""
    point = replace(dot(1, bps, verdict), limit=bps * 0.94, oracle=bps, interval=None)
    return replace(series(), points=PointList([replace(point, **more)]), changes=(), baseline=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bps", "value", "limit"),
    [
        (94.148e6, "94.1 Mbit/s", "88.5 Mbit/s"),
        (2.354e9, "2.35 Gbit/s", "2.21 Gbit/s"),
        (48e3, "48.0 kbit/s", "45.1 kbit/s"),
        (480.0, "480 bit/s", "451 bit/s"),
    ],
)
def test_a_value_has_the_unit_of_its_size_wherever_it_stands(bps: float, value: str, limit: str) -> None:
    text = page([one_of(bps), replace(series("pi5"), changes=())], NOW)
    value, limit = (one.replace(" ", "\u00a0") for one in (value, limit))
    cell = text.partition('data-board="pi4b"')[2].partition("</td>")[0]
    assert f">{value}</span>" in cell
    part = part_of(text, "pi4b:onboard/pair")
    assert f">{value}</b>" in part
    assert f"limit {limit}" in part
    # One unit for an axis: that of its largest value.
    unit = value.rpartition("\u00a0")[2]
    ticks = re.findall(r">([^<>]*)</text>", part.partition('<g class="ticks">')[2].partition("</g>")[0])
    assert ticks
    assert {tick.partition(" ")[2] for tick in ticks} == {unit}
    found = values(text)["combinations"][0]["metrics"][0]["value"]
    assert found == [pytest.approx(bps / 1e3, rel=1e-3)]


@pytest.mark.parametrize("results", [1, 3, 7, 8, 12])
def test_filters_are_there_when_there_are_many_results(results: int) -> None:
    text = page([series(f"pi{number}") for number in range(results)], NOW)
    assert ('<form class="filters"' in text) == (results >= 8)


def test_a_reached_line_rate_is_no_warning_and_stands_once_for_all_metrics_of_a_combination() -> None:
    full = [
        replace(
            one_of(941e6, limited_by="line rate: the link is full"),
            figure=f"pi4b:onboard/pair/tcp-P1-{way}",
            direction=way,
        )
        for way in ("tx", "rx")
    ]
    part = part_of(page(full, NOW), "pi4b:onboard/pair")
    assert part.count("the link is full") == 1
    assert '<p class="muted limited">tcp-P1 tx, tcp-P1 rx: limited by line rate: the link is full</p>' in part
    assert "note" not in part


@pytest.mark.parametrize(
    ("verdict", "look"),
    [(Verdict.FAIL, "bad"), (Verdict.MARGINAL, "near"), (Verdict.INCONCLUSIVE, "unsure"), (Verdict.INVALID, "broken")],
)
def test_the_reason_of_a_verdict_has_the_colour_of_its_mark(verdict: Verdict, look: str) -> None:
    part = part_of(page([one_of(941e6, verdict, reason="because")], NOW), "pi4b:onboard/pair")
    assert f'<p class="note {look}">tcp-P1 tx: because</p>' in part


def test_the_headline_and_the_facts_count_the_same_metrics() -> None:
    ping = replace(one_of(1.0, value=None, direction=""), figure="pi4b:onboard/pair/ping", traffic="ping", direction="")
    text = page([one_of(941e6), ping], NOW)
    assert "All 2 metrics meet their limits" in text
    assert "2 metrics of 1 combination, " in text


def test_characters_that_cannot_be_seen_are_shown() -> None:
    """An id cannot turn the direction of the page's text, end its line, or hide a part of itself."""
    evil = "pi4b\x1b[2J\x00\x85\x9b\u202egpj\u2028\u2029\u2066\ud800\n"
    shown = "pi4b\\x1b[2J\\x00\\x85\\x9b\\u202egpj\\u2028\\u2029\\u2066\\ud800\\n"
    dots = PointList(
        replace(dot(number, 1e9, Verdict.FAIL, build=f"Linux {number}{evil}", reason=evil), run=f"{number}{evil}")
        for number in range(3)
    )
    one = replace(
        series(), figure=evil, combination=CombinationId(evil, evil, evil), lab=evil, traffic=evil, points=dots
    )
    text = page([one, *(replace(series(f"pi{number}"), lab=evil) for number in range(8))], NOW)
    own = (R / "page.js").read_text(encoding="utf-8") + (R / "style.css").read_text(encoding="utf-8")
    hidden = {character for character in text if not character.isprintable()} - {"\n", "\u00a0"}
    assert hidden - set(own) == set()
    assert shown in text
    found = values(text)
    metric = next(one for of in found["combinations"] for one in of["metrics"] if one["why"])
    for where in (
        "".join(found["texts"]),
        "".join(run[0] for run in found["runs"]),
        metric["name"],
        metric["why"]["0"],
    ):
        assert "\\x1b[2J\\x00" in where
