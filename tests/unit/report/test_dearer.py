"""A build that is as fast, but dearer: the answer, the table and the history name the cost."""

from __future__ import annotations

import pytest

from pytest_pinet.ab.records import as_layout
from pytest_pinet.history.points import gate_of
from pytest_pinet.judge.difference import LAYOUT
from pytest_pinet.model.record.change import ChangedCostRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.change_head import unjudged
from pytest_pinet.report.change_table import change_lines
from tests.support.change_records import change_run, compared

ID = "pi4b:onboard/pair"
WHY = "dearer, certain after 9 turns: B takes 24.0 % more interrupts per Gbit than A (+20.1 to +28.0 %)"


def cost(change: float, verdict: str, why: str) -> ChangedCostRecord:
    return ChangedCostRecord.model_validate(
        {"a": 9000.0, "b": 9000.0 * (1 + change), "change": change, "interval": (change - 0.04, change + 0.04)}
        | {"verdict": verdict, "why": why}
    )


def with_costs(relation: str = "same", change: float = 0.0, **more: object) -> ResultRecord:
    """Return a result in which B takes 24 % more interrupts, and whose processor time is undecided."""
    found = compared(ID, "tx", change, relation)
    assert found.change is not None
    costs = {
        "cpu-per-gbit": cost(0.08, "inconclusive", "undecided after 9 turns"),
        "softirq-per-gbit": cost(0.01, "pass", "not dearer, certain after 6 turns"),
        "interrupts-per-gbit": cost(0.24, "fail", WHY),
    }
    return found.replace(change=found.change.replace(costs=costs, cost_tolerance=0.1, **more))


def test_a_build_that_is_as_fast_but_dearer_must_not_be_merged() -> None:
    found = with_costs()
    head = change_run([found]).change
    assert head is not None
    assert (head.verdict, head.exit, head.bisect_exit) == ("fail", 1, 1)
    assert head.sentence == (
        f"new must not be merged: as fast, but takes 24 % more interrupts per Gbit in {found.id}, against good."
    )


def test_a_build_that_is_slower_and_dearer_is_both() -> None:
    head = change_run([with_costs("slower", -0.05)]).change
    assert head is not None
    assert "1 of 1 metrics slower, by 5.0 % in" in head.sentence
    assert "; takes 24 % more interrupts per Gbit in" in head.sentence
    assert "as fast" not in head.sentence


def test_a_build_that_is_dearer_by_the_layout_of_its_code_is_undecided() -> None:
    found = as_layout(with_costs().replace(verdict="fail"))
    run = change_run([found])
    assert run.change is not None
    assert (run.change.verdict, run.change.exit, run.change.bisect_exit) == ("inconclusive", 3, 125)
    assert f"{LAYOUT} 1 of 2 metrics" in run.change.sentence
    (row,) = [line for line in change_lines(run.change, results=run.results) if "UNDECIDED" in line]
    assert row.split()[-4:] == ["9000", "11160", "+24.0%", "UNDECIDED"]
    # It is in the table, so it is not among the costs that were not judged.
    assert [(skip.id, skip.reason) for skip in unjudged([found])] == [
        (f"{found.id}-cpu-per-gbit", "undecided after 9 turns")
    ]


def test_the_dearer_cost_has_a_row_with_its_values() -> None:
    found = with_costs()
    run = change_run([found])
    assert run.change is not None
    lines = change_lines(run.change, results=run.results)
    (row,) = [line for line in lines if "REGRESSION" in line]
    assert row.split()[-4:] == ["9000", "11160", "+24.0%", "REGRESSION"]
    assert any(line.strip().startswith("dearer, certain after 9 turns") for line in lines)
    gated = gate_of(run.change, run.results).entries[0]
    assert (gated.figure, gated.tolerance) == (f"{found.id}-interrupts-per-gbit", 0.1)
    assert gated.interval == pytest.approx((0.2, 0.28))


def test_undecided_and_unknown_costs_are_not_measured() -> None:
    one = with_costs()
    other = compared("pi5:onboard/pair", "tx", 0.0, "same")
    assert other.change is not None
    other = other.replace(change=other.change.replace(costs_unknown="the nodes share one kernel"))
    assert [(skip.id, skip.reason) for skip in unjudged([one, other, other])] == [
        (f"{one.id}-cpu-per-gbit", "undecided after 9 turns"),
        ("cost of a Gbit", "the nodes share one kernel"),
    ]
