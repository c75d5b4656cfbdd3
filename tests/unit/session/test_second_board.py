"""Which board may confirm a regression, and what its result says."""

from __future__ import annotations

from typing import cast

import pytest

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labfile import load
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.matrix.endpoints import EndpointSelector
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.terminal import count_line
from pytest_pinet.session.second_board import compared, confirm, on_another_board
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
    assert count_line([failed], []).endswith(counts.get(verdict, "0 confirmed, 0 not confirmed"))
