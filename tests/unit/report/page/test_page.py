from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.config.acknowledged import Acknowledgement
from pytest_pinet.errors import Where
from pytest_pinet.history.losses import BestMonth, Loss, LossState, MetricLevel
from pytest_pinet.history.points import PointList
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.page.links import PageLinks
from pytest_pinet.report.page.page import page
from pytest_pinet.report.page.unit import PageUnit
from pytest_pinet.report.page.words import lead
from pytest_pinet.report.trends import FigureSeries
from tests.support.chart_series import BEGIN, dot, moved, series
from tests.support.page_reader import Reader

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
SLOW = series(step=36)
LAB = FigureSeries(
    "cm4:onboard/pair", CombinationId("cm4", "onboard", "pair"), "", "",
    PointList([dot(59, None, Verdict.ERROR, reason="no carrier on eth0 of cm4-1\nmore")]), lab="virtual",
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
    assert lead(ALL) == "Of 4 metrics, 1 misses its limit and 1 was not measured because of the lab."
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
    assert latest.goodput_bps is not None
    assert f"{latest.goodput_bps / 1e9:.4f}" in cell
    assert f"{latest.goodput_bps / 941.48e6 * 100:.1f} %" in cell
    assert cell.count('class="spark"><svg') == 2


def part_of(text: str, name: str) -> str:
    """Return the section on a combination."""
    return text.partition(f"<h2>{name}</h2>")[2].partition("</article>")[0]


def test_a_combination_has_a_panel_for_each_direction_on_one_axis_of_dates_and_kernels(text: str) -> None:
    part = part_of(text, "pi4b:onboard/pair")
    assert "-8.6 %, 0.9410\u00a0Gbit/s to 0.8600\u00a0Gbit/s, with 6.12.6-v8+ (before: 6.12.5-v8+)" in part
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
    assert "-4.8\u00a0% since 2026-06-01 (61 days): 0.9410 -&gt; 0.8960\u00a0Gbit/s, with kernel 6.12.5" in attention
    assert "open, no owner" in attention
    cell = found.partition('data-board="pi4b"')[2].partition("</td>")[0]
    assert '<span class="word moved bad">moved -4.8 %</span>' in cell
    # Visible, and not only where the pointer is.
    assert '<span class="level">-4.8 % since the best month (2026-06)</span>' in cell
    assert "-4.8 % since the best month (2026-06)" in part_of(found, "pi4b:onboard/pair")


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
    assert f'{badge}<span class="level">-4.7 % since the baseline, -4.8 % since the best month (2026-06)</span>' in cell
    assert 'class="cell good"' in cell
    panel = part_of(found, "pi4b:onboard/pair")
    assert badge in panel
    assert link in panel
    # It stands in its own list, not once more below "Level changes".
    assert one.level.loss is not None
    assert one.level.loss.change is not None
    assert "<h2>Level changes</h2>" not in page([replace(one, shifts=[one.level.loss.change])], NOW)


def test_a_loss_whose_acknowledgement_expired_needs_attention_and_names_its_owner() -> None:
    found = page([lossy(series(), LossState.EXPIRED)], NOW)
    attention = found.partition("<h2>What needs attention</h2>")[2].partition("</section>")[0]
    assert "open, owner Ada, acknowledged until 2026-12-01 (expired)" in attention
    assert f'href="{LINK}"' in attention
    assert "Known losses" not in found


def test_the_facts_name_the_newest_kernel_and_not_the_driver_of_one_nic() -> None:
    dots = PointList([replace(dot(1, 941e6), build={"uname": "Linux 6.12.9-v8+ #1", "driver": "r8169"})])
    assert "UTC on 6.12.9-v8+." in page([replace(series(), dots=dots)], NOW)


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
    found = part_of(page([replace(series(), dots=dots)], NOW, links=links), "pi4b:onboard/pair")
    assert Reader(found).all("href")[:4] == [
        "runs/second/results.json",
        "runs/second/raw/a%20b.json",
        "runs/first/results.json",
        "https://git.example/?id=a1b2c3d4",
    ]


def test_emulated_values_are_called_emulated(text: str) -> None:
    assert "Values are emulated: the lab sets the rates of its links itself, or counts instructions." in text
    measured = replace(series(), dots=PointList(replace(one, emulated=False) for one in series().dots))
    assert "emulated" not in page([measured], NOW)


def test_nothing_that_was_measured_can_become_html() -> None:
    evil = '"><script>alert(1)</script><!--'
    dots = PointList([dot(1, 1e6, build=evil, reason=evil)])
    one = replace(series(), figure=evil, combination=CombinationId(evil, evil, "pair"), lab=evil, dots=dots)
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


def test_all_rates_of_a_sentence_have_one_unit_and_no_line_ends_before_a_unit() -> None:
    unit = PageUnit.of([94e6, 2.3e9])
    assert unit.sentence("-5.9 %, 940.5 Mbit/s to <884.7 Gbit/s> with 6.12 x") == (
        "-5.9\u00a0%, 0.9405\u00a0Gbit/s to <884.7\u00a0Gbit/s> with 6.12 x"
    )
    assert unit.sentence("10.1 to 94.1 Mbit/s, 1000 Mbit/s link") == "0.0101 to 0.0941\u00a0Gbit/s, 1000 Mbit/s link"
    assert PageUnit.of([9.4e6]).text(941e3) == "0.9410\u00a0Mbit/s"
    assert unit.text(None) == "no value"
