"""Our own page of a simulated half year in a real browser.

Pictures are stored in $PINET_PICTURES.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from pytest_pinet.history.points import PointList
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.page.page import page as page_of
from pytest_pinet.report.text_wrap import rate
from tests.support.browser import Browser, browser
from tests.support.chart_series import BEGIN, dot, series
from tests.support.half_year_history import REGRESSIONS, acknowledge, half_year, kernel_of, write

PINET = str(Path(sys.executable).parent / "pinet")
ACKNOWLEDGED = "cm4:i226v/pair/tcp-P10-tx"
TRAFFICS = ("tcp-P1", "tcp-P2", "tcp-P4", "tcp-P8")
KERNEL = {"uname": "Linux 6.12.9-v8+ #1 SMP", "driver": "r8152"}


def shows(seen: Browser, script: str, text: str) -> bool:
    return bool(seen.run(script) == text)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of ``pinet report`` without Allure results."""
    folder = tmp_path_factory.mktemp("half-year")
    write(half_year(1), folder / ".pinet")
    lab = acknowledge(ACKNOWLEDGED, "2.27 Gbit/s", "Ann Example", "https://lore.kernel.org/r/20261012", folder)
    words = [PINET, "report", "--lab", lab]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "report: report.html (" in done.stdout
    assert "pytest-pinet's own page" in done.stdout
    return folder / "report.html"


@pytest.fixture(scope="module")
def firmwares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page of eight metrics in 60 days: one kernel, and from day 30 on another firmware, 5 % slower.

    Two topologies have four metrics each, so that the page has filters. The run of the first day reported neither
    driver nor firmware.
    """
    builds = [{"uname": KERNEL["uname"]}, *([KERNEL | {"firmware": "v1"}] * 29), *([KERNEL | {"firmware": "v2"}] * 30)]
    shown = []
    for topology, traffic in product(("pair", "incast"), TRAFFICS):
        one = replace(series(), combination=CombinationId("pi4b", "rtl8153", topology), traffic=traffic)
        dots = PointList(
            replace(dot(day, 941e6 if day < 30 else 894e6), build=build) for day, build in enumerate(builds)
        )
        shown.append(replace(one, figure=f"{one.combination}/{traffic}-tx", points=dots))
    found = tmp_path_factory.mktemp("firmwares") / "report.html"
    found.write_text(page_of(shown, BEGIN), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("PINET_PICTURES")
    return Path(kept) if kept else tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def seen() -> Iterator[Browser]:
    """Yield one browser for all tests that do not depend on its width. Each test opens the page again."""
    with browser() as found:
        yield found


@pytest.mark.smoke
def test_the_page_is_readable_at_any_width_and_loads_nothing_from_elsewhere(page: Path, pictures: Path) -> None:
    with browser(1600, 1000) as seen:
        seen.open(page)
        for width in (400, 760, 1200, 1600):
            seen.resize(width, 1000)
            for dark in (False, True):
                seen.colours(dark)
                assert not seen.overflows, width
                paper = seen.run("return getComputedStyle(document.body).backgroundColor")
                assert paper == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
                seen.picture(pictures / f"page-{width}-{'dark' if dark else 'light'}.png")
            small = seen.run(
                "return [...document.querySelectorAll('p, a, td, th, li, label, b, h3, svg.plot text')]"
                ".filter(e => e.getClientRects().length && e.textContent.trim())"
                ".filter(e => parseFloat(getComputedStyle(e).fontSize) < 10.5).length"
            )
            assert small == 0
            targets = seen.run(
                "return [...document.querySelectorAll('a.cell')]"
                ".filter(e => e.getBoundingClientRect().height < 44).length"
            )
            assert targets == 0
        # 24 metrics: a maintainer scrolls five screens, not sixteen.
        height = seen.run(
            "for (const e of document.querySelectorAll('article')) e.style.contentVisibility = 'visible';"
            "return document.documentElement.scrollHeight"
        )
        assert height < 5000
        assert seen.left_the_machine() == []
        assert seen.complaints() == []


@pytest.mark.smoke
def test_boards_out_of_view_are_named(page: Path) -> None:
    hint = (
        "const hint = [...document.querySelectorAll('main p')].find(e => e.textContent.startsWith('Scroll the'));"
        "return hint.hidden ? '' : hint.textContent"
    )
    with browser(1600, 1000) as seen:
        seen.open(page)
        for width, text in ((1600, ""), (768, "Scroll the table sideways for pi4b, pi5."), (400, "")):
            seen.resize(width, 1000)
            seen.until(partial(shows, seen, hint, text), text or f"no hint at {width} px")
        seen.resize(768, 1000)
        seen.run("const table = document.querySelector('.scroll:has(> .grid)'); table.scrollLeft = table.scrollWidth")
        seen.until(lambda: seen.run(hint) == "Scroll the table sideways for cm4, pi3b.", "the other boards")
        assert seen.complaints() == []


@pytest.mark.smoke
def test_the_picture_of_the_readme_shows_state_changes_and_results(page: Path, pictures: Path) -> None:
    """``make pictures`` copies the picture to docs/."""
    with browser(1200, 1900) as seen:
        seen.open(page)
        for head in ("What needs attention", "Newest results", "Trends"):
            assert head in seen.text
        seen.picture(pictures / "report-page.png")


@pytest.mark.smoke
def test_the_picture_of_a_trend_shows_a_level_change_at_its_kernel(page: Path, pictures: Path, seen: Browser) -> None:
    """``make pictures`` copies the picture to docs/."""
    seen.open(page)
    article = "article[data-board=pi4b][data-nic=onboard]"
    ticks = seen.run(f"return [...document.querySelectorAll('{article} .axis text')].map(e => e.textContent)")
    (planted,) = (one for one in REGRESSIONS if one.figure.startswith("pi4b:onboard"))
    assert any(planted.kernel in one for one in ticks), ticks
    assert "2026-07-01" in ticks
    # An article out of view has no height yet.
    seen.run("for (const e of document.querySelectorAll('article')) e.style.contentVisibility = 'visible'")
    seen.picture(pictures / "report-trend.png", article)


@pytest.mark.smoke
def test_every_planted_change_is_an_open_loss_at_its_build(page: Path, seen: Browser) -> None:
    seen.open(page)
    head, _, rest = seen.text.partition("What needs attention")
    assert "3 have an open loss of 4.8 to 11.9" in head
    assert "1 metric is counted in both; 1 loss is acknowledged." in head
    known = rest.partition("Known losses")[2].partition("Newest results")[0]
    assert known.strip().startswith("known, Ann Example, until ")
    assert ACKNOWLEDGED in known
    lost = seen.run("return [...document.querySelectorAll('li:has(.moved)')].map(e => e.textContent)")
    assert len(lost) == len(REGRESSIONS) + 1
    for planted in REGRESSIONS:
        (line,) = (line for line in lost if planted.figure in line)
        assert f"-> {planted.kernel}" in line
    assert sum("a drift" in line for line in lost) == 1


@pytest.mark.smoke
def test_a_keyboard_reaches_everything_in_order(page: Path, seen: Browser) -> None:
    focused = "return document.activeElement.textContent || document.activeElement.id"
    seen.open(page)
    seen.press("Tab")
    assert seen.run(focused) == "Skip to the results"
    assert seen.run("return document.activeElement.getBoundingClientRect().left >= 0")
    reached = []
    for _ in range(60):
        seen.press("Tab")
        reached.append(seen.run("return document.activeElement.className || document.activeElement.id"))
        outline = seen.run("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", seen.run("return document.activeElement.outerHTML")[:200]
    assert "only-bad" in reached
    assert sum(one == "" for one in reached) > 5, "the filters"
    assert "scroll" in reached
    assert any(one.startswith("cell") for one in reached)


@pytest.mark.slow
def test_what_is_good_can_be_put_away(page: Path, seen: Browser) -> None:
    shown = "return [...document.querySelectorAll('a.cell')].filter(e => e.getClientRects().length).length"
    seen.open(page)
    everything = seen.run(shown)
    seen.run("document.getElementById('only-bad').click()")
    assert 0 < seen.run(shown) < everything


ARTICLES = "return [...document.querySelectorAll('article:not([hidden]) h2')].map(e => e.textContent)"


STATUS = "return [...document.querySelectorAll('output')].map(e => e.textContent)"


def choose(seen: Browser, **chosen: str) -> list[str]:
    """Set filters as a user does, and return the combinations that are shown."""
    for name, value in chosen.items():
        seen.run(
            f"const one = document.querySelector('form.filters [name={name}]'); one.value = '{value}';"
            "one.dispatchEvent(new Event('input', {bubbles: true}))"
        )
    found: list[str] = seen.run(ARTICLES)
    return found


@pytest.mark.smoke
def test_filters_select_combinations_and_a_part_of_the_runs(page: Path, seen: Browser) -> None:
    seen.open(page)
    assert len(choose(seen)) == 8
    attention = "return [...document.querySelectorAll('li:has(.moved)')].filter(e => e.getClientRects().length).length"
    assert seen.run(attention) == 4
    assert choose(seen, board="pi4b") == ["pi4b:ax88179/pair", "pi4b:onboard/pair", "pi4b:rtl8153/pair"]
    assert seen.run(attention) == 1
    assert choose(seen, NIC="onboard") == ["pi4b:onboard/pair"]
    assert choose(seen, NIC="ax88179") == ["pi4b:ax88179/pair"]
    assert "What needs attention" not in seen.text
    assert choose(seen, NIC="onboard") == ["pi4b:onboard/pair"]
    assert "1 of 8 combinations shown" in seen.text
    seen.click("show all")
    assert choose(seen, verdict="fail") == ["pi5:rtl8125b/pair"]
    assert choose(seen, verdict="moved") == [
        "cm4:i226v/pair", "cm4:onboard/pair", "pi4b:onboard/pair", "pi5:rtl8125b/pair"
    ]  # fmt: skip
    seen.click("show all")
    assert choose(seen, text="r8152 rtl8153") == ["pi4b:rtl8153/pair"]
    assert choose(seen, text="", **{"from": "2027-01-01"}) == []
    assert len(choose(seen, **{"from": "2026-11-01"})) == 8
    # 15 of 180 runs are as wide as the chart.
    assert seen.run("return document.querySelector('svg.zoom').getAttribute('width')") == "1200.00%"
    seen.click("show all")
    assert seen.run("return document.querySelector('svg.zoom').getAttribute('width')") == "100.00%"


@pytest.mark.slow
def test_the_table_of_runs_and_the_tip_have_whole_versions(page: Path, seen: Browser) -> None:
    seen.open(page)
    seen.run("document.querySelector('article details.table').open = true")
    seen.until(lambda: seen.run("return document.querySelectorAll('article table.runs tbody tr').length"), "a table")
    rows = seen.run("return [...document.querySelectorAll('article table.runs tbody tr')].map(e => e.textContent)")
    assert len(rows) == 3 * 180
    assert f"{kernel_of(179)} igc" in rows[0]
    seen.run(
        "const plot = document.querySelector('svg.plot'), box = plot.getBoundingClientRect();"
        "plot.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: box.right - 2, clientY: box.top}))"
    )
    tip = seen.run("return document.querySelector('.tip').textContent")
    assert f"{kernel_of(179)} igc" in tip
    assert "tcp-P1-rx: 2.3" in tip


def open_comparison(seen: Browser) -> None:
    seen.run("document.getElementById('compare').open = true")
    seen.until(lambda: seen.run("return document.querySelectorAll('#compare tbody tr').length"), "a comparison")


@pytest.mark.slow
def test_any_two_builds_can_be_compared(page: Path, seen: Browser) -> None:
    seen.open(page)
    open_comparison(seen)
    for name, number in (("A", 0), ("B", 179)):
        seen.run(
            f"const one = document.querySelector('#compare [name={name}]'); one.value = '{kernel_of(number)}';"
            "one.dispatchEvent(new Event('input', {bubbles: true}))"
        )
    rows = seen.run("return [...document.querySelectorAll('#compare tbody tr')].map(e => e.textContent)")
    assert len(rows) == 24
    assert rows[0].startswith("pi5:rtl8125b/pair/tcp-P1-tx2.3")
    assert "-12" in rows[0] or "-11" in rows[0]


@pytest.mark.smoke
def test_two_builds_of_one_kernel_can_be_compared(firmwares: Path, seen: Browser) -> None:
    seen.open(firmwares)
    open_comparison(seen)
    names = seen.run("return [...document.querySelectorAll('#compare [name=A] option')].map(e => e.value)")
    kernel = "6.12.9-v8+"
    # The run without a driver is no further option: its build is named like the kernel.
    assert names == [kernel, f"{kernel} r8152 (firmware v2)", f"{kernel} r8152 (firmware v1)"]
    # These two are chosen already: there is no second kernel.
    rows = seen.run("return [...document.querySelectorAll('#compare tbody tr')].map(e => e.textContent)")
    assert rows == [
        f"pi4b:rtl8153/{topology}/{traffic}-tx941.0\u00a0Mbit/s29894.0\u00a0Mbit/s30-4.99\u00a0%"
        for topology, traffic in product(("incast", "pair"), TRAFFICS)
    ]


@pytest.mark.smoke
def test_filters_by_topology_and_by_the_last_day(firmwares: Path, seen: Browser) -> None:
    seen.open(firmwares)
    assert choose(seen, topology="incast") == ["pi4b:rtl8153/incast"]
    assert choose(seen, topology="", to="2026-05-31") == []
    assert len(choose(seen, to="2026-06-15")) == 2
    # The first 15 of 60 runs are as wide as the chart; the last day is part of them.
    assert seen.run("return document.querySelector('svg.zoom').getAttribute('width')") == "400.00%"
    assert seen.run("return document.querySelector('svg.zoom').getAttribute('x')") == "0.00%"
    assert choose(seen, **{"from": "2026-06-16"}) == []


@pytest.mark.smoke
def test_a_screen_reader_finds_a_table_and_pictures_with_words(page: Path, seen: Browser) -> None:
    seen.open(page)
    tree = seen._driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles: dict[str, list[str]] = {}
    for node in tree:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(str(node.get("name", {}).get("value", "")))
    assert "table" in roles
    assert "rowheader" in roles
    assert all(roles["image"])
    # There is one topology: a filter by topology would select nothing.
    assert {name.strip() for name in roles["combobox"]} == {"board", "NIC", "verdict"}
    assert "8 of 8 combinations shown" in " ".join(seen.run(STATUS))
    assert any(name.startswith("Trend of ") for name in roles["image"])
    assert all(roles["link"])


@pytest.mark.smoke
def test_the_script_writes_rates_as_the_terminal_does(tmp_path: Path, seen: Browser) -> None:
    rates = [0.0, 480.0, 999.96, 94.1e3, 9.996e6, 94.148e6, 999.96e6, 2.354e9, 1e11]
    dots = PointList(replace(dot(day, bps), interval=(bps * 0.99, bps), limit=bps / 2) for day, bps in enumerate(rates))
    page = tmp_path / "report.html"
    page.write_text(page_of([replace(series(), points=dots, changes=(), baseline=None)], BEGIN), encoding="utf-8")
    seen.open(page)
    seen.run("document.querySelector('article details.table').open = true")
    cells = "return [...document.querySelectorAll('article table.runs tbody tr')].map(e => e.children[3].textContent)"
    seen.until(lambda: seen.run(cells), "a table")
    # The newest run comes first.
    assert [cell.replace("\u00a0", " ") for cell in reversed(seen.run(cells))] == [rate(bps) for bps in rates]
