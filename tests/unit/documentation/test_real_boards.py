"""Pages about real boards: a recipe for each way of management, and for each feature whether it ran on hardware."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.model.management import ManagementMode

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("mode", ManagementMode)
def test_each_way_of_management_has_a_recipe(mode: ManagementMode) -> None:
    page = (DOCS / "reference" / "lab.md").read_text()
    _, found, recipes = page.partition("### Recipes\n")
    assert found
    assert re.search(rf"^- `{mode}(:4000)?`: \w+", recipes.partition("\n## ")[0], re.MULTILINE)


def test_each_feature_says_whether_it_ran_on_hardware_and_what_it_was_tried_with() -> None:
    text = (DOCS / "reference" / "hardware.md").read_text()
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    features = [[cell.strip() for cell in row] for row in rows if row[1].strip() != "real hardware"]
    assert len(features) > 40
    assert [row for row in features if len(row) != 3 or not all(row)] == []
    assert {hardware for _, hardware, _ in features} <= {"never", "recorded"}


def test_the_recipes_for_bisection_copy_device_trees_and_overlays() -> None:
    page = (DOCS / "how-to" / "bisect.md").read_text()
    assert re.search(
        r"^make .*dtbs.*\n(?:.*\n)*?make .*INSTALL_DTBS_PATH=\S+ dtbs_install.*overlays", page, re.MULTILINE
    )
