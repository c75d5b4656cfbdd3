"""Pages about real boards: a recipe for each way of management, and true numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.model.forms import ManagementMode

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("mode", ManagementMode)
def test_each_way_of_management_has_a_recipe(mode: ManagementMode) -> None:
    page = (DOCS / "reference" / "lab.md").read_text()
    _, found, recipes = page.partition("### Recipes\n")
    assert found
    assert re.search(rf"^- `{mode}(:4000)?`: \w+", recipes.partition("\n## ")[0], re.MULTILINE)


def test_the_page_claims_no_more_cases_of_cards_than_there_are() -> None:
    claim = re.search(r"\(`pytest -m real_cards`: (\d+) cases\)", (DOCS / "reference" / "hardware.md").read_text())
    assert claim is not None
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-m", "real_cards"]
    done = subprocess.run(
        [*command, "tests/functional/deploy"], cwd=DOCS.parent, capture_output=True, text=True, check=True
    )
    collected = re.search(r"^(\d+)(?:/\d+)? tests collected", done.stdout, re.MULTILINE)
    assert collected is not None, done.stdout
    # A card that was removed makes the page false; new ones do not.
    assert int(claim[1]) <= int(collected[1])


def test_the_recipes_for_bisection_copy_device_trees_and_overlays() -> None:
    page = (DOCS / "how-to" / "bisect.md").read_text()
    assert re.search(
        r"^make .*dtbs.*\n(?:.*\n)*?make .*INSTALL_DTBS_PATH=\S+ dtbs_install.*overlays", page, re.MULTILINE
    )
