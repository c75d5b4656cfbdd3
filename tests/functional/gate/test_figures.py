"""Values beside goodput on the default virtual lab: transactions by sockperf, with and without a limit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_project import GateLab, NewProject

TESTS = """
import pytest

here = pytest.mark.pinet(board="pi4b", nic="onboard")

@here
def test_no_limit(link, gate):
    found = gate.transactions(link, duration=1)
    print("FOUND", found.values["transactions"] > 0, found["tx"] if found.goodput else "no goodput")

@pytest.mark.pinet(board="pi4b", nic="onboard", transactions="20/s")
def test_low_limit_of_the_marker(link, gate):
    gate.transactions(link, duration=1, udp=True, size=200)

@here
def test_high_limit_of_the_call(link, gate):
    gate.transactions(link, duration=1, transactions="10000k/s")

@here
def test_another_limit(link, gate):
    gate.transactions(link, min="90%")
"""


@pytest.fixture(scope="module")
def run(new_project: NewProject) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    project = new_project({"test_it.py": TESTS})
    output = project.pytest("-rA", "--junitxml=junit.xml")
    results = {one["test"].partition("::")[2].partition("[")[0]: one for one in project.results["results"]}
    results["junit"] = {"text": (project.path / "junit.xml").read_text()}
    return output, results


Run = tuple[pytest.RunResult, dict[str, dict[str, Any]]]


def test_without_a_limit_there_are_values_with_their_unit_and_their_tool(run: Run) -> None:
    output, results = run
    result = results["test_no_limit"]
    assert (result["verdict"], result["id"]) == ("pass", "pi4b:onboard/pair/transactions-sockperf-tcp-s64")
    assert result["directions"] == {}
    figure = result["figures"]["transactions"]
    assert (figure["unit"], figure["better"], figure["limit"]) == ("/s", "up", None)
    # As many connections as a gate that suspects a regression needs.
    assert len(figure["values"]) == 3
    assert min(figure["values"]) <= figure["value"] <= max(figure["values"])
    assert result["tool"].startswith("sockperf 3.")
    assert len([name for name in result["files"] if "transactions" in name]) == 3
    output.stdout.fnmatch_lines(["*FOUND True no goodput*"])


def test_a_limit_of_the_marker_that_is_far_below_passes_after_one_connection(run: Run) -> None:
    result = run[1]["test_low_limit_of_the_marker"]
    figure = result["figures"]["transactions"]
    assert (result["verdict"], len(figure["values"])) == ("pass", 1), result["message"]
    assert (figure["limit"]["number"], figure["limit"]["words"]) == (20, "20/s")
    assert figure["limit"]["source"] == "transactions='20/s' of the marker"
    assert result["id"].endswith("/transactions-sockperf-udp-s200")


def test_a_limit_of_the_call_that_is_missed_fails_with_value_and_limit(run: Run) -> None:
    output, results = run
    result = results["test_high_limit_of_the_call"]
    figure = result["figures"]["transactions"]
    assert (result["verdict"], figure["state"]) == ("fail", "confirmed")
    output.stdout.fnmatch_lines(
        [
            "pi4b:onboard/pair transactions */s is below the limit 10000000/s",
            "  scale      links ran at 0.1 of their rate; values are not converted*",
            "*-    */s  10000000/s       -  *%  FAIL",
        ]
    )


def test_junit_has_the_value_with_its_unit(run: Run) -> None:
    text = run[1]["junit"]["text"]
    assert 'name="pinet.transactions.unit" value="/s"' in text
    assert 'name="pinet.transactions.limit" value="20.0"' in text


def test_a_limit_of_another_metric_is_refused(run: Run) -> None:
    run[0].stdout.fnmatch_lines(["*transactions: it has no limit min=; expected transactions=, tolerance=*"])


def test_no_process_is_left(run: Run, gate_lab: GateLab) -> None:
    assert gate_lab.processes("sockperf") == []
