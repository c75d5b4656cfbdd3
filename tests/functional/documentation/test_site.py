"""``make site``: it builds without a warning, all its links lead somewhere, it works offline, and its search finds.

Pictures of pages are stored in $PINET_PICTURES.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.browser import browser
from tests.support.console_blocks import ROOT

pytestmark = pytest.mark.smoke
LOOKED_AT = (
    ("index", 1200),
    ("tutorials/first-verdict", 1200),
    ("tutorials/rack", 1200),
    ("reference/lab-file", 1200),
    ("troubleshooting", 420),
)


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(values["href"])
        elif "src" in values:
            self.loads.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with the command of the Makefile."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    recipe = re.search(r"^site: .*\n\t\$\(BIN\)/python (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None
    words = recipe[1].replace("$(SITE)", str(folder / "html")).replace(".pinet/site-doctrees", str(folder / "doctrees"))
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_each_internal_link_leads_to_a_page_and_a_place_in_it(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    assert list(_broken(pages)) == []


def _broken(pages: dict[Path, Page]) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = pages[target].anchors if target in pages else set()
            if not target.exists() or (parts.fragment and target in pages and unquote(parts.fragment) not in there):
                yield f"{path.name}: {link}"


def test_nothing_is_loaded_from_another_machine(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [one for one in page.loads if urlsplit(one).netloc] == [], path
        assert all((path.parent / unquote(urlsplit(one).path)).exists() for one in page.loads if "data:" not in one), (
            path
        )
    styles = "\n".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)", styles) == []


def test_the_search_finds_a_message_and_pages_can_be_looked_at(
    site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = os.environ.get("PINET_PICTURES")
    pictures = Path(kept) if kept else tmp_path_factory.mktemp("pictures")
    with browser(1200, 1000) as seen:
        for name, width in LOOKED_AT:
            seen.resize(width, 1000)
            seen.open(site / f"{name}.html")
            assert not seen.overflows
            seen.picture(pictures / f"site-{name.replace('/', '-')}.png")
        seen.open(site / "search.html", query="quarantine")
        seen.await_text("Search finished")
        found = seen.run("return [...document.querySelectorAll('#search-results li a')].map(one => one.textContent)")
        assert "Troubleshooting" in found
        assert seen.left_the_machine() == []
        assert seen.complaints() == []
