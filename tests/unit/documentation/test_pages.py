"""README and docs/ name existing options, commands and files, and their YAML is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pytest_pinet.cli import pinet
from pytest_pinet.session.option_table import SETTINGS
from tests.support.console_blocks import DOCS, PAGES, ROOT, console_blocks
from tools.site import PART, PARTS, generated, written_by_hand
from tools.site.commands import walk
from tools.site.options import OTHERS, variables_in_source

TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}
BY_HAND = {page: written_by_hand(text) for page, text in TEXT.items()}
ARCHITECTURE = DOCS / "contributing" / "architecture.md"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_each_option_of_pytest_is_in_the_reference_and_pages_name_no_other(pytester: pytest.Pytester) -> None:
    there = set(re.findall(r"^ +(--pinet-[a-z-]+)", pytester.runpytest_subprocess("--help").stdout.str(), re.M))
    option = re.compile(r"--pinet-[a-z]+(?:-[a-z]+)*")

    assert set(option.findall(PARTS["options"]())) == there
    assert {found for page in TEXT.values() for found in option.findall(page)} <= there


def test_each_environment_variable_of_the_source_is_in_the_reference() -> None:
    settings = {one.variable for one in SETTINGS}

    assert variables_in_source() - settings == set(OTHERS)


def test_each_command_is_in_the_reference() -> None:
    page = PARTS["commands"]()

    assert [path for path, _ in walk(pinet, "pinet") if f"## {path}\n" not in page] == []


def test_each_generated_part_is_on_a_page() -> None:
    placed = [part[1] for text in TEXT.values() for part in PART.finditer(text)]

    assert sorted(placed) == sorted(PARTS)


@pytest.mark.parametrize("page", [page for page in PAGES if PART.search(TEXT[page])], ids=name_of)
def test_the_generated_parts_of_a_page_are_those_of_the_code(page: Path) -> None:
    assert generated(TEXT[page]) == TEXT[page], "not current: run make docs"


def test_what_is_written_by_hand_stays() -> None:
    page = "above\n<!-- generated: junit -->\nold\n<!-- end of junit -->\nbelow\n"

    assert generated(page).startswith("above\n<!-- generated: junit -->\n\n")
    assert PARTS["junit"]().strip() in generated(page)
    assert written_by_hand(page) == page.replace("old", "")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_file_that_a_page_points_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\((?!http|#)([^)#]+)\)", TEXT[page])

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_each_external_link_is_on_the_list_of_addresses() -> None:
    listed = re.findall(r"^\| <(https://\S+)> \| .+ \| \d{4}-\d\d-\d\d, .+ \|$", TEXT[ARCHITECTURE], re.M)
    linked = {found for text in TEXT.values() for found in re.findall(r"\]\(<?([a-z]+:[^)>]+)>?\)", text)}

    assert sorted(linked) == sorted(listed)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_yaml_of_a_page_parses(page: Path) -> None:
    for block in re.findall(r"```yaml\n(.*?)```", TEXT[page], re.S):
        assert yaml.safe_load(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_all_rows_of_a_table_have_equal_numbers_of_cells(page: Path) -> None:
    """A table whose separator has another number of cells than its head is shown as plain text."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", TEXT[page])
    tables = re.findall(r"(?m)(?:^ *\|.*\n)+", text)
    cells = [{len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()} for rows in tables]

    assert [rows for rows, counts in zip(tables, cells, strict=True) if len(counts) > 1] == []


def test_pages_for_users_name_no_lab_file_of_a_checkout() -> None:
    """A wheel has the packaged labs, under their names."""
    users = {page: text for page, text in BY_HAND.items() if page.parent != DOCS / "contributing"}

    assert [name_of(page) for page, text in users.items() if re.search(r"(?<![\w-])lab/[\w-]+\.yaml", text)] == []


def test_the_readme_is_a_short_page() -> None:
    assert len(TEXT[ROOT / "README.md"].splitlines()) < 160


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {word for line in re.findall(r"^\.PHONY: (.*)$", makefile, re.M) for word in line.split()}


def test_each_make_target_is_on_the_page_of_commands() -> None:
    text = TEXT[DOCS / "contributing" / "commands.md"]

    assert set(re.findall(r"`make ([a-z]+)`", text)) == targets()


def test_make_gate_and_make_test_set_up_a_checkout_and_ci_runs_targets_of_the_makefile() -> None:
    (block,) = (one for one in console_blocks() if one.page == "README.md" and one.commands[0].startswith("make"))
    ci = set(re.findall(r"^[^#\n]*\bmake ([a-z]+(?: [a-z]+)*)", (ROOT / ".ci" / "run").read_text(), re.M))

    assert [words for words in block.words if words] == [["make", "gate"], ["make", "test"]]
    assert {"test", "lint", "smoke"} <= {word for words in ci for word in words.split()} <= targets()


def test_the_lines_that_make_a_module_are_the_same_in_the_readme_and_on_their_page() -> None:
    """A reader of either page needs no other."""
    readme, page = (
        [
            block
            for block in console_blocks()
            if block.page == name and block.commands[-1].startswith("pinet gate --exact")
        ]
        for name in ("README.md", "docs/how-to/exact-gate.md")
    )

    assert readme[0].commands in [block.commands for block in page]


def test_each_promise_of_an_error_rate_names_the_page_of_its_condition(pytester: pytest.Pytester) -> None:
    """The condition stands on this page alone."""
    promise = re.compile(r"error rate\b|--(pinet-)?error-rate|% error", re.I)
    options = re.split(r"\n(?=  --)", pytester.runpytest_subprocess("--help").stdout.str())
    # The page itself, and the page about calibration.
    pages = [text for page, text in BY_HAND.items() if page.name not in ("error-rates.md", "calibrate.md")]
    parts = [part for text in pages for part in re.split(r"\n\n|\n(?=[|-] )|\n(?=  [a-z]+ {2,})", text)]
    promises = [" ".join(part.split()) for part in [*parts, *options] if promise.search(part)]

    assert len(promises) >= 6
    condition = re.compile(r"alternate|error-rates\.md")
    assert [part for part in promises if not condition.search(part)] == []
    spans = re.compile(r"spans\s+eight\s+days|differ\s+by\s+at\s+most\s+0\.8\s+%")
    assert [name_of(page) for page, text in TEXT.items() if spans.search(text)] == ["docs/explanation/error-rates.md"]


def test_the_readme_names_the_worst_error_rates_that_were_measured() -> None:
    rates = TEXT[DOCS / "explanation" / "error-rates.md"]
    measured = re.search(r"If the baseline has fewer days than the link needs, up to ([\d.]+) %", rates)
    named = re.search(
        r"up to (\d+) % of the\s+verdicts were wrong with a baseline of one day", TEXT[ROOT / "README.md"]
    )

    assert measured is not None
    assert named is not None
    assert [float(rate) for rate in named.groups()] == [round(float(rate)) for rate in measured.groups()]
