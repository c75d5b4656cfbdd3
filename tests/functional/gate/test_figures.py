"""Values beside goodput on the default virtual lab: transactions by sockperf, with and without a limit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_project import SCALE, GateLab, NewProject

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
def test_connections(link, gate):
    gate.connections(link, duration=1, connections="5/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_packets_sent(link, gate):
    gate.packets(link, "tx", duration=1)

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_packets_received(link, gate):
    gate.packets(link, "rx", duration=1)

@pytest.mark.pinet(board="pi3b", nic="onboard", p90="5 s")
def test_idle(link, gate):
    gate.latency(link, after="2 s", rate=100, duration=1, late="1%")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_loaded(link, gate):
    gate.latency(link, "tx", rate=100, duration=1, p50="0.1 ms")

@here
def test_late_without_after(link, gate):
    gate.latency(link, late="1%")

@here
def test_another_limit(link, gate):
    gate.transactions(link, min="90%")
"""


PATHS = """
import pytest

pytestmark = pytest.mark.pinet(board="pi3b", nic="onboard")

def test_connections(link, gate):
    gate.connections(link, "rx", duration=1, family=6, connections="5/s")

def test_packets(link, gate):
    gate.packets(link, "tx", duration=1, family=6, packets="1/s")

def test_idle(link, gate):
    gate.idle(link, idle="1 s", family=6, first_answer="2 s")

def test_ping(link, gate):
    found = gate.ping(link, count=4, interval=0.05, family=6, latency="5 s", loss="0%")
    assert 0 < found.min_s <= found.mean_s <= found.max_s
    assert found.loss == found.values["loss"] == 0

def test_transactions(link, gate):
    gate.transactions(link, duration=1, family=6)

def test_delay(link, gate):
    gate.latency(link, duration=1, path={"delay": "20 ms"})
"""


@pytest.fixture(scope="module")
def run(new_project: NewProject) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    return _ran(new_project, TESTS)


@pytest.fixture(scope="module")
def paths(new_project: NewProject) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    return _ran(new_project, PATHS)


def _ran(new_project: NewProject, tests: str) -> tuple[pytest.RunResult, dict[str, dict[str, Any]]]:
    project = new_project({"test_it.py": tests})
    output = project.pytest("-rA", "--junitxml=junit.xml")
    results = {one["test"].partition("::")[2].partition("[")[0]: one for one in project.results["results"]}
    for one in results.values():
        one["raw"] = [(project.path / ".pinet" / "latest" / file).read_text() for file in one["files"]]
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


def test_each_connection_carries_one_request(run: Run) -> None:
    result = run[1]["test_connections"]
    assert (result["verdict"], result["id"]) == ("pass", "pi4b:onboard/pair/connections-wrk-tx"), result["message"]
    assert "wrk" in result["tool"]
    assert result["figures"]["connections"]["value"] > 5


@pytest.mark.parametrize(("name", "way"), [("test_packets_sent", "tx"), ("test_packets_received", "rx")])
def test_packets_are_counted_and_what_limits_them_is_named(run: Run, name: str, way: str) -> None:
    result = run[1][name]
    assert result["id"] == f"pi3b:onboard/pair/packets-iperf3-{way}-s64"
    assert any("limit" in note for note in result["notes"])
    wire = 100e6 * SCALE / 8 / (64 + 66)
    assert 0 < result["figures"]["packets"]["value"] < 1.25 * wire


def test_an_idle_link_has_percentiles_and_a_share_of_late_probes(run: Run) -> None:
    result = run[1]["test_idle"]
    figures = result["figures"]
    assert list(figures) == ["p50", "p90", "p99", "late"]
    assert 0 < figures["p50"]["value"] <= figures["p90"]["value"] <= figures["p99"]["value"]
    assert figures["p90"]["limit"]["words"] == "5 s"
    # Three connections without a late probe.
    assert (figures["late"]["verdict"], figures["late"]["values"]) == ("pass", [0, 0, 0])


def test_beside_a_stream_probes_wait_in_its_queue(run: Run) -> None:
    idle, loaded = run[1]["test_idle"], run[1]["test_loaded"]
    assert loaded["id"].endswith("/latency-sockperf-s64-r100-load-tx")
    assert loaded["verdict"] == "fail"
    assert loaded["figures"]["p50"]["value"] > 3 * idle["figures"]["p50"]["value"]


@pytest.mark.parametrize("name", ["connections", "packets", "idle", "ping"])
def test_values_over_ipv6_have_an_id_of_their_own(paths: Run, name: str) -> None:
    result = paths[1][f"test_{name}"]
    assert (result["verdict"], result["id"][-4:]) == ("pass", "-ip6"), result["message"]
    assert all(one["value"] is not None for one in result["figures"].values())
    assert all("2001:2::" in text and "198.18." not in text for text in result["raw"])


def test_pings_have_a_limit_on_two_of_their_values(paths: Run) -> None:
    figures = paths[1]["test_ping"]["figures"]
    assert list(figures) == ["loss", "latency", "rtt_min", "rtt_max", "rtt_mdev"]
    assert [one["limit"] and one["limit"]["number"] for one in figures.values()] == [0, 5, None, None, None]
    rows = [line for line in paths[0].stdout.lines if "ping-c4" in line and line.startswith("pi3b")]
    assert len(rows) == 2, rows


def test_what_a_tool_or_a_kernel_lacks_is_one_skip_with_its_reason(paths: Run) -> None:
    paths[0].stdout.fnmatch_lines_random(
        ["SKIPPED * family=6: sockperf 3.7 of pi*-1 has no IPv6; sockperf 3.8 has it", "SKIPPED * path=: *netem*"]
    )


def test_late_needs_a_time(run: Run) -> None:
    run[0].stdout.fnmatch_lines(["*latency: late= needs after=, such as after='2 ms': later probes are late"])


def test_a_limit_of_another_metric_is_refused(run: Run) -> None:
    run[0].stdout.fnmatch_lines(["*transactions: it has no limit min=; expected transactions=, tolerance=*"])


def test_no_process_is_left(run: Run, gate_lab: GateLab) -> None:
    for program in ("sockperf", "iperf3", "nginx", "wrk"):
        assert gate_lab.processes(program) == []
