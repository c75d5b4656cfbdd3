"""The sentences on losses: size, age, owner and cause, in the singular and the plural."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from pytest_pinet.history.losses import BestMonth, LossState, MetricLevel
from pytest_pinet.report.sentences import (
    cause_text,
    changes_text,
    losses_sentence,
    lost,
    owner_text,
    percent,
    short_lines,
    size_text,
)
from tests.support.loss_levels import ANN, KNOWN, OPEN, TODAY, change, losses, opened


def test_open_losses_come_first() -> None:
    assert [level.loss.figure for level in lost([MetricLevel(1e9), *losses()]) if level.loss] == [OPEN, KNOWN]


def test_losses_are_counted_in_words() -> None:
    first, second = losses()
    assert losses_sentence([]) == ""
    assert losses_sentence([second]) == "1 loss is open"
    assert losses_sentence([second, second]) == "2 losses are open"
    assert losses_sentence([first, second]) == "1 loss is open, 1 loss is acknowledged"
    assert losses_sentence([first, first]) == "2 losses are acknowledged"


@pytest.mark.parametrize(("day", "days"), [(19, "0 days"), (20, "1 day"), (21, "2 days")])
def test_the_age_is_in_days(day: int, days: str) -> None:
    assert size_text(opened(), date(2026, 7, day)) == f"-4.8 % since 2026-07-19 ({days})"


def test_the_owner_is_named_also_after_the_last_day() -> None:
    assert owner_text(opened()) == "open, no owner"
    known = replace(opened(), acknowledgement=ANN, state=LossState.ACKNOWLEDGED)
    assert owner_text(known) == "acknowledged until 2026-12-31, owner Ann Example"
    expired = replace(known, state=LossState.EXPIRED)
    assert owner_text(expired) == "open, owner Ann Example, acknowledged until 2026-12-31 (expired)"


def test_the_cause_is_what_differs_or_says_that_there_is_no_single_one() -> None:
    assert cause_text(opened()) == "941.0 -> 895.8 Mbit/s, with kernel 6.12.39-v8+ -> 6.12.40-v8+"
    assert cause_text(opened(change=None)).endswith("since before the runs of this history")
    drift = replace(change("a -> b"), gradual=True)
    assert cause_text(opened(change=drift)).endswith("a drift: no single build is the cause")
    assert cause_text(opened(change=replace(drift, gradual=False, differs=()))).endswith("with the same build")


def test_a_change_of_zero_has_no_sign() -> None:
    assert [percent(part) for part in (0.0, -0.0001, 0.0004, -0.048, 0.02)] == [
        "0.0 %",
        "0.0 %",
        "0.0 %",
        "-4.8 %",
        "+2.0 %",
    ]
    assert changes_text(MetricLevel(1e9, -0.00001)) == "0.0 % since the baseline"
    # A level that is that of the best month did not change.
    assert changes_text(MetricLevel(1e9, None, BestMonth("2026-06", 1e9))) == ""


def test_reports_have_a_line_for_each_loss() -> None:
    head, first, second = short_lines(losses(), TODAY)
    assert head == "1 loss is open, 1 loss is acknowledged"
    assert first == (
        f"{OPEN}: -4.8 % since 2026-07-19 (120 days); open, no owner; 941.0 -> 895.8 Mbit/s, with kernel "
        "6.12.39-v8+ -> 6.12.40-v8+; -4.8 % since the baseline, -4.8 % since the best month (2026-06)"
    )
    assert second.startswith(f"{KNOWN}: -2.9 % since 2026-10-08 (39 days); acknowledged until 2026-12-31, owner Ann")
    assert short_lines([MetricLevel(1e9)], TODAY) == []
