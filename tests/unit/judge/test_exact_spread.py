"""How far a window of an unchanged build may differ, by driver and window; on recorded boots of real boards."""

from __future__ import annotations

import gzip
from itertools import permutations
from pathlib import Path

import pytest

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits, judge_exact
from pytest_pinet.judge.exact_spread import tolerance_of
from pytest_pinet.model.exact import ExactBoot
from pytest_pinet.model.record.exact import loads

DATA = Path(__file__).parents[2] / "data/exact"


def recorded(name: str) -> ExactBoot:
    return loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


@pytest.mark.parametrize(
    ("driver", "window", "share"),
    [
        ("macb", "pktgen-60-rx", 0.01),
        ("macb", "sender-60-rx", 0.01),
        ("macb", "tcp-rx", 0.124),
        ("e1000e", "pktgen-1514-rx", 0.08),
        # Drivers and windows that were not measured have the widest range that was.
        ("igb", "pktgen-1514-rx", 0.08),
        ("macb", "pktgen-512-rx", 0.192),
    ],
)
def test_a_tolerance_has_room_above_the_measured_range(driver: str, window: str, share: float) -> None:
    assert tolerance_of(driver, window) == pytest.approx(share, abs=0.0005)


@pytest.mark.parametrize(
    ("a", "b"), [*permutations(["e1000e-6.1", "e1000e-6.1-rebuilt", "e1000e-6.1-four-instructions"], 2)]
)
def test_a_driver_that_was_only_built_again_is_not_slower(a: str, b: str) -> None:
    found = judge_exact(recorded(a), recorded(b), ExactLimits())
    assert [one.why for one in found.windows if one.result is not Relation.SAME] == []


def test_four_more_instructions_are_found_to_the_digit() -> None:
    found = judge_exact(recorded("e1000e-6.1-rebuilt"), recorded("e1000e-6.1-four-instructions"), ExactLimits())
    receive = next(one for one in found.windows if one.a.name == "pktgen-60-rx")
    assert receive.functions[0].text == "e1000_receive_skb [e1000e] 30.00 -> 34.00"
    assert found.modules == ("e1000e",)
