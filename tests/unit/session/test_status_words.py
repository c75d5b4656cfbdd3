"""Verdicts as words and letters of pytest's own run. What pytest counts as failed stays failed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from tests.support.verdict_project import VerdictProject

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> VerdictProject:
    return VerdictProject(pytester, monkeypatch)


def section(result: pytest.RunResult, title: str) -> list[str]:
    """Return the lines of a section of pytest's output."""
    lines = result.outlines
    begin = next(place for place, line in enumerate(lines) if line.strip("= ") == title) + 1
    end = next((place for place, line in enumerate(lines) if place >= begin and line.startswith("=")), len(lines))
    return lines[begin:end]


COUNTS = "1 failed, 1 passed, 1 marginal, 1 improved, 1 inconclusive, 1 invalid in *"


def test_the_run_has_letters_counts_and_texts_of_its_own(project: VerdictProject) -> None:
    result = project.run("-q")
    assert result.outlines[0].split() == [".m+F?!", "[100%]"]
    result.stdout.fnmatch_lines([COUNTS])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    titles = [line.strip("= ") for line in result.outlines if line.startswith("===")]
    assert titles == ["FAILURES", "INVALID", "INCONCLUSIVE", "pinet throughput", "short test summary info"]
    assert "the text of this invalid result" in section(result, "INVALID")
    texts = section(result, "INCONCLUSIVE")
    assert texts[0].strip("_ ") == "test_inconclusive[pi4b:onboard/pair]"
    assert "the text of this inconclusive result" in texts
    assert "seen in the inconclusive test" in texts
    assert [line.split()[:2] for line in section(result, "short test summary info")[:-1]] == [
        ["FAILED", "test_it.py::test_fail[pi4b:onboard/pair]"],
        ["INVALID", "test_it.py::test_invalid[pi4b:onboard/pair]"],
        ["INCONCLUSIVE", "test_it.py::test_inconclusive[pi4b:onboard/pair]"],
    ]


def test_v_shows_the_words(project: VerdictProject) -> None:
    lines = project.run("-v").outlines
    words = [line.split()[1] for line in lines if line.startswith("test_it.py::")]
    assert words == ["PASSED", "MARGINAL", "IMPROVED", "FAILED", "INCONCLUSIVE", "INVALID"]


def test_r_lists_them_where_pytest_lists_passed_tests_and_errors(project: VerdictProject) -> None:
    result = project.run("-rpP")
    listed = [line.split()[0] for line in section(result, "short test summary info")]
    assert listed == ["PASSED", "MARGINAL", "IMPROVED"]
    assert "seen in the marginal test" in section(result, "PASSES")
    # The summary counts each test once, and -rf lists no tests without a verdict.
    result.stdout.fnmatch_lines([f"* {COUNTS}"])
    listed = [line.split()[0] for line in section(project.run("-rf", "--tb=no"), "short test summary info")]
    assert listed == ["FAILED"]


def test_tb_no_and_no_summary_show_no_texts(project: VerdictProject) -> None:
    for option in ("--tb=no", "--no-summary"):
        result = project.run(option)
        result.stdout.no_fnmatch_line("*= INVALID =*")
        result.stdout.no_fnmatch_line("*ends *")
        result.stdout.fnmatch_lines([f"* {COUNTS}"])


def test_junit_and_last_failed_are_as_before(project: VerdictProject) -> None:
    project.run("--junitxml=junit.xml", "-o", "junit_family=xunit2")
    (suite,) = ET.parse(project.path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "1", "2")
    found = Counter(child.tag for case in suite for child in case if child.tag in ("failure", "error"))
    assert found == {"failure": 1, "error": 2}
    again = project.run("--lf", "-v")
    words = [line.split()[1] for line in again.outlines if line.startswith("test_it.py::")]
    assert words == ["FAILED", "INCONCLUSIVE", "INVALID"]


def test_x_ends_the_run_at_a_test_without_a_verdict(project: VerdictProject) -> None:
    result = project.run("-x", "-k", "inconclusive or invalid")
    result.stdout.fnmatch_lines(["!* stopping after 1 failures !*", "*= 4 deselected, 1 inconclusive in *"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_the_colours_repeat_the_words(project: VerdictProject) -> None:
    result = project.run("--color=yes", "-k", "inconclusive or marginal")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    last = result.outlines[-1]
    # The run failed, so its last line is red. The words are yellow.
    assert last.startswith("\x1b[31m===")
    assert "\x1b[33m1 marginal\x1b[0m" in last
    assert "\x1b[33m1 inconclusive\x1b[0m" in last
    good = project.run("--color=yes", "-k", "improved or marginal")
    assert good.ret == 0
    assert good.outlines[-1].startswith("\x1b[33m===")


def test_workers_report_the_same_words_and_the_controller_prints_the_header(project: VerdictProject) -> None:
    result = project.run("-n2", "-p", "xdist", "-v", subprocess=True)
    assert [line for line in result.outlines if line.startswith("pinet: ")] == [
        "pinet: lab lab (2 nodes, 3 interfaces); about 55 s of work for 2 workers",
        "pinet: profile standard; no accepted baseline",
    ]
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"* {COUNTS}"])
    found = {line.partition("%] ")[2].split()[0] for line in result.outlines if line.startswith("[gw") and "%]" in line}
    assert found == {"PASSED", "MARGINAL", "IMPROVED", "FAILED", "INCONCLUSIVE", "INVALID"}
    assert "the text of this invalid result" in section(result, "INVALID")


def test_without_a_terminal_plugin_only_the_exit_code_tells(project: VerdictProject) -> None:
    result = project.run("-p", "no:terminal")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.outlines == []


def test_capture_no_and_a_terminal_without_utf_8_show_the_same_words(
    project: VerdictProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii:strict")
    result = project.run("-s", "-v", subprocess=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*seen in the inconclusive test", "INCONCLUSIVE*", f"* {COUNTS}"])
    assert result.stdout.str().isascii()
    assert result.errlines == []
