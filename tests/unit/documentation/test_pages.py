"""The pages of the documentation, against the code and the files that they name."""

from __future__ import annotations

import ast
import fnmatch
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from pytest_pinet import errors
from pytest_pinet.cli import pinet
from pytest_pinet.errors import LabError, PinetError
from pytest_pinet.model.forms import ManagementMode
from pytest_pinet.session.option_table import SETTINGS
from tests.support.console_blocks import DOCS, PAGES, ROOT, console_blocks
from tools.site import PART, PARTS, generated, written_by_hand
from tools.site.commands import walk
from tools.site.messages import PACKAGE, Message, messages, of_module, places
from tools.site.mistakes import MISTAKES, mistakes
from tools.site.options import OTHERS, variables_in_source
from tools.site.troubleshooting import GROUPS, Group, troubles

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


FOUND = messages()


def entry_of(message: Message) -> Group | None:
    return next((group for group in (*GROUPS, *MISTAKES) if group.has(message)), None)


def test_each_place_that_raises_an_error_has_an_entry_with_cause_and_cure() -> None:
    raised = set(places())

    assert len(raised) > 200
    assert [one for one in sorted(raised) if entry_of(Message(one[0], "", "", one[1])) is None] == []
    assert [one.title for one in (*GROUPS, *MISTAKES) if len(one.cause) < 40 or len(one.cure) < 30] == []


def test_each_message_is_on_a_page() -> None:
    page = troubles() + mistakes()

    assert len(FOUND) > 400
    assert [one for one in FOUND if one.text.replace("`", "'").replace("|", r"\|") not in page] == []


def test_each_error_class_has_an_entry() -> None:
    every = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, PinetError)}
    entries = {name for group in (*GROUPS, *MISTAKES) for name in group.errors}

    # The root of the tree is never raised.
    assert every - entries == {PinetError.__name__}


def test_each_entry_has_modules_that_are_there() -> None:
    paths = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}

    assert [glob for group in (*GROUPS, *MISTAKES) for glob in group.modules if not fnmatch.filter(paths, glob)] == []


def test_a_message_that_no_group_has_is_found() -> None:
    assert entry_of(Message("NewError", "the new thing failed", "", "lab/new.py")) is None
    assert entry_of(Message("ConfigError", "the new thing is wrong", "", "new/new.py")) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('raise LabError(f"{node} is off", "switch it on")', ("LabError", "... is off", "switch it on")),
        ('raise LabError("off", act=f"ask {who}")', ("LabError", "off", "ask ...")),
        ('def f():\n    text = "it is off"\n    raise LabError(text)', ("LabError", "it is off", "")),
        ('raise LabError("off\\n  -> switch it on")', ("LabError", "off", "switch it on")),
    ],
)
def test_message_and_cure_are_read_from_the_source(source: str, expected: tuple[str, str, str]) -> None:
    assert list(of_module(ast.parse(source), {LabError.__name__})) == [expected]


def blocks(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / "how-to" / page).read_text(encoding="utf-8"), re.S)


def check(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_follows_its_schema() -> None:
    check("vendor.github-actions", ROOT / "action.yml")


def test_the_component_follows_its_schema(tmp_path: Path) -> None:
    """The schema knows jobs, not the spec before them."""
    text = (ROOT / "templates" / "gate.yml").read_text(encoding="utf-8").partition("\n---\n")[2]
    (tmp_path / "gate.yml").write_text(re.sub(r"\$\[\[ inputs\.(\w+) \]\]", r"\1", text))
    check("vendor.gitlab-ci", tmp_path / "gate.yml")


@pytest.mark.parametrize(
    ("page", "schema"), [("ci-github.md", "vendor.github-workflows"), ("ci-gitlab.md", "vendor.gitlab-ci")]
)
def test_each_file_of_a_walk_follows_its_schema(page: str, schema: str, tmp_path: Path) -> None:
    found = blocks(page)
    assert len(found) == 3
    for number, text in enumerate(found):
        (tmp_path / f"{number}.yml").write_text(text)
        check(schema, tmp_path / f"{number}.yml")


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    """Go installs it: github.com/rhysd/actionlint/cmd/actionlint. It also checks inputs of the action."""
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    workflows = tmp_path / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (tmp_path / ".github" / "actionlint.yaml").write_text("self-hosted-runner:\n  labels: [network-lab]\n")
    shutil.copyfile(ROOT / "action.yml", tmp_path / "action.yml")
    for number, text in enumerate(blocks("ci-github.md")):
        # The action of this checkout, so that its inputs are known.
        (workflows / f"{number}.yml").write_text(text.replace("OWNER/pytest-pinet@main", "./"))
    for path in (DOCS / "how-to" / "pull-requests").glob("exact-*.yml"):
        shutil.copy(path, workflows)
    done = subprocess.run([actionlint, "-no-color"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
