"""A run in which all limits hold: its output, its files, and the lab afterwards."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from tests.support.gate_project import GateLab, NewProject, Project
from tools.results_schema import SCHEMA_FILE

MATRIX = """
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic="onboard", min="50%")
def test_rate(link, gate, direction):
    gate.tcp(link, direction=direction, duration=1)

def test_between():
    pass

@pytest.mark.pinet(board="pi9")
def test_absent(link, gate):
    gate.tcp(link)
"""
TX, RX = (f"test_rate[pi3b:onboard/pair-{way}]" for way in ("tx", "rx"))


@dataclass(frozen=True)
class Run:
    """The run, and the state of the lab right after it."""

    project: Project
    output: pytest.RunResult
    addresses: list[str]
    iperf3_left: list[int]
    on_before: set[str]
    on_after: set[str]

    def result(self, direction: str) -> dict[str, Any]:
        found: dict[str, Any] = self.project.results["results"][["tx", "rx"].index(direction)]
        return found


@pytest.fixture(scope="module")
def run(new_project: NewProject, gate_lab: GateLab) -> Iterator[Run]:
    """The DUT is off before the run, its peer on."""
    project = new_project({"test_matrix.py": MATRIX})
    gate_lab.switch_power(True, "cm4-1")
    gate_lab.await_boot("cm4-1")
    before = gate_lab.nodes_on()
    output = project.pytest("--pinet-json=out/copy.json", "--junitxml=junit.xml", "-v")
    seen = (gate_lab.addresses("cm4-1"), gate_lab.processes("iperf3"))
    yield Run(project, output, *seen, before, gate_lab.nodes_on())
    gate_lab.switch_power(False, "cm4-1")


def test_tests_pass_in_the_order_in_which_they_were_written(run: Run) -> None:
    run.output.assert_outcomes(passed=3, skipped=1)
    assert run.output.ret == 0
    run.output.stdout.fnmatch_lines(
        [
            f"test_matrix.py::{TX.replace('[', '[[]')} PASSED *",
            f"test_matrix.py::{RX.replace('[', '[[]')} PASSED *",
            "test_matrix.py::test_between PASSED *",
            "test_matrix.py::test_absent[[]pi9:any/pair[]] SKIPPED *",
        ]
    )
    assert list(run.project.verdicts.items()) == [(TX, "pass"), (RX, "pass")]


def test_the_summary_is_a_table_of_80_columns(run: Run) -> None:
    run.output.stdout.fnmatch_lines(
        [
            "=* pinet throughput =*",
            "combination        dir  Mbit/s  limit  of max *verdict",
            "pi3b:onboard/pair  ?x     ??.?   47.1  *%*  pass",
            "pi3b:onboard/pair  ?x     ??.?   47.1  *%*  pass",
            "not measured:",
            "  test_absent[[]pi9:any/pair[]]",
            "    no board 'pi9' in lab virtual *",
            "2 measured: 2 pass; 1 not measured: 1 skipped",
            f"run folder: .pinet/runs/{run.project.results['run']}",
            "json: out/copy.json",
        ]
    )
    start = next(n for n, line in enumerate(run.output.outlines) if "pinet throughput" in line)
    # The next section is pytest's own.
    end = next(n for n, line in enumerate(run.output.outlines) if "generated xml file" in line)
    assert start < end
    assert max(len(line) for line in run.output.outlines[start:end]) <= 80


def test_v_says_what_the_profile_may_miss(run: Run) -> None:
    said = "Profile standard may miss faults that are active less than 90 % of the time."
    assert run.output.outlines.count(said) == 1


def test_a_pipe_gets_neither_a_rewriting_line_nor_escape_codes(run: Run) -> None:
    assert "\r" not in run.output.stdout.str()
    assert "\x1b" not in run.output.stdout.str()


def test_results_json_holds_what_a_ci_needs(run: Run, gate_lab: GateLab) -> None:
    results = run.project.results
    latest = run.project.path / ".pinet" / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == run.project.path / ".pinet" / "runs" / results["run"]
    head = {key: results[key] for key in ("schema", "lab", "lab_file", "complete", "exitstatus")}
    assert head == {
        "schema": 1, "lab": "virtual", "lab_file": str(gate_lab.file), "complete": True, "exitstatus": 0
    }  # fmt: skip
    assert results["started"] < results["results"][0]["started"] < results["finished"]
    assert [skip["id"] for skip in results["skipped"]] == ["test_absent[pi9:any/pair]"]


@pytest.mark.parametrize("direction", ["tx", "rx"])
def test_a_result_holds_figures_limit_rule_and_build(run: Run, direction: str) -> None:
    result = run.result(direction)
    assert result["id"] == f"pi3b:onboard/pair/tcp-P1-{direction}"
    assert result["combination"]["dut"] == "pi3b-1:onboard"
    assert result["combination"]["dut_port"] == "sw1/p1"
    assert result["build"].keys() >= {"uname", "driver", "firmware"}
    assert result["build"]["uname"].startswith("Linux ")
    assert list(result["directions"]) == [direction]
    figures = result["directions"][direction]
    # Between the limit and the wire's capacity.
    assert figures["limit"]["number"] < figures["goodput_bps"] < 1.005 * figures["oracle_bps"]
    assert figures["limit"]["number"] == pytest.approx(0.5 * 94.15e6, rel=0.001)
    words, source = figures["limit"]["words"], figures["limit"]["source"]
    assert (words, source) == ("50% of 94.1 Mbit/s", "min='50%' of the marker")
    assert isinstance(figures["retransmits"], int)
    counted = [sample for one in figures["connections"] for sample in one["samples"] if not sample["warmup"]]
    # One second of traffic. The part of the warm-up second that was not needed counts, too. Without the argument it
    # would be three seconds.
    assert 0.9 <= sum(sample["seconds"] for sample in counted) < 2.9
    rate = sum(sample["bytes"] for sample in counted) * 8 / sum(sample["seconds"] for sample in counted)
    assert figures["goodput_bps"] == pytest.approx(rate)


def test_the_raw_iperf3_json_lies_beside_the_results(run: Run) -> None:
    latest = run.project.path / ".pinet" / "latest"
    for result in run.project.results["results"]:
        clients = [file for file in result["files"] if file.endswith("client.json")]
        assert len(clients) == 1
        assert "end" in json.loads((latest / clients[0]).read_text())


def test_results_match_the_shipped_schema(run: Run) -> None:
    jsonschema.validate(run.project.results, json.loads(SCHEMA_FILE.read_text()))


def test_pinet_json_is_the_same(run: Run) -> None:
    assert json.loads((run.project.path / "out" / "copy.json").read_text()) == run.project.results


def test_junit_carries_the_figures(run: Run) -> None:
    cases = ElementTree.parse(run.project.path / "junit.xml").getroot().iter("testcase")
    case = next(case for case in cases if case.get("name") == TX)
    properties = {item.get("name"): item.get("value") for item in case.iter("property")}
    assert properties["pinet.verdict"] == "pass"
    assert properties["pinet.combination"] == "pi3b:onboard/pair"
    figure = run.result("tx")["directions"]["tx"]["goodput_bps"]
    assert properties["pinet.tx.goodput_bps"] == str(round(figure))


def test_nodes_are_left_on_or_off_as_they_were_found(run: Run) -> None:
    assert run.on_before == run.on_after == {"cm4-1"}


def test_no_address_and_no_process_is_left_on_a_node_that_stays_on(run: Run) -> None:
    assert run.addresses == []
    assert run.iperf3_left == []


def test_all_switch_ports_are_back_in_their_bridge(run: Run, gate_lab: GateLab) -> None:
    assert set(gate_lab.port_groups().values()) == {"br0"}


def test_no_place_is_held(run: Run, gate_lab: GateLab) -> None:
    assert gate_lab.holders() == []
