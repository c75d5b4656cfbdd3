"""The failure of a test has at most 12 lines of 80 columns, of whatever kind it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.model.evidence import Cause
from pytest_pinet.model.judgement import BaselineDifference
from pytest_pinet.model.record.measurement import LimitedByRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.failure import error_text, failure_details, failure_text
from pytest_pinet.report.terminal import summary_table
from tests.support.exact_records import records
from tests.support.report_records import COMPARISON, direction, limit_of, result
from tests.support.traffic_results import ALL

RUN = ".pinet/runs/20261121-000102"
LONG = "pytest --pyargs 'pytest_pinet.suites.test_line_rate::test_onboard[pi3b:onboard/pair-tx]' --pinet-lab=virtual"
SHAPER = LimitedByRecord(
    cause=Cause.SHAPER,
    text="goodput stayed at 84.7 Mbit/s of 94.1 Mbit/s (within 0.1 %), while the busiest CPU was 100 % busy, mostly "
    "with other work than the traffic: a shaper, or a limit of unknown cause; packets waited in its queue: 1.09 ms of "
    "round trip, 0.0015 ms without a queue",
    numbers={},
)
BUSY = (
    "other programs took 102 % of a CPU of the machine that carries pi3b-1 and pi3b-2 (mypy (pid 20988) 27 %, bash "
    "(pid 5847) 14 %, python (pid 25346) 14 %) in 3 of 3 connections"
)
NOTES = (BUSY, "pi3b-1 was 90 % busy with other work before the traffic", "the kernel of pi4b-1 logged: eth0: reset")


def slow(verdict: str = "fail", reason: str = "", **more: object) -> ResultRecord:
    """Return a link below its limit, with all that can be known of it."""
    limit = limit_of(885e6, "94% of 941.5 Mbit/s", "min='94%' of the marker")
    one = direction(700.2e6, limit, verdict, reason=reason)
    one = one.replace(
        connections=one.connections * 5,
        interval_bps=(690e6, 710e6),
        stopped="below the limit in 5 of 5 connections (15 s)",
    )
    found = result("pi4b:onboard/pair", {"tx": one.replace(**more)}, notes=NOTES)
    return found.replace(limited_by=SHAPER, rerun=LONG, scale=0.1)


def both() -> ResultRecord:
    one = slow()
    return one.replace(directions={"tx": one.directions["tx"], "rx": one.directions["tx"]})


def without_values(verdict: str, message: str) -> ResultRecord:
    found = result("pi4b:onboard/pair", {}, verdict, message=message, notes=NOTES)
    return found.replace(rerun=LONG, console_excerpt="\n".join(f"2026-11-21T00:00:01 line {i}" for i in range(50)))


BASELINE = BaselineDifference(
    figure_bps=885e6,
    runs=8,
    date="2026-11-20",
    builds=(),
    difference=-0.2,
    interval=(-0.21, -0.19),
    verdict=Verdict.FAIL,
    text="20 % slower (19 to 21 %) than the baseline of 8 runs up to 2026-11-20; at most 2 % is accepted",
)
EACH: Mapping[str, str] = {
    "limit": failure_text(slow(), RUN),
    "both directions": failure_text(both(), RUN),
    "baseline": failure_text(slow(baseline=BASELINE), RUN),
    "comparison": failure_text(slow().replace(comparison=COMPARISON), RUN),
    "invalid": failure_text(slow("invalid", f"700.2 Mbit/s is below the limit, but {BUSY}: nothing"), RUN),
    "inconclusive": failure_text(slow("inconclusive", f"700.2 Mbit/s is below, but not certain; {BUSY}"), RUN),
    "exact": failure_text(next(one for one in records("slow") if one.verdict == "fail").replace(rerun=LONG), RUN),
    **{name: failure_text(one.replace(verdict="fail", message="a " * 300, rerun=LONG)) for name, one in ALL.items()},
    "kselftest": failure_text(without_values("fail", f"drivers/net:hds.py: 40 of 41 failed: {', '.join(['x'] * 200)}")),
    "drop": failure_text(without_values("fail", "the link dropped twice\n  -> change the cable, or the build"), RUN),
    "lab error": error_text(without_values("error", "\n".join([BUSY] * 6 + ["  -> check the cable"])), RUN),
    "panic": error_text(without_values("fail", "pi4b-1 had a kernel panic during the test"), RUN),
}


@pytest.mark.parametrize("text", EACH.values(), ids=EACH)
def test_it_has_at_most_12_lines(text: str) -> None:
    lines = text.splitlines()
    assert sum(max(1, math.ceil(len(line) / 80)) for line in lines) <= 12, text
    # Only a word that can be copied is wider.
    assert all(len(line) <= 80 for line in lines if "::" not in line)


def test_it_says_what_how_much_why_what_to_do_and_where_the_evidence_is() -> None:
    assert EACH["limit"].splitlines() == [
        "tx 700.2 Mbit/s is 20.9 % below the limit 885.0 Mbit/s",
        "    = 94% of 941.5 Mbit/s (min='94%' of the marker)",
        "  interval   690.0 to 710.0 Mbit/s at 1 % error: docs/explanation/error-rates.md",
        "  limited by shaper: goodput stayed at 84.7 Mbit/s of 94.1 Mbit/s (within",
        "             0.1 %), while the busiest CPU was 100 % busy, mostly with other ...",
        "  to do      look for a shaper or flow control at the ends and the switch",
        "  ends       pi4b-1:onboard at sw1/3 (DUT), pi4b-2:onboard at sw1/4 (peer)",
        "  raw        .pinet/runs/20261121-000102/raw/pi4b_ax88179_pair-0123456789ab",
        "  repeat     pytest --pyargs \\",
        "               'pytest_pinet.suites.test_line_rate::test_onboard[pi3b:onboard/pair-tx]' \\",
        "               --pinet-lab=virtual",
    ]


@pytest.mark.parametrize("kind", ["invalid", "inconclusive"])
def test_programs_that_disturb_are_named_once(kind: str) -> None:
    assert " ".join(EACH[kind].split()).count("mypy (pid 20988)") == 1


def test_a_failure_that_pytest_printed_is_not_printed_again_below_the_table() -> None:
    found = slow("invalid", f"700.2 Mbit/s is below the limit, but {BUSY}: this says nothing about the link")
    assert "mypy (pid 20988)" in " ".join(summary_table([found], []))
    assert not any("mypy" in line for line in summary_table([found], [], explained={found.test}))
    marginal = slow("marginal", "below the limit in 1 of 5 connections")
    assert summary_table([marginal], [], explained={found.test}) == summary_table([marginal], [])


def test_what_to_do_stays_below_a_long_message() -> None:
    assert "\n  -> check the cable\n" in EACH["lab error"]


def test_the_details_keep_what_the_text_leaves_out() -> None:
    details = failure_details(slow(), RUN)
    for row in ("physical", "attempts", "stopped", "samples", "notes", "scale"):
        assert f"\n  {row} " in details
        assert f"\n  {row} " not in EACH["limit"]


def test_a_long_command_is_in_the_details() -> None:
    options = " ".join(f"--pinet-min=pi4b:nic{number}=900Mbit/s" for number in range(20))
    found = slow().replace(rerun=f"{LONG} {options}")
    assert "\n  repeat     the command in failure.txt" in failure_text(found, RUN)
    assert "--pinet-min=pi4b:nic19=900Mbit/s" in failure_details(found, RUN)


@settings(deadline=None)
@given(st.text(max_size=2000), st.lists(st.text(max_size=300), max_size=5), st.sampled_from(["fail", "invalid"]))
def test_no_text_makes_it_longer(text: str, notes: list[str], verdict: str) -> None:
    found = slow(verdict, text).replace(notes=tuple(notes), message=text)
    for one in (found, found.replace(directions={})):
        for made in (failure_text(one, RUN), error_text(one.replace(directions={}), RUN)):
            assert sum(max(1, math.ceil(len(line) / 80)) for line in made.split("\n")) <= 12
