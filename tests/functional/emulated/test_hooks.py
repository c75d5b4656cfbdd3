"""Hooks in A/B comparisons: called for each measurement in each boot; facts are in the single result."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.emulated_gate import NEEDS, EmulatedGate, emulated_gate

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]

CONFTEST = """
import json

def hear(**seen):
    with open("heard.jsonl", "a") as file:
        file.write(json.dumps(seen) + "\\n")

def pytest_pinet_before_measurement(traffic):
    hear(before=traffic.key)

def pytest_pinet_after_measurement(traffic, error):
    hear(after=traffic.key, error=error and str(error))

def pytest_pinet_machine_facts(link):
    return {"address": link.dut.ip}

def pytest_pinet_result(result):
    hear(result=result["id"], facts=result["facts"], verdict=result["verdict"])
"""
TESTS = """
import pytest

@pytest.mark.pinet(board="virt", nic="e1000e")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")
    gate.ping(link, count=1)
"""
BUILD = "name: as it is, loaded again\noptions: {e1000e: {InterruptThrottleRate: 3}}\n"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


def test_hooks_are_called_for_each_measurement_and_once_for_each_result(gate: EmulatedGate) -> None:
    project = gate.project
    project.write("test_change.py", TESTS)
    project.write("conftest.py", CONFTEST)
    gate.switch(on=True)
    # The verdict is not what this test is about: an answer (0 pass, 1 regression, 3 undecided) is enough.
    assert gate.run(BUILD) in (0, 1, 3), gate.text
    heard = [json.loads(line) for line in (project.path / "heard.jsonl").read_text().splitlines()]
    results = [one for one in heard if "result" in one]
    measured = heard[: -len(results)]
    # At least one measurement of each build, and none while the test only reads the results.
    assert len(results) == 2
    assert len(measured) % 2 == 0
    pairs = list(zip(measured[::2], measured[1::2], strict=True))
    assert all(begun["before"] == ended["after"] and ended["error"] is None for begun, ended in pairs)
    assert [begun["before"] for begun, _ in pairs].count(pairs[0][0]["before"]) >= 2
    assert len({begun["before"] for begun, _ in pairs}) == 2
    kept = project.results["results"]
    assert [one["result"] for one in results] == [one["id"] for one in kept]
    assert all(one["facts"].keys() == {"address"} for one in (*results, *kept))
