"""Other programs, a hypervisor or a quota excuse a low value; kernel threads excuse nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.judge.circumstances import Circumstances, disturbed, excuses, noticed, undisturbed
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence, OtherWork, ProcessorLoad, Program
from pytest_pinet.model.limits import Origin, parse_arguments
from pytest_pinet.model.verdict import Verdict
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow, one_connection

ONE, TWO = EndEvidence("one:onboard", "eth0", machine="a"), EndEvidence("two:onboard", "eth0", machine="b")


def compiling(end: EndEvidence, share: float) -> EndEvidence:
    return replace(end, others=OtherWork(share, (Program("cc1plus", 812, share),)))


def stolen(end: EndEvidence, share: float) -> EndEvidence:
    return replace(end, processors=(ProcessorLoad(0, 0.9, steal=share), ProcessorLoad(1, 0.1)))


def slow(*evidence: EndEvidence) -> Connection:
    """Return a connection at 800 Mbit/s."""
    return replace(one_connection(flow(payload=100_000_000)), evidence=evidence)


def judged(connections: list[Connection]) -> tuple[Verdict, str]:
    """Judge connections as a run does: with the excuses of their evidence."""
    plan = GatePlan(parse_arguments({"min": "900 Mbit/s"}, Origin.MARKER), PROFILES["fast"])
    found = figures(link_stand_in.facts(), TX, connections, plan, Circumstances(busy=excuses(connections)))
    return found.verdict, found.reason


def test_other_programs_above_30_percent_of_a_cpu_make_a_low_value_invalid_and_are_named() -> None:
    verdict, reason = judged([slow(ONE, compiling(TWO, 0.31))] * 6)
    assert verdict is Verdict.INVALID
    assert "other programs took 31 % of a CPU of two (cc1plus (pid 812) 31 %) in 6 of 6 connections" in reason


def test_a_program_with_several_processes_is_named_once() -> None:
    some = OtherWork(0.9, (Program("sh", 7, 0.2), Program("mypy", 8, 0.2), Program("sh", 9, 0.1)))
    _, reason = judged([slow(ONE, replace(TWO, others=some))] * 6)
    assert "(sh (pids 7, 9) 30 %, mypy (pid 8) 20 %)" in reason


@pytest.mark.parametrize(
    "evidence",
    [
        (ONE, compiling(TWO, 0.29)),
        # A kworker that takes a whole CPU is the driver's fault.
        (replace(ONE, processors=(ProcessorLoad(0, 1.0, system=1.0),), others=OtherWork(0.0)), TWO),
        (stolen(ONE, 0.04), TWO),
        (ONE, TWO),
    ],
    ids=["few", "kernel thread", "little steal", "unknown"],
)
def test_less_of_it_and_kernel_threads_excuse_nothing(evidence: tuple[EndEvidence, ...]) -> None:
    verdict, _ = judged([slow(*evidence)] * 6)
    assert verdict is Verdict.FAIL


def test_less_of_it_is_noticed_the_largest_of_each_machine() -> None:
    connections = [slow(compiling(ONE, share), stolen(TWO, 0.03)) for share in (0.12, 0.2, 0.05)]
    programs, hypervisor = noticed(connections)
    assert programs.startswith("other programs took 20 % of a CPU of one (")
    assert hypervisor == "a hypervisor or a quota took 3 % of a CPU of two"
    assert noticed([slow(compiling(ONE, 0.05), stolen(TWO, 0.01))]) == []
    # What excuses a value is named by the excuse.
    assert noticed([slow(compiling(ONE, 0.5), TWO)]) == []


def test_stolen_time_makes_a_low_value_invalid_and_is_named() -> None:
    verdict, reason = judged([slow(stolen(ONE, 0.1), TWO)] * 6)
    assert (verdict, disturbed(slow(ONE, TWO))) == (Verdict.INVALID, "")
    assert "a hypervisor or a quota took 10 % of a CPU of one in 6 of 6 connections" in reason
    assert disturbed(slow(replace(ONE, throttled=0.2), TWO)) == "a hypervisor or a quota took 20 % of a CPU of one"


def test_stolen_time_excuses_no_more_than_it_can_take() -> None:
    """A value at 800 of 900 Mbit/s is 11.1 % too low, which needs at least 5.6 % of a CPU."""
    assert judged([slow(stolen(ONE, 0.054), TWO)] * 6)[0] is Verdict.FAIL
    assert judged([slow(stolen(ONE, 0.057), TWO)] * 6)[0] is Verdict.INVALID


def test_connections_without_other_work_decide() -> None:
    robbed = slow(stolen(ONE, 0.4), TWO)
    kept = undisturbed([robbed, *[slow(ONE, TWO)] * 5])
    assert kept is not None
    assert [one.excluded for one in kept] == ["a hypervisor or a quota took 40 % of a CPU of one", *[""] * 5]
    assert judged(kept)[0] is Verdict.FAIL


def test_a_reading_over_several_connections_is_about_each_of_them() -> None:
    together = slow(ONE, replace(compiling(TWO, 1.2), first_connection=2))
    kept = undisturbed([slow(ONE, TWO), slow(), together])
    assert kept is not None
    assert [bool(one.excluded) for one in kept] == [False, True, True]


@pytest.mark.parametrize("shares", [(0.0, 0.0), (0.1, 0.2)], ids=["none", "all"])
def test_if_no_or_each_connection_had_other_work_all_count(shares: tuple[float, float]) -> None:
    assert undisturbed([slow(stolen(ONE, share), TWO) for share in shares]) is None


def test_connections_that_were_read_together_count_each() -> None:
    together = slow(ONE, replace(compiling(TWO, 1.2), first_connection=3))
    excluded = replace(slow(ONE, compiling(TWO, 0.5)), excluded="other programs")
    (found,) = excuses([slow(ONE, TWO), excluded, slow(), slow(), together])
    assert found.text == ("other programs took 120 % of a CPU of two (cc1plus (pid 812) 120 %) in 3 of 4 connections")


def test_an_inconclusive_result_names_other_programs() -> None:
    rates = [111_600_000, 113_400_000] * 3
    connections = [replace(one_connection(flow(payload=rate)), evidence=(ONE, compiling(TWO, 0.8))) for rate in rates]
    verdict, reason = judged(connections)
    assert verdict is Verdict.INCONCLUSIVE
    assert "noise" in reason
    assert reason.endswith("; other programs took 80 % of a CPU of two (cc1plus (pid 812) 80 %) in 6 of 6 connections")


def test_work_beside_connections_that_were_left_out_is_named_on_request() -> None:
    left_out = replace(slow(ONE, compiling(TWO, 0.9)), excluded="other programs")
    connections = [left_out, slow(ONE, TWO), slow(ONE, TWO)]
    assert excuses(connections) == []
    (found,) = excuses(connections, left_out=True)
    assert "other programs took 90 % of a CPU of two (cc1plus (pid 812) 90 %) in 1 of 3 connections" in found.text


def test_ends_on_one_machine_are_one_machine() -> None:
    other = replace(compiling(TWO, 0.8), machine="a")
    (found,) = excuses([slow(compiling(ONE, 0.8), other)])
    assert found.text.startswith("other programs took 80 % of a CPU of the machine that carries one and two (")


def test_a_good_value_stays_good() -> None:
    good = replace(one_connection(flow(payload=117_000_000)), evidence=(ONE, compiling(TWO, 0.9)))
    assert judged([good] * 6)[0] is Verdict.PASS


def test_connections_that_do_not_count_excuse_nothing() -> None:
    set_aside = replace(slow(stolen(ONE, 0.5), TWO), excluded="the machine lost processor time")
    assert judged([set_aside, *[slow(ONE, TWO)] * 6])[0] is Verdict.FAIL
