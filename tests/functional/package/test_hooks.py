"""Hooks of other plugins: the calling process, the arguments, and the message if a hook raises."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support import replay_tool
from tests.support.gate_project import NewProject, Project

HOOKS = (
    "pytest_pinet_combinations",
    "pytest_pinet_before_measurement",
    "pytest_pinet_machine_facts",
    "pytest_pinet_after_measurement",
    "pytest_pinet_result",
    "pytest_pinet_run_finished",
)
# Each call of a hook writes a line to heard.jsonl: the process, the hook, and its arguments.
CONFTEST = """
import json, os

def hear(hook, **seen):
    with open("heard.jsonl", "a") as file:
        file.write(json.dumps([os.environ.get("PYTEST_XDIST_WORKER", "main"), hook, seen]) + "\\n")

def pytest_pinet_combinations(config, combinations):
    hear("combinations", tests=[[item.name, combination.id] for item, combination in combinations])

def pytest_pinet_before_measurement(item, link, traffic):
    hear("before", test=item.name, link=link.id, traffic=traffic.key)

def pytest_pinet_machine_facts(item, link):
    return {"celsius": 21.5, "dut": link.dut.ip}

def pytest_pinet_after_measurement(item, link, traffic, error):
    hear("after", test=item.name, error=type(error).__name__)

def pytest_pinet_result(config, result):
    hear("result", id=result.id, verdict=result.verdict)

def pytest_pinet_run_finished(config, run, folder):
    hear("finished", results=len(run.results), on_disk=(folder / "results.json").is_file())
"""
TESTS = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="90%")
def test_good(link, gate):
    gate.tcp(link)
    gate.ping(link, count=1)

@pytest.mark.pinet(board="pi3b", nic="onboard", min="90%")
def test_broken(link, gate):
    gate.tcp(link, "rx")
"""
REPLAY = """
test_good*:
  - connections: [{goodput: 93.0}]
test_broken*:
  - connections: [{error: the tool broke}]
"""
RAISING = "\n".join(f"def {hook}():\n    raise ValueError('{hook} is broken')\n" for hook in HOOKS)
ODD = "def pytest_pinet_machine_facts():\n    return {'celsius': float('nan')}\n"
SAME = "def pytest_pinet_machine_facts():\n    return {'celsius': 30, 'rack': 'B'}\n"
ID = "pi3b:onboard/pair"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return replay_tool.install(tmp_path)


def heard(project: Project) -> list[tuple[str, str, dict[str, Any]]]:
    lines = (project.path / "heard.jsonl").read_text().splitlines()
    return [(who, hook, seen) for who, hook, seen in map(json.loads, lines)]


def facts(project: Project) -> Iterable[tuple[str, Any]]:
    return [(result["id"], result.get("facts")) for result in project.results["results"]]


def test_workers_measure_and_the_controller_hears_of_results(new_project: NewProject, packages: Path) -> None:
    project = new_project({"conftest.py": CONFTEST, "test_it.py": TESTS, "replay.yaml": REPLAY})
    project.replayed(packages, "-n", "1").assert_outcomes(passed=1, errors=1)
    calls = heard(project)
    assert {hook for who, hook, _ in calls if who == "gw0"} == {"combinations", "before", "after"}
    assert [hook for who, hook, _ in calls if who == "main"] == ["result"] * 3 + ["finished"]
    assert all(found["celsius"] == 21.5 for _, found in facts(project) if found)


def test_a_hook_that_raises_or_returns_what_results_cannot_hold_is_one_sentence_with_its_plugin_and_loses_nothing(
    new_project: NewProject, packages: Path
) -> None:
    """The hooks of the other plugins are still called where they say."""
    files = {"conftest.py": CONFTEST, "test_it.py": TESTS, "replay.yaml": REPLAY}
    project = new_project({**files, "raising.py": RAISING, "odd.py": ODD, "same.py": SAME})
    output = project.replayed(packages, "-p", "raising", "-p", "odd", "-p", "same")
    output.assert_outcomes(passed=1, errors=1)
    for hook in HOOKS:
        says = f"pinet: hook {hook} of plugin raising raised ValueError: {hook} is broken; no result is lost"
        assert output.outlines.count(says) == 1, hook
    good, broken = f"test_good[{ID}]", f"test_broken[{ID}]"
    calls = heard(project)
    ping = calls[3][2].get("traffic")
    assert calls == [
        ("main", "combinations", {"tests": [[good, ID], [broken, ID]]}),
        ("main", "before", {"test": good, "link": ID, "traffic": "tcp-P1"}),
        ("main", "after", {"test": good, "error": "NoneType"}),
        ("main", "before", {"test": good, "link": ID, "traffic": ping}),
        ("main", "after", {"test": good, "error": "NoneType"}),
        ("main", "result", {"id": f"{ID}/tcp-P1-tx", "verdict": "pass"}),
        ("main", "result", {"id": f"{ID}/{ping}", "verdict": "pass"}),
        ("main", "before", {"test": broken, "link": ID, "traffic": "tcp-P1"}),
        ("main", "after", {"test": broken, "error": "TrafficError"}),
        ("main", "result", {"id": ID, "verdict": "error"}),
        ("main", "finished", {"results": 3, "on_disk": True}),
    ]
    assert [result["verdict"] for result in project.results["results"]] == ["pass", "pass", "error"]
    (_, tcp), (_, pinged), (_, nothing) = facts(project)
    assert tcp == pinged
    assert (tcp["celsius"], tcp["rack"]) == (21.5, "B")
    assert nothing is None, "an error measured nothing"
    output.stdout.fnmatch_lines(
        [
            "pinet: same returned the machine fact 'celsius', which another plugin returned before",
            "pinet: odd returned machine facts {'celsius': nan}; expected a mapping from names to text or numbers",
        ]
    )
