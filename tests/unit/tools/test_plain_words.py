"""`tools/plain-words` finds what a reader must decode, names the line, and leaves code alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "plain-words"


def loaded() -> Any:
    # No file must be written beside the tool.
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec = spec_from_loader("plain_words", SourceFileLoader("plain_words", str(TOOL)))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules["plain_words"] = module
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


plain_words = loaded()
DEFAULT = [TOOL.parents[1] / name for name in plain_words.DEFAULT]


def found(name: str, text: str) -> list[tuple[int, str]]:
    """Return line and words of all findings in a file of this name."""
    return [(one.line, one.words) for one in plain_words.findings(Path(name), text, name)]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(TOOL), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("The user is told so.", "told"),
        ("What was asked of it.", "asked"),
        ("A limit blames nobody here.", "nobody"),
        ("Somebody else has it.", "Somebody"),
        ("It says what it is that failed.", "what it is that"),
        ("Traffic takes turns as ever.", "as ever"),
        ("It stops, and so is the lab.", ", and so is"),
        ("A port may not be shared.", "may not"),
        ("Links are otherwise here.", "are otherwise"),
        ("It opens otherwise than before.", "otherwise than"),
        ("A figure below the limit fails.", "figure"),
        ("Figures are compared.", "Figures"),
        ("Limits and those of the lab.", "those of"),
        ("This is not unusual.", "not unusual"),
        ("Whoever has it waits.", "Whoever"),
        ("It is made anew.", "anew"),
        ("A peer, be it shared or not.", "be it"),
        ("Told is told.", "Told told"),
    ],
)
def test_a_turn_is_found(sentence: str, words: str) -> None:
    assert " ".join(match for _, match in found("page.md", sentence)) == words


@pytest.mark.parametrize(
    "sentence",
    [
        "The exporter reports it; otherwise the run waits.",
        "It took so long that nothing was left, so is that a failure?".replace(", so is", ". Is"),
        "Figure out which port it is.",
        "It may, however, not answer.",
        "It is not until later, not under load, not undone.",
        "A toldo, a configured unasked value, prefigured.",
        "Use `asked`, ``told`` and `figures()`.",
        "See [this page](docs/figures-told.md).",
    ],
)
def test_plain_sentences_names_and_addresses_are_left_alone(sentence: str) -> None:
    assert found("page.md", sentence) == []


def test_a_turn_is_found_across_lines_and_named_by_its_first() -> None:
    assert found("page.md", "# Title\n\nTraffic takes turns as\never, and nobody\nwaits.\n") == [
        (3, "as ever"),
        (4, "nobody"),
    ]


def test_python_has_docstrings_comments_and_texts_but_no_names() -> None:
    source = '''"""What is told.

Nobody reads it.
"""
from asked import told

KEY = {"asked": told.figures}  # somebody
# A comment that ends as
# ever does.
MESSAGE = (
    f"the {KEY} was "
    f"told {told(1)} twice, "
    "and nobody asked"
)
'''
    assert found("module.py", source) == [
        (1, "told"),
        (3, "Nobody"),
        (7, "somebody"),
        (8, "as ever"),
        (12, "told"),
        (13, "nobody"),
        (13, "asked"),
    ]


def test_a_text_with_escaped_line_ends_has_the_line_of_the_source() -> None:
    assert found("module.py", 'ONE = 1\nTEXT = "first\\nsecond\\nnobody there"\n') == [(2, "nobody")]


def test_pieces_with_as_many_line_ends_as_lines_have_the_lines_of_the_source() -> None:
    assert found("module.py", 'TEXT = (\n    "one\\n\\ntwo "\n    "nobody\\n there"\n)\n') == [(3, "nobody")]


def test_an_f_string_in_an_f_string_is_read_once() -> None:
    source = "TEXT = f\"it is {f'told {1} twice'} here\"\n"
    assert found("module.py", source) == [(1, "told")]


def test_of_a_code_block_only_the_comments_are_read() -> None:
    page = "```console\n$ pinet told nobody   # as asked\nfigure\n```\nTold.\n"
    assert found("page.md", page) == [(2, "asked"), (5, "Told")]


def test_of_yaml_comments_and_descriptions_are_read() -> None:
    assert found("lab.yaml", "told: nobody # somebody\n# A figure.\nurl: x#asked\n") == [(1, "somebody"), (2, "figure")]
    assert found("action.yml", "  told:\n    description: For nobody else\n    default: asked for\n") == [(2, "nobody")]


def test_of_javascript_comments_and_quoted_texts_are_read() -> None:
    text = """const told = "told"; // as asked
// A list that stops as
// ever.
const text = one ? "nobody there" : `told ${told} times`;
const url = 'https://told.example/';
"""
    assert found("page.js", text) == [(1, "asked"), (2, "as ever"), (4, "nobody"), (4, "told")]


def test_of_a_template_texts_titles_and_comments_are_read() -> None:
    text = """<figure class="told" title="for nobody">
{# As asked. #}
{% if told %}<p data-told="told">{{ figures.told }} the user is
told</p>{% endif %}
</figure>
"""
    assert found("page.html", text) == [(1, "nobody"), (2, "asked"), (4, "told")]


def test_all_that_users_read_is_checked() -> None:
    files = {str(path.relative_to(TOOL.parents[1])) for path in plain_words.files(map(str, DEFAULT))}
    assert {".ci/run", "action.yml", "templates/gate.yml", "pytest_pinet/report/page/page.js"} <= files
    assert "pytest_pinet/report/page/templates/page.html" in files


@pytest.mark.parametrize(("name", "first"), [("Makefile", ""), ("install", "#!/bin/sh"), ("x.sh", "")])
def test_of_a_makefile_and_of_scripts_comments_and_quoted_texts_are_read(name: str, first: str) -> None:
    text = f'{first}\n# As asked.\ntold:\n\t@echo "nobody there" $(told)\n\tgrep "told" file\n'
    assert found(name, text) == [(2, "asked"), (4, "nobody")]


def test_a_python_script_without_a_suffix_is_python() -> None:
    assert found("tool", "#!/usr/bin/env python3\ntold = 1  # asked\n") == [(2, "asked")]


def test_other_files_are_not_read() -> None:
    assert found("results.json", '{"a": "nobody told"}') == []


def test_the_command_prints_file_line_words_and_advice_and_ends_with_1(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Fine.\n\nThe user is told.\n")
    done = run(str(page))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{page}:3: 'told': name who reports what")


def test_it_reads_folders_without_recorded_data_and_ends_with_0(tmp_path: Path) -> None:
    for name in ("data/recorded.py", ".venv/lib.py", "__pycache__/x.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("# told\n")
    (tmp_path / "good.py").write_text("# Plain.\n")
    done = run(str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")
    (tmp_path / "bad.py").write_text("# told\n")
    assert run(str(tmp_path)).returncode == 1


def test_count_prints_packages_and_rules_and_ends_with_0(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("Told, and told as ever.\n")
    done = run("--count", str(tmp_path))
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line]
    assert ["told", "2"] in rows
    assert ["as", "ever", "1"] in rows
    assert rows[-1] == ["all", "3"]


def test_a_path_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    done = run(str(tmp_path / "missing.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "missing.py: no such file or folder" in done.stderr


def test_an_exception_allows_one_rule_on_lines_with_these_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text("A HTTP request is asked for.\n\nIt is asked. Nobody knows.\n")
    entry = plain_words.Allowed(f"{tmp_path}/*.md", "asked", "HTTP", "the field's own word")
    monkeypatch.setattr(plain_words, "EXCEPTIONS", [entry])
    left, used = plain_words.check([str(tmp_path)])
    assert [(one.line, one.words) for one in left] == [(3, "asked"), (3, "Nobody")]
    assert used == {entry}


def test_there_are_at_most_20_exceptions_each_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(plain_words.EXCEPTIONS) <= plain_words.MOST_EXCEPTIONS == 20
    assert all(len(entry.reason.split()) >= 3 for entry in plain_words.EXCEPTIONS)
    monkeypatch.setattr(plain_words, "EXCEPTIONS", plain_words.EXCEPTIONS[:1] * 21)
    monkeypatch.setattr(sys, "argv", ["plain-words"])
    assert plain_words.main() == 2
    assert "21 exceptions; at most 20" in capsys.readouterr().err


def test_an_exception_that_matches_nothing_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("Plain.\n")
    monkeypatch.setattr(plain_words, "ROOT", tmp_path)
    monkeypatch.setattr(plain_words, "DEFAULT", ["page.md"])
    monkeypatch.setattr(plain_words, "EXCEPTIONS", [plain_words.Allowed("page.md", "told", "", "a reason of three")])
    monkeypatch.setattr(sys, "argv", ["plain-words"])
    assert plain_words.main() == 2
    assert "this exception matches nothing" in capsys.readouterr().err
