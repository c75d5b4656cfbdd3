from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.page.page import page
from pytest_pinet.report.page.words import lead, unbroken
from pytest_pinet.report.text_wrap import rate
from pytest_pinet.report.trends import FigureSeries
from tests.support.chart_series import dot, series

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
SLOW = series(step=40)
LAB = FigureSeries(
    "cm4:onboard/pair", CombinationId("cm4", "onboard", "pair"), "", "",
    [dot(59, None, Verdict.ERROR, reason="no carrier on eth0 of cm4-1\nmore")], lab="virtual",
)  # fmt: skip
ALL = [SLOW, series(direction="rx"), series("pi5", "x550"), LAB]
_VOID = {"meta", "input", "link", "img", "br", "rect", "path", "circle", "polygon"}


class Reader(HTMLParser):
    """Reads the page like a browser. Records tags that are closed in the wrong order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def all(self, attribute: str) -> list[str]:
        return [value for _, found in self.tags if (value := found.get(attribute)) is not None]


@pytest.fixture(scope="module")
def text() -> str:
    return page(ALL, NOW)


def test_the_first_sentence_says_what_is_wrong() -> None:
    assert lead(ALL) == "Of 4 metrics, 1 misses its limit and 1 was not measured because of the lab."
    assert lead([series()]) == "The only metric meets its limit."
    assert lead([series(step=30)]) == "The only metric misses its limit."
    assert lead([]) == "Nothing was measured yet."


def test_it_is_whole_html_whose_links_lead_somewhere(text: str) -> None:
    found = Reader(text)
    assert found.wrong == found.open == []
    ids = found.all("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in found.all("href")} <= set(ids)


def test_it_loads_nothing_and_runs_nothing(text: str) -> None:
    found = Reader(text)
    assert not found.all("src")
    assert not {"script", "iframe", "object", "link"} & {tag for tag, _ in found.tags}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_a_cell_has_verdict_value_share_and_trend_in_words_and_picture(text: str) -> None:
    cell = text.partition('<td role="cell" data-board="pi4b">')[2].partition("</td>")[0]
    # The worst comes first.
    assert cell.index("fail") < cell.index("pass")
    latest = SLOW.latest
    assert latest.goodput_bps is not None
    assert rate(latest.goodput_bps) in cell
    assert f"{latest.goodput_bps / 941.48e6 * 100:.1f} %" in cell
    assert cell.count("<svg") == 4


def test_the_part_of_a_combination_has_trend_change_and_a_table(text: str) -> None:
    part = text.partition("<h2>pi4b:onboard/pair</h2>")[2].partition("</article>")[0]
    assert "-8.6 %, 941.0 Mbit/s to 860.0 Mbit/s, with 6.12.6-v8+ (before: 6.12.5-v8+)" in part
    assert part.count('<div class="chart wide">') == 2
    assert part.count("<tr>") == 2 * 61


def test_a_metric_without_a_value_says_why(text: str) -> None:
    part = text.partition("<h2>cm4:onboard/pair</h2>")[2].partition("</article>")[0]
    assert "no carrier on eth0 of cm4-1" in part
    assert "1 run, none measured a value." in part


def test_emulated_values_are_called_emulated(text: str) -> None:
    assert "Values are emulated: the lab sets the rates of its links itself, or counts instructions." in text
    measured = replace(series(), dots=[replace(one, emulated=False) for one in series().dots])
    assert "emulated" not in page([measured], NOW)


def test_nothing_that_was_measured_can_become_html() -> None:
    evil = '"><script>alert(1)</script>'
    dots = [dot(1, 1e6, build=evil, reason=evil)]
    one = replace(series(), figure=evil, combination=CombinationId(evil, evil, "pair"), lab=evil, dots=dots)
    found = Reader(page([one], NOW))
    assert found.wrong == found.open == []
    assert "script" not in {tag for tag, _ in found.tags}


def test_two_labs_with_the_same_metric_stand_side_by_side() -> None:
    found = page([series(), replace(series(), lab="bench")], NOW)
    assert "<h3>Lab bench</h3>" in found
    assert "<h3>Lab virtual</h3>" in found
    ids = Reader(found).all("id")
    assert len(ids) == len(set(ids))


def test_everything_has_a_name_for_a_screen_reader(text: str) -> None:
    found = Reader(text)
    for tag, attributes in found.tags:
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or attributes.get("aria-label")
        if tag == "th":
            assert attributes.get("scope") in ("row", "col")
        if attributes.get("tabindex") == "0":
            assert attributes.get("role") == "region"
            assert attributes.get("aria-label")
    assert ("html", {"lang": "en"}) in found.tags


def test_a_page_of_five_hundred_metrics_takes_seconds() -> None:
    many = [series(f"pi{b}", f"nic{n}", way) for b in range(5) for n in range(50) for way in ("tx", "rx")]
    began = time.process_time()
    text = page(many, NOW)
    assert time.process_time() - began < 10
    assert len(text) < 60e6
    assert text.startswith("<!DOCTYPE html>")


def test_before_the_first_run_there_is_a_page_too() -> None:
    assert "Nothing was measured yet." in page([], NOW)


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    assert unbroken("-5.9 %, 940.5 Mbit/s to <884.7 Gbit/s> with 6.12 x") == (
        "-5.9\u00a0%, 940.5\u00a0Mbit/s to &lt;884.7\u00a0Gbit/s&gt; with 6.12 x"
    )
