"""The README on the page of a package index. tests/functional/package/test_packaging.py builds it."""

from __future__ import annotations

import re
import runpy
import sys
from types import SimpleNamespace

import pytest

from tests.support.console_blocks import ROOT

ADDRESS = "https://git.example.org/lab/pytest-pinet"
SETUP = runpy.run_path(str(ROOT / "setup.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_with_an_address_each_link_is_that_of_a_file_of_the_repository() -> None:
    text = SETUP["absolute"](README, ADDRESS)
    links = re.findall(r"\]\(([^)]+)\)", text)
    own = [link.partition("/HEAD/")[2].partition("#")[0] for link in links if link.startswith(ADDRESS)]

    assert len(own) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    assert [path for path in own if not (ROOT / path).exists()] == []
    assert f"]({ADDRESS}/raw/HEAD/docs/pictures/failing-gate.svg)\n" in text
    assert f"[Glossary]({ADDRESS}/blob/HEAD/docs/glossary.md)\n" in text
    assert "](https://labgrid.readthedocs.io/)" in text


def test_without_an_address_the_links_stay_and_the_build_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, object] = {}
    monkeypatch.setitem(sys.modules, "setuptools", SimpleNamespace(setup=given.update))

    SETUP["main"]()

    assert given == {"long_description": README, "project_urls": {}}
    assert capsys.readouterr().err == (
        "setup.py: no address in [tool.pinet] of pyproject.toml: links of the README stay relative\n"
    )
