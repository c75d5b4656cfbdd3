"""Our own page of a simulated half year in a real browser.

Pictures are stored in $PINET_PICTURES.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, browser
from tests.support.half_year_history import REGRESSIONS, half_year, keep

pytestmark = pytest.mark.smoke
PINET = str(Path(sys.executable).parent / "pinet")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of ``pinet report`` without Allure results."""
    folder = tmp_path_factory.mktemp("half-year")
    (folder / ".pinet").mkdir()
    keep(half_year(1), str(folder / ".pinet" / "history.db"))
    done = subprocess.run([PINET, "report"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "report: report.html (" in done.stdout
    assert "pytest-pinet's own page" in done.stdout
    return folder / "report.html"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("PINET_PICTURES")
    return Path(kept) if kept else tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def seen() -> Iterator[Browser]:
    """Yield one browser for all tests that do not depend on its width. Each test opens the page again."""
    with browser() as found:
        yield found


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1600, False)], ids=["narrow and dark", "wide and light"])
def test_the_page_is_readable_at_any_width_and_loads_nothing_from_elsewhere(
    page: Path, pictures: Path, width: int, dark: bool
) -> None:
    with browser(width, 1000, dark) as seen:
        seen.open(page)
        assert not seen.overflows
        paper = seen.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
        small = seen.run(
            "return [...document.querySelectorAll('p, a, td, th, li, span.figure, .chart svg text')]"
            ".filter(e => e.getClientRects().length && e.textContent.trim())"
            ".map(e => parseFloat(getComputedStyle(e).fontSize)"
            " * (e.closest('svg') ? e.closest('svg').getBoundingClientRect().width"
            " / e.closest('svg').viewBox.baseVal.width : 1))"
            ".filter(size => size < 10.5).length"
        )
        assert small == 0
        targets = seen.run(
            "return [...document.querySelectorAll('a.cell')].filter(e => e.getBoundingClientRect().height < 44).length"
        )
        assert targets == 0
        seen.picture(pictures / f"page-{width}-{'dark' if dark else 'light'}.png")
        assert seen.left_the_machine() == []
        assert seen.complaints() == []


def test_the_picture_of_the_readme_shows_state_changes_and_results(page: Path, pictures: Path) -> None:
    """``make pictures`` copies the picture to docs/."""
    with browser(1200, 860) as seen:
        seen.open(page)
        for head in ("What needs attention", "Level changes", "Newest results"):
            assert head in seen.text
        seen.picture(pictures / "report-page.png")


def test_every_planted_change_is_named_at_its_build(page: Path, seen: Browser) -> None:
    seen.open(page)
    moved = seen.text.partition("Level changes")[2].partition("Newest results")[0].strip().splitlines()
    assert len(moved) == len(REGRESSIONS) + 1
    for planted in REGRESSIONS:
        (line,) = (line for line in moved if planted.figure in line)
        assert f"-> {planted.kernel}" in line
    assert sum("drifted from" in line for line in moved) == 1


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
        assert outline != "none", reached[-1]
    assert "only-bad" in reached
    assert "scroll" in reached
    assert any(one.startswith("cell") for one in reached)


def test_what_is_good_can_be_put_away(page: Path, seen: Browser) -> None:
    shown = "return [...document.querySelectorAll('a.cell')].filter(e => e.getClientRects().length).length"
    seen.open(page)
    everything = seen.run(shown)
    seen.run("document.getElementById('only-bad').click()")
    assert 0 < seen.run(shown) < everything


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
    assert any(name.startswith("Trend of ") for name in roles["image"])
    assert all(roles["link"])
