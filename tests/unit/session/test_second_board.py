"""Which board may confirm a regression, and what its result says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LinkError
from pytest_pinet.history.results_file import results_in
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.link.link import Link
from pytest_pinet.matrix.endpoints import EndpointSelector
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.run_folder import RunFolder
from pytest_pinet.report.terminal import count_line
from pytest_pinet.session.boards import compared, confirm, on_another_board
from pytest_pinet.session.run_recorder import RunRecorder
from tests.support.report_records import direction, result


@pytest.fixture(scope="module")
def lab() -> Lab:
    return load(lab_path("virtual"))


def others(lab: Lab, node: str, nic: str) -> list[tuple[str, str]]:
    """Return the boards under test and their peers that may confirm a failure of this interface."""
    combination = EndpointSelector(lab).combination(lab.nodes[node].interface(nic), parse_topology("pair"))
    found = on_another_board(lab, combination)
    assert {one.id for one in found} <= {combination.id}
    return [(str(one.dut), one.peer.node.name) for one in found]


def test_another_board_of_its_kind_is_measured_without_the_first_one(lab: Lab) -> None:
    ((second, peer),) = others(lab, "pi3b-1", "onboard")
    assert second == "pi3b-2:onboard"
    assert peer not in ("pi3b-1", "pi3b-2")


def test_a_board_or_nic_without_a_twin_has_no_second_board(lab: Lab) -> None:
    assert others(lab, "cm4-1", next(one.label for one in lab.nodes["cm4-1"].interfaces)) == []
    # Only pi3b-1 has this adapter.
    assert others(lab, "pi3b-1", "usb") == []


def test_nothing_waits_for_a_board_that_another_run_has(lab: Lab) -> None:
    asked: list[str] = []

    class Taken:
        """The leases of a lab whose boards other runs have. Opening a link would wait for them."""

        def take_if_free(self, combination: Combination) -> bool:
            asked.append(str(combination.dut))
            return False

    def measure(link: Link) -> ResultRecord:
        raise AssertionError(f"{link} was measured")

    combination = EndpointSelector(lab).combination(lab.nodes["pi3b-1"].interface("onboard"), parse_topology("pair"))
    assert confirm(cast(LabAccess, Taken()), lab, combination, measure) is None
    assert asked == ["pi3b-2:onboard"]


def test_a_second_board_whose_link_drops_confirms_a_failure() -> None:
    own = result("pi4b:onboard/pair", {}).replace(verdict="fail")
    text = compared("pi4b-1:onboard", "sw1/p4", "pi4b-2:onboard", own).text
    assert text == "confirmed on a second board: pi4b-2:onboard fails, too (its link drops)"


FOUR = """
pinet:
  switches:
    s: {backend: fixed, ports: p1-p4}
  nodes:
    a: {board: pi4b, interfaces: {onboard: {port: s/p1}}}
    b: {board: pi4b, interfaces: {onboard: {port: s/p2}}}
    c: {board: pi4b, interfaces: {onboard: {port: s/p3}}}
    d: {board: pi4b, interfaces: {onboard: {port: s/p4}}}
"""


@pytest.mark.parametrize(
    ("dead", "measured", "verdict", "text"),
    [
        ({"b:onboard"}, ["b:onboard", "c:onboard"], "fail", "confirmed on a second board: c:onboard fails, too (tx "),
        (
            {"b:onboard", "c:onboard", "d:onboard"},
            ["b:onboard", "c:onboard", "d:onboard"],
            "error",
            "no second board gave a verdict: no value from b:onboard: b:onboard has no link; no value from c:onboard: "
            "c:onboard has no link; no value from d:onboard: d:onboard has no link",
        ),
    ],
)
def test_after_a_board_with_an_error_the_next_one_is_measured(
    tmp_path: Path, dead: set[str], measured: list[str], verdict: str, text: str
) -> None:
    (tmp_path / "lab.yaml").write_text(FOUR)
    four = load(tmp_path / "lab.yaml")
    opened: list[str] = []

    class Free:
        """The leases of a lab whose boards are free. Some of them have no link."""

        def take_if_free(self, combination: Combination) -> bool:
            return True

        @contextmanager
        def open(self, combination: Combination) -> Iterator[Link]:
            opened.append(str(combination.dut))
            if opened[-1] in dead:
                raise LinkError(f"{opened[-1]} has no link")
            yield cast(Link, None)

    own = result("pi4b:onboard/pair", {"tx": direction(850e6, 885e6, "fail")}).replace(verdict="fail")
    combination = EndpointSelector(four).combination(four.nodes["a"].interface("onboard"), parse_topology("pair"))
    found = confirm(cast(LabAccess, Free()), four, combination, lambda _: own)
    assert found is not None
    assert (opened, found.verdict) == (measured, Verdict(verdict))
    assert found.text.startswith(text)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("fail", "confirmed on a second board: pi4b-2:onboard fails, too (tx 850.0 Mbit/s)"),
        (
            "pass",
            "not confirmed on a second board: pi4b-2:onboard, of the same kind, has tx 850.0 Mbit/s: look at "
            "pi4b-1:onboard, its cable and port sw1/p4",
        ),
        ("inconclusive", "a second board gave no verdict: pi4b-2:onboard is inconclusive"),
    ],
)
def test_its_result_is_one_sentence_and_counted(verdict: str, text: str) -> None:
    own = result("pi4b:onboard/pair", {"tx": direction(850e6, 885e6, verdict)}).replace(verdict=verdict)
    second = compared("pi4b-1:onboard", "sw1/p4", "pi4b-2:onboard", own)
    assert (second.text, second.verdict) == (text, Verdict(verdict))
    failed = own.replace(verdict="fail", second_board=second)
    counts = {"fail": "1 confirmed, 0 not confirmed", "pass": "0 confirmed, 1 not confirmed"}
    undecided = "0 confirmed, 0 not confirmed, 1 without a verdict"
    assert count_line([failed], []).endswith(counts.get(verdict, undecided))


def test_a_killed_run_keeps_what_a_second_board_had_and_hooks_get_it(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[ResultRecord] = []
    access = LabAccess(None, Identity("host", "user"), 1.0, lambda _: None)
    recorder = RunRecorder(request.config, None, access, None)
    monkeypatch.setattr(recorder.hooks, "result", heard.append)
    recorder._folder = RunFolder(tmp_path)
    first = result("pi4b:onboard/pair", {"tx": direction(850e6, 885e6, "fail")}).replace(verdict="fail", test="t")
    other = first.replace(test="other")
    completed = first.replace(second_board=compared("pi4b-1:onboard", "sw1/p4", "pi4b-2:onboard", first))
    for one in (first, other, completed):
        recorder.keep(one)
    assert heard == [first, other, completed]
    assert recorder.reported_tests == {"t", "other"}
    # The estimate of the next run would be twice as long if both lines of the result counted.
    kept, cut = results_in((tmp_path / "results.jsonl").read_text())
    assert ([ResultRecord.model_validate(one) for one in kept], cut) == ([other, completed], [])
