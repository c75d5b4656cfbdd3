"""A test that was collected and died is an error in every file and every text, with and without workers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_pinet.cli import pinet
from pytest_pinet.history.results_file import record_of
from pytest_pinet.session.results import NOT_BEGUN, NOT_ENDED
from pytest_pinet.session.run_recorder import NO_MEASUREMENT
from tests.support.verdict_project import VerdictProject

pytest_plugins = ["pytester"]

HEAD = """
import os, pytest
pytestmark = pytest.mark.pinet(board="pi4b", nic="onboard")
def test_pass(link, gate):
    gate.tcp(link)
"""
# Each ends after a good measurement, or before any.
DIES = "def test_improved(link, gate):\n    gate.tcp(link)\n    {}\n"
IN_SETUP = "@pytest.fixture\ndef card():\n    {}\ndef test_improved(card, link, gate):\n    gate.tcp(link)\n"
IN_TEARDOWN = (
    "@pytest.fixture\ndef card():\n    yield\n    {}\ndef test_improved(card, link, gate):\n    gate.tcp(link)\n"
)
AFTER = "def test_marginal(link, gate):\n    gate.tcp(link)\n"
PASS, DEAD, LAST = (
    f"test_it.py::{name}[pi4b:onboard/pair]" for name in ("test_pass", "test_improved", "test_marginal")
)
WORKER = (
    "LeaseError: worker gw0 died while it ran this test\n"
    "  -> find out why the worker ended (out of memory, kill -9, a time limit, a crash), and run the test again"
)
# What pytest-timeout does, by its two methods.
BY_SIGNAL, BY_THREAD = 'pytest.fail("Timeout (>1.0s) from pytest-timeout.")', "os._exit(1)"


def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *tests: str) -> VerdictProject:
    return VerdictProject(pytester, monkeypatch, "".join([HEAD, *tests]))


def run(*words: str) -> Result:
    return CliRunner().invoke(pinet, words)


def errors(file: str = "results.json") -> dict[str, list[str]]:
    """Return the messages of the errors in the run folder, by test; of other results their verdicts."""
    folder = Path(".pinet/latest")
    text = (folder / file).read_text()
    results = [json.loads(line) for line in text.splitlines()] if file.endswith("l") else json.loads(text)["results"]
    found: dict[str, list[str]] = {}
    for one in results:
        said = one["message"] if one["verdict"] == "error" else one["verdict"]
        found.setdefault(one["test"], []).append(said)
    return found


def assert_nothing_says_that_it_holds(dead: str = "") -> None:
    """Check all texts of a run in which a test measured, and others did not end. ``dead``: what each must name."""
    summary, page = run("summary").stdout, run("summary", "--format", "md").stdout
    assert "holds" not in summary + page
    assert "No verdict: nothing failed, but " in summary
    ktap = run("export", "--format", "ktap").stdout.splitlines()
    assert [line for line in ktap if line.startswith("ok ")] == []
    assert any(line.startswith("# not ok ") and "# ERROR" in line for line in ktap)
    texts = {form: run("export", "--format", form).stdout for form in ("github", "lava", "openmetrics", "prometheus")}
    texts["nipa"] = run("export", "--format", "nipa", "--set", "branch=net-next-2026-11-23--12-00").stdout
    texts["gitlab"] = run("export", "--format", "gitlab-annotations", "--set", "link=https://ci/1").stdout
    assert "::warning title=pi4b.onboard.pair.measurement::error: " in texts["github"]
    assert "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=pi4b.onboard.pair.measurement RESULT=unknown>" in texts["lava"]
    assert '"result": "warn"' in texts["nipa"]
    assert "error: pi4b.onboard.pair.measurement" in texts["gitlab"]
    for form in ("openmetrics", "prometheus"):
        assert 'pinet_verdict="error"} 1.0' in texts[form]
    assert dead in summary
    merged = run("merge", "--history", "off", ".pinet/latest")
    assert (merged.exit_code, "holds" in merged.stdout) == (3, False), merged.exception


@pytest.mark.parametrize("body", [DIES.format(BY_THREAD), IN_SETUP.format(BY_THREAD), IN_TEARDOWN.format(BY_THREAD)])
@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_test_whose_process_ends(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    workers: tuple[str, ...],
) -> None:
    made = project(pytester, monkeypatch, body, AFTER)
    output = made.run(*workers, "--junitxml=it.xml", subprocess=True)
    if workers:
        found = errors()
        assert errors("results.jsonl") == found
        assert found[LAST] == ["marginal"]
        assert found[DEAD][-1] == WORKER
        output.stdout.fnmatch_lines(["* measured: * 1 not measured: 1 error"])
        cases = ET.parse("it.xml").getroot().iter("testcase")
        assert [case.find("error") is not None for case in cases if "improved" in case.get("name", "")] == [True]
    else:
        record, left_out = record_of(Path(".pinet/latest/results.jsonl"))
        found = {one.test: [one.message] for one in record.results if one.verdict == "error"}
        assert (found, left_out) == ({DEAD: [NOT_ENDED], LAST: [NOT_BEGUN]}, [])
        assert not record.complete
    assert_nothing_says_that_it_holds()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (DIES.format(BY_SIGNAL), "the test failed: Failed: Timeout (>1.0s) from pytest-timeout."),
        (DIES.format("assert 1 > 2, 'my own limit'"), "the test failed: AssertionError: my own limit"),
        (IN_SETUP.format("raise OSError('no card')"), "the set-up of the test failed: OSError: no card"),
        (IN_TEARDOWN.format("raise OSError('no card')"), "the teardown of the test failed: OSError: no card"),
        (
            "def test_improved(link, gate, ghost):\n    pass\n",
            "the set-up of the test failed: fixture 'ghost' not found",
        ),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_test_that_fails_beside_its_measurement(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str, message: str, workers: tuple[str, ...]
) -> None:
    made = project(pytester, monkeypatch, body, AFTER)
    assert made.run(*workers, subprocess=bool(workers)).ret == pytest.ExitCode.TESTS_FAILED
    found = errors()
    assert found[DEAD][-1] == message
    assert found[LAST] == ["marginal"]
    assert_nothing_says_that_it_holds(message.partition(":")[0])


@pytest.mark.parametrize("how", ["pytest.exit('enough')", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_run_that_is_interrupted(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, how: str, workers: tuple[str, ...]
) -> None:
    project(pytester, monkeypatch, DIES.format(how), AFTER).run(*workers, subprocess=True)
    # Of a worker that a test interrupts, xdist says only that it ended.
    killed = WORKER if workers else NOT_ENDED
    assert errors() == {PASS: ["pass"], DEAD: [killed], LAST: [NOT_BEGUN]}
    summary = run("summary").stdout
    assert summary.endswith(
        f"not measured:\n  test_marginal[pi4b:onboard/pair]\n    {NOT_BEGUN}\n\n"
        "1 measured: 1 pass; 2 not measured: 2 error\n"
    )
    assert_nothing_says_that_it_holds("The run was interrupted.")


@pytest.mark.parametrize("options", [("-x",), ("--maxfail=1", "-n1")])
def test_what_comes_after_the_last_failure_that_is_allowed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    # A worker has its next test already when it reports the failure.
    last = "def test_fail(link, gate):\n    pass\n"
    made = project(pytester, monkeypatch, DIES.format("assert False"), AFTER, last)
    made.run(*options, subprocess="-n1" in options)
    found = errors()
    assert found[PASS] == ["pass"]
    assert found[LAST.replace("marginal", "fail")] == [NOT_BEGUN]
    assert_nothing_says_that_it_holds()


def test_a_run_that_is_killed_in_its_first_test_has_a_summary(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = VerdictProject(pytester, monkeypatch, HEAD.replace("gate.tcp(link)", "os._exit(1)"))
    made.run(subprocess=True)
    summary = run("summary")
    assert summary.exit_code == 0
    assert summary.stdout.startswith("Nothing was measured, so there is no verdict. The run was interrupted.\n")
    assert NOT_ENDED in summary.stdout
    # An upload of nothing would replace the values of the last whole run.
    for form in ("openmetrics", "prometheus"):
        assert run("export", "--format", form, "-o", "values").exit_code != 0
        assert not Path("values").exists()


def test_tests_that_pass_or_skip_without_a_measurement_are_not_measured(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project(
        pytester,
        monkeypatch,
        "def test_idle(link, gate):\n    pass\n",
        "def test_skip(link, gate):\n    pytest.skip('no cable')\n",
        "@pytest.mark.xfail\ndef test_known(link, gate):\n    assert False\n",
    )
    assert made.run().ret == 0
    assert errors() == {PASS: ["pass"]}
    skipped = json.loads(Path(".pinet/latest/results.json").read_text())["skipped"]
    assert [(one["id"].partition("[")[0], one["reason"]) for one in skipped] == [
        ("test_idle", NO_MEASUREMENT),
        ("test_skip", "no cable"),
    ]
    assert sorted(path.name for path in Path(".pinet/latest").iterdir()) == [
        "results.json",
        "results.jsonl",
        "run.json",
    ]
