"""Pings in A/B comparisons: which build causes a missed limit, and after how many turns this is known."""

from __future__ import annotations

import pytest

from pytest_pinet.ab.series import PingSeries
from pytest_pinet.judge.interleaved import Side, side
from pytest_pinet.model.record.change import BuildRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.text_wrap import CONTINUED, wrap
from tests.support.report_records import result
from tests.support.traffic_results import ping_result


def pinged(verdict: str) -> ResultRecord:
    return result("pi4b:onboard/pair", {}, verdict, "loss of 3 %")


def end(*verdicts: str) -> tuple[int, str, str]:
    """Return the number of turns until the decision, its verdict and message. Turns are A B B A B A A B."""
    pings = PingSeries()
    for turn, verdict in enumerate(verdicts):
        pings.turns.append((side(turn), pinged(verdict)))
        if pings.decided:
            break
    pings.give_up()
    record = pings.record()
    return len(pings.turns), record.verdict, "; ".join([record.message, *record.notes])


@pytest.mark.parametrize(
    ("verdicts", "turns", "verdict", "word"),
    [
        (["pass", "pass"], 2, "pass", "loss"),
        (["pass", "fail", "fail", "pass"], 4, "fail", "missed in 2 of 2 turns of the build under test"),
        (["pass", "fail", "pass"], 3, "pass", "missed in 1 of 2 turns"),
        (["fail"], 1, "inconclusive", "the known-good build misses the limit, too"),
        (["pass", "fail", "fail", "fail"], 4, "inconclusive", "the known-good build misses the limit, too"),
        (["pass", "fail"], 2, "inconclusive", "too few turns"),
    ],
)
def test_a_limit_that_only_the_new_build_misses_twice_fails(
    verdicts: list[str], turns: int, verdict: str, word: str
) -> None:
    found = end(*verdicts)
    assert found[:2] == (turns, verdict)
    assert word in found[2]


def test_an_undecided_series_passes_so_far() -> None:
    pings = PingSeries()
    for which, verdict in ((Side.A, "pass"), (Side.B, "fail")):
        pings.turns.append((which, pinged(verdict)))
    assert not pings.decided
    assert pings.record().verdict == "pass"


def test_the_answer_has_the_unwrapped_reason_of_a_wrapped_message() -> None:
    why = "pi4b:onboard/pair the median took 3.10 ms, 55 % above the limit 2 ms: missed in 2 of 2 turns of the build"
    message = "\n".join([*wrap(why, hanging=CONTINUED), "  repeat     pytest test_it.py"])
    assert "\n    " in message
    build = BuildRecord(name="new", key="1", release=None, files=(), config=(), cmdline=(), options=(), sysctls=())
    head = change_head(build, build, [ping_result("fail").replace(message=message)], accepted=False, turns=4)
    assert [entry.text for entry in head.entries] == [why]
