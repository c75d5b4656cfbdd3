"""Verdicts on recorded and modelled links, 600 gates per cell.

A cell is a link, a rule and a change: unchanged, 1, 5 or 10 % slower, 10 % faster. What
``python -m benchmarks.verdicts`` has counted for its page is not counted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from benchmarks.verdicts.harder_links import ALL
from benchmarks.verdicts.ours import Ending
from benchmarks.verdicts.store import GATES, as_cell, as_turns, result
from benchmarks.verdicts.trials import STALL, Cell
from pytest_pinet.judge.difference import Relation

# Cases that must pass and cases that must fail. At 2 and 3 % slower no verdict is wrong.
CASES = {"0": "unchanged", "1": "1 % slower", "5": "5 % slower", "10": "10 % slower", "-10": "10 % faster"}
Count = Callable[[int, int, str], None]
DAY_1, DAYS_8 = "pinet, 1 day", "pinet, 8 days"
# A connection of 3 s of the other link may be all start without a sign of it (docs/explanation/error-rates.md).
JUDGED = [link for link in ALL if link != "slow starts that jump"]


def trial(link: str, case: str, rule: str) -> Cell:
    return as_cell(result(("cell", link, case, rule)))


def flags(link: str, case: str) -> float:
    return float(result(("flags", link, case, "soak")))


def turns(link: str, slower: str) -> Mapping[Relation, float]:
    return as_turns(result(("turns", link, slower, "yes"))).results


def text(shares: Mapping[Relation, float]) -> str:
    return ", ".join(f"{result.value}: {share:.1f} %" for result, share in shares.items())


def sentence(link: str) -> str:
    return f"On link {link}, with a baseline of eight days, at most 10 of 600 verdicts are wrong in the worst cell."


@pytest.mark.parametrize(
    "link",
    [pytest.param(link, marks=pytest.mark.soak(sentence(link), runs=GATES, allowed=10)) for link in JUDGED],
)
def test_verdicts_of_a_link(soak_count: Count, link: str) -> None:
    wrong = {name: trial(link, case, DAYS_8).wrong for case, name in CASES.items()}
    cells = ", ".join(f"{name}: {share:.1f} %" for name, share in wrong.items())
    soak_count(GATES, round(GATES * max(wrong.values()) / 100), f"wrong verdicts: {cells}")


@pytest.mark.soak("With a baseline of one day, at most 5 % of 600 verdicts on link {link} are inconclusive.")
@pytest.mark.parametrize("link", ["quiet", "busy"])
def test_one_day_is_enough_for_a_quiet_link(link: str) -> None:
    for case in ("0", "5"):
        assert trial(link, case, DAY_1).percent(Ending.INCONCLUSIVE) <= 5


@pytest.mark.soak(
    "The median traffic for a verdict on link {link} is 3 s if it is unchanged, and 9 s if it is 5 % slower."
)
@pytest.mark.parametrize("link", ["quiet", "busy"])
def test_a_verdict_takes_3_or_9_seconds(link: str) -> None:
    _takes_3_or_9_seconds(link, DAY_1, DAYS_8)


# With one day, the baseline cannot know how much the connections of this link differ, so the median is 4.5 s and 12 s.
@pytest.mark.soak(
    "With a baseline of eight days, the median traffic for a verdict on the disturbed link host is 3 s if it is "
    "unchanged, and 9 s if it is 5 % slower."
)
def test_with_eight_days_a_verdict_on_a_disturbed_link_takes_3_or_9_seconds() -> None:
    _takes_3_or_9_seconds("host", DAYS_8)


def _takes_3_or_9_seconds(link: str, *rules: str) -> None:
    medians = {rule: (trial(link, "0", rule).median_s, trial(link, "5", rule).median_s) for rule in rules}
    if others := [
        f"{same:.1f} s if unchanged and {slower:.1f} s if 5 % slower ({rule})"
        for rule, (same, slower) in medians.items()
        if (same, slower) != pytest.approx((3, 9))
    ]:
        pytest.fail(f"The median traffic is {', and '.join(others)}.", pytrace=False)


@pytest.mark.soak(
    "Profile `standard` passes 30 to 70 % of 600 gates on link quiet if a fifth of its seconds runs at half rate."
)
def test_three_seconds_cannot_see_every_stall() -> None:
    assert 30 < trial("quiet", STALL, DAYS_8).percent(Ending.PASS) < 70


@pytest.mark.soak(
    "Of 600 gates of profile `soak`, 98 % report a stall of link {link} within 24 s"
    " if a fifth of its seconds runs at half rate.",
    runs=GATES,
    allowed=GATES // 50,
)
@pytest.mark.parametrize("link", ["quiet", "busy", "host", "s1", "s2"])
def test_stalls_are_flagged(soak_count: Count, link: str) -> None:
    flagged = flags(link, STALL)
    soak_count(GATES, round(GATES * (1 - flagged / 100)), f"{flagged:.1f} % flagged")


@pytest.mark.soak(
    "Of 600 gates of profile `soak`, at most 1 % report a stall of the steady link {link}.",
    runs=GATES,
    allowed=GATES // 100,
)
@pytest.mark.parametrize("link", ["quiet", "busy", "s1", "s2"])
def test_a_steady_link_is_not_flagged(soak_count: Count, link: str) -> None:
    flagged = flags(link, "0")
    soak_count(GATES, round(GATES * flagged / 100), f"{flagged:.1f} % flagged")


@pytest.mark.soak(
    "Of 600 comparisons on link {link} with calibration, at most 1 % call two equal states different.",
    runs=GATES,
    allowed=GATES // 100,
)
@pytest.mark.parametrize("link", ["quiet", "host", "s2", "s3", "drift", "unshaped"])
def test_equal_states_are_not_called_different(soak_count: Count, link: str) -> None:
    shares = turns(link, "0")
    soak_count(GATES, round(GATES * (shares[Relation.SLOWER] + shares[Relation.FASTER]) / 100), text(shares))


@pytest.mark.soak(
    "Of 600 comparisons on link {link} with calibration, at most 1 % miss a state that is 5 % slower.",
    runs=GATES,
    allowed=GATES // 100,
)
@pytest.mark.parametrize("link", ["quiet", "host", "s2", "s3", "drift", "unshaped"])
def test_a_slower_state_is_not_called_equal_or_faster(soak_count: Count, link: str) -> None:
    shares = turns(link, "5")
    soak_count(GATES, round(GATES * (shares[Relation.SAME] + shares[Relation.FASTER]) / 100), text(shares))
