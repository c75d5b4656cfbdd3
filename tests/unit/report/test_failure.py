"""The text of a failed test, whole and short."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.model.evidence import Cause, Diagnosis
from pytest_pinet.model.judgement import BaselineDifference, EvennessJudgement
from pytest_pinet.model.record.measurement import FlowRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.failure import error_text, failure_details, failure_text
from pytest_pinet.report.terminal import summary_table
from tests.support.exact_records import records
from tests.support.report_records import BECAUSE, COMPARISON, NIGHT, direction, limit_of, result
from tests.support.traffic_results import ALL

RUN = ".pinet/runs/20261121-000102"
SURROUNDINGS = """\
  link       1000 Mbit/s full, MTU 1500
  ends       pi4b-1:onboard at sw1/3 (DUT), pi4b-2:onboard at sw1/4 (peer)
  raw        .pinet/runs/20261121-000102/raw/pi4b_ax88179_pair-0123456789ab
  repeat     pytest --pinet-lab lab/virtual.yaml \\
               'tests/gate/test_tcp.py::test_line_rate[pi4b:onboard/pair]'"""


def test_a_slow_link_reads_in_eight_lines() -> None:
    slow = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")})

    assert failure_details(slow, RUN) == (
        "rx 700.2 Mbit/s is 20.9 % below the limit 885.0 Mbit/s (lab/virtual.yaml:88)\n"
        "  physical   941.5 Mbit/s (1000 Mbit/s link, MTU 1500, TCP timestamps)\n"
        "  samples    5: min 693.2, median 700.2, max 707.2 Mbit/s; 12 retransmits\n" + SURROUNDINGS
    )


def test_an_error_with_the_whole_text_of_a_measurement_is_shown_once() -> None:
    """As in a test of two builds, whose measurement is invalid."""
    whole = failure_text(result("pi4b:onboard/pair", {"rx": direction(990e6, None, "invalid")}), RUN)
    assert error_text(result("pi4b:onboard/pair", {}, "invalid", message=whole), RUN) == whole
    assert whole.count("\n  ends ") == 1


def test_a_share_shows_the_limit_as_a_rate_and_as_it_was_written() -> None:
    limit = limit_of(884.993e6, "94% of 941.5 Mbit/s", "@pytest.mark.pinet(min=...)")
    slow = result("pi4b:onboard/pair", {"tx": direction(700.2e6, limit, "fail")})

    assert failure_text(slow).splitlines()[:2] == [
        "tx 700.2 Mbit/s is 20.9 % below the limit 885.0 Mbit/s",
        "    = 94% of 941.5 Mbit/s (@pytest.mark.pinet(min=...))",
    ]


def test_what_a_reader_must_know_stands_below_the_values() -> None:
    notes = (
        "limited by the processor of the peer: its iperf3 used 99 % of a core",
        "iperf3 has threads on one end only (3.16 and newer): do not compare with other iperf3 versions",
    )
    slow = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")}, notes=notes)

    assert failure_details(slow, RUN).splitlines()[3:] == [
        "  notes      limited by the processor of the peer: its iperf3 used 99 % of a",
        "               core",
        "             iperf3 has threads on one end only (3.16 and newer): do not compare",
        "               with other iperf3 versions",
        *SURROUNDINGS.splitlines(),
    ]


words = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" '\"\\$*#!`")))


@settings(deadline=None, max_examples=100)
@given(words)
def test_the_command_to_repeat_can_be_copied(arguments: list[str]) -> None:
    slow = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")})
    slow = slow.replace(rerun=shlex.join(["printf", r"%s\0", "pytest", *arguments]))

    _, _, command = failure_details(slow, RUN).partition("  repeat     ")

    assert subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=True).stderr == b""
    ran = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert ran.stdout.decode().split("\0")[:-1] == ["pytest", *arguments]


def test_a_long_command_is_continued_on_lines_of_their_own() -> None:
    slow = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")})
    node = "tests/gate/test_line_rate.py::test_line_rate[pi4b:onboard/pair-tx]"
    words = ["pytest", node, "--pinet-lab=lab/virtual.yaml", "--pinet-min=pi4b:onboard=900 Mbit/s"]
    slow = slow.replace(rerun=shlex.join(words))

    assert failure_text(slow).splitlines()[-4:] == [
        "  repeat     pytest \\",
        "               'tests/gate/test_line_rate.py::test_line_rate[pi4b:onboard/pair-tx]' \\",
        "               --pinet-lab=lab/virtual.yaml \\",
        "               '--pinet-min=pi4b:onboard=900 Mbit/s'",
    ]
    assert not re.search(r"\s$", failure_text(slow), re.MULTILINE)


def test_of_two_directions_the_failed_one_comes_first_and_the_other_is_one_line() -> None:
    both = result(
        "pi4b:onboard/pair",
        {
            "rx": direction(939.8e6, 885e6, reason="939.8 Mbit/s meets the limit 885.0 Mbit/s (+6.2 %)"),
            "tx": direction(700.2e6, 885e6, "fail"),
        },
    )

    lines = failure_details(both, RUN).splitlines()

    assert lines[0].startswith("tx 700.2 Mbit/s is 20.9 % below")
    assert lines[3] == "rx 939.8 Mbit/s meets the limit 885.0 Mbit/s (+6.2 %)"
    assert "\n".join(lines[4:]) == SURROUNDINGS


def test_a_hairs_breadth_is_not_called_zero() -> None:
    close = result("pi4b:onboard/pair", {"tx": direction(884.97e6, 885e6, "fail")})

    assert failure_text(close).startswith("tx 885.0 Mbit/s is 0.003 % below the limit 885.0 Mbit/s ")


def test_udp_counts_lost_packets_and_no_retransmits() -> None:
    lossy = direction(9e7, 1e8, "fail", retransmits=None, lost_packets=12, packets=1000)

    text = failure_details(result("pi4b:onboard/pair", {"tx": lossy}))

    assert "max 90.9 Mbit/s; lost 12 of 1000 packets\n" in text
    assert "retransmits" not in text


def test_what_must_not_be_judged_says_why() -> None:
    reason = f"951.0 Mbit/s is above the physical limit 941.5 Mbit/s ({BECAUSE}): a measurement error"
    odd = result("pi4b:onboard/pair", {"tx": direction(951e6, 885e6, "invalid", reason=reason)})

    assert failure_details(odd).splitlines()[:3] == [
        "tx 951.0 Mbit/s is above the physical limit 941.5 Mbit/s (1000 Mbit/s link, MTU",
        "    1500, TCP timestamps): a measurement error",
        "  samples    5: min 941.5, median 951.0, max 960.5 Mbit/s; 12 retransmits",
    ]


def test_samples_around_a_gigabit_keep_their_units() -> None:
    wide = direction(1e9, 2e9, "fail")

    assert "5: min 990.0 Mbit/s, median 1.00 Gbit/s, max 1.01 Gbit/s" in failure_details(
        result("a:b/pair", {"tx": wide})
    )


def test_a_lab_error_says_what_happened_and_who_must_act() -> None:
    assert error_text(NIGHT[-1], RUN) == (
        "no carrier on eth0 of cm4-1 after 20 s: switch port sw1/5 is administratively up\n"
        "    and reports no link. The link was up 3 s before.\n"
        "  -> check the cable between cm4-1 and port sw1/5\n"
        "  ends       cm4-1:onboard at sw1/3 (DUT), pi4b-2:onboard at sw1/4 (peer)\n"
        "  raw        .pinet/runs/20261121-000102/raw/pi4b_ax88179_pair-0123456789ab\n"
        "  repeat     pytest --pinet-lab lab/virtual.yaml \\\n"
        "               'tests/gate/test_tcp.py::test_line_rate[cm4:onboard/pair]'"
    )


def test_without_a_message_the_verdict_stands_for_it() -> None:
    assert error_text(result("a:b/pair", {}, "error")).startswith("no value was obtained (error)\n")


@settings(deadline=None)
@given(
    st.floats(min_value=0, max_value=1e300),
    st.floats(min_value=1e-3, max_value=1e300),
    st.sampled_from(["fail", "invalid", "inconclusive", "pass"]),
    st.text(),
)
def test_no_line_is_wider_than_80_columns(goodput: float, limit: float, verdict: str, text: str) -> None:
    figures = direction(goodput, limit_of(limit, text, text), verdict, reason=text, oracle=limit)
    one = result("a:b/pair", {"tx": figures}, message=text, notes=(text, text))
    one = one.replace(combination=one.combination.replace(dut=text, peer_port=text))

    for lines in (failure_text(one, "run").split("\n"), error_text(one, "run").split("\n")):
        assert all(len(line) <= 80 for line in lines)


def test_a_confirmed_regression_shows_every_connection_its_interval_and_why_traffic_stopped() -> None:
    slow = direction(700.2e6, 885e6, "fail")
    first = replace(slow.connections[0], goodput_bps=699e6)
    slow = slow.replace(
        connections=[first, replace(first, excluded="link dropped for 2.1 s"), replace(first, fresh="link-up")],
        interval_bps=(690e6, 710e6),
        stopped="below the limit in 2 of 2 connections (6 s)",
    )
    text = failure_details(result("pi4b:onboard/pair", {"rx": slow}))
    assert "  attempts   699.0 Mbit/s, left out, 699.0 Mbit/s (fresh link-up)\n" in text
    assert "  left out   1 of 3 connections, the first: link dropped for 2.1 s\n" in text
    assert "interval 690.0 to 710.0 Mbit/s at 1 % error: docs/explanation/error-rates.md st" in " ".join(text.split())
    assert "  stopped    below the limit in 2 of 2 connections (6 s)\n" in text


def test_two_states_measured_alternately_need_no_stable_lab() -> None:
    slow = direction(700.2e6, 885e6, "fail")
    slow = slow.replace(connections=slow.connections * 2, interval_bps=(690e6, 710e6), error_rate=0.05)
    one = result("pi4b:onboard/pair", {"rx": slow}).replace(comparison=COMPARISON)
    assert "  interval   690.0 to 710.0 Mbit/s at 5 % error\n" in failure_details(one)


LONG = "pytest --pyargs 'pytest_pinet.suites.test_line_rate::test_onboard[pi3b:onboard/pair-tx]' --pinet-lab=virtual"
SHAPER = Diagnosis(
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


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.PASS])
def test_flows_that_are_uneven_come_first_with_the_one_that_got_least(verdict: Verdict) -> None:
    reason = "c>a got 7 % of its fair share, below the limit 50%"
    limit = limit_of(0.5, "50% of its fair share", "share='50%' of the call")
    even = EvennessJudgement(
        least_share=0.07, least_flow="c>a", jain=0.6, limits=(limit,), verdict=verdict, reason=reason
    )
    one = direction(700.2e6).model_dump()
    flow = FlowRecord(**one, name="c>a", sender="c", receiver="a", direction="rx", fair_bps=1e9)
    uneven = slow().replace(evenness=even, flows=[flow])
    for text in (failure_text(uneven, RUN), failure_details(uneven, RUN)):
        assert (text.splitlines()[0] == f"{reason} (share='50%' of the call)") is (verdict is Verdict.FAIL)


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
