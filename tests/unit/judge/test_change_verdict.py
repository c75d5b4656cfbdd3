"""From the outcome of each metric to the answer, and to exit codes for scripts."""

from __future__ import annotations

import pytest

from pytest_pinet.judge.change_verdict import MetricSummary, answer, bisect_code, exit_code
from pytest_pinet.judge.suspected_causes import of_costs, of_settings
from pytest_pinet.model.verdict import ChangeVerdict, MetricOutcome

SLOWER, SAME, FASTER = (
    MetricSummary(MetricOutcome.REGRESSION),
    MetricSummary(MetricOutcome.UNCHANGED),
    MetricSummary(MetricOutcome.IMPROVED),
)
UNDECIDED, LAB = MetricSummary(MetricOutcome.UNDECIDED), MetricSummary(MetricOutcome.LAB_ERROR)


@pytest.mark.parametrize(
    ("came", "found", "code", "bisect"),
    [
        ([SAME, FASTER], ChangeVerdict.PASS, 0, 0),
        ([SAME, SLOWER], ChangeVerdict.REGRESSION, 1, 1),
        ([SLOWER, LAB, UNDECIDED], ChangeVerdict.REGRESSION, 1, 1),
        ([SAME, LAB, UNDECIDED], ChangeVerdict.LAB_ERROR, 2, 125),
        ([SAME, UNDECIDED], ChangeVerdict.UNDECIDED, 3, 125),
        ([], ChangeVerdict.UNDECIDED, 3, 125),
        ([MetricSummary(MetricOutcome.FINDING, "panic")], ChangeVerdict.REGRESSION, 1, 125),
        ([MetricSummary(MetricOutcome.FINDING, "no driver"), SAME], ChangeVerdict.REGRESSION, 1, 125),
        ([MetricSummary(MetricOutcome.FINDING, "slow link")], ChangeVerdict.REGRESSION, 1, 1),
        ([MetricSummary(MetricOutcome.FINDING, "panic"), SLOWER], ChangeVerdict.REGRESSION, 1, 1),
    ],
)
def test_answers(came: list[MetricSummary], found: ChangeVerdict, code: int, bisect: int) -> None:
    assert answer(came) is found
    assert exit_code(found) == code
    assert bisect_code(came) == bisect


def test_a_broken_exact_board_ends_a_bisection() -> None:
    assert bisect_code([SAME, LAB, UNDECIDED], exact=True) == 131
    assert bisect_code([LAB, SLOWER], exact=True) == 1
    assert bisect_code([UNDECIDED], exact=True) == 125


def test_settings_that_differ_between_all_boots_of_both_builds_are_suspects() -> None:
    a = [{"tso": "on", "ring RX": "256", "moving": "1"}, {"tso": "on", "ring RX": "256", "moving": "2"}]
    b = [{"tso": "off", "ring RX": "256", "moving": "3", "new": "x"}] * 2
    assert [one.text for one in of_settings(a, b)] == ["tso: on -> off", "new: absent -> x"]


def test_settings_off_in_both_builds_are_not_suspects() -> None:
    a = [{"fcoe-mtu": "off", "coalescing Adaptive RX": "n/a  TX: n/a", "net.ipv4.tcp_wmem": "4096 16384 3775712"}]
    b = [{"coalescing Adaptive RX": "off  TX: n/a", "net.ipv4.tcp_wmem": "4096 16384 3680800"}]
    assert of_settings(a, b) == []
    assert [one.text for one in of_settings([{"ring RX": "256"}], [{"ring RX": "80"}])] == ["ring RX: 256 -> 80"]
    assert [one.text for one in of_settings([{"gro": "on"}], [{}])] == ["gro: on -> absent"]


def test_costs_that_differ_far_more_between_builds_than_within_are_suspects_the_largest_first() -> None:
    one = {"interrupts per Gbit": 100.0, "CPU ms per Gbit": 50.0, "retransmits per Gbit": 0.0, "rough": 1.0}
    a = [one, {"interrupts per Gbit": 102.0, "CPU ms per Gbit": 51.0, "retransmits per Gbit": 0.0, "rough": 9.0}]
    b = [{"interrupts per Gbit": 900.0, "CPU ms per Gbit": 55.0, "retransmits per Gbit": 2.0, "rough": 20.0}] * 2
    assert [one.text for one in of_costs(a, b)] == [
        "retransmits per Gbit: none -> 2",
        "interrupts per Gbit: 101 -> 900 (+791 %)",
    ]
