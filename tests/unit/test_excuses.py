"""A figure below its limit that something else explains is invalid: it blames nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from report_data import direction

from pytest_pinet.figures import Figured
from pytest_pinet.measuring import excuse
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

PEER: Any = SimpleNamespace(endpoint="pi4b-2:onboard")
BUSY = "the processors of pi4b-2 were 97 % busy with something else before the traffic\n  -> look what runs on pi4b-2"


def slow(goodput: float = 700e6, limit: float | None = 900e6, verdict: str = "fail") -> Figured:
    return Figured(Verdict(verdict), "tx: slow", {"tx": direction(goodput, limit, verdict)}, (), None, None)


def test_a_peer_that_cannot_reach_the_limit_by_itself_is_what_limited() -> None:
    found = excuse(slow(), [], [(PEER, Bitrate(720e6))])
    assert found.verdict is Verdict.INVALID
    assert found.directions["tx"]["verdict"] == "invalid"
    assert "pi4b-2:onboard itself moves no more than 720.0 Mbit/s over its own loopback" in found.reason
    assert "\n" not in found.reason


def test_a_peer_that_can_do_better_is_noexcuse() -> None:
    assert excuse(slow(), [], [(PEER, Bitrate(9e9))]).verdict is Verdict.FAIL


def test_what_nothing_excuses_stays_failed() -> None:
    both = {"tx": direction(700e6, 900e6, "fail"), "rx": direction(600e6, 650e6, "fail")}
    found = excuse(Figured(Verdict.FAIL, "tx: slow", both, (), None, None), [], [(PEER, Bitrate(720e6))])
    assert (both["tx"]["verdict"], both["rx"]["verdict"]) == ("invalid", "fail")
    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith("rx: ")


def test_the_limit_of_a_sum_is_shared_by_its_peers() -> None:
    flows: Any = ({**direction(2e9, None), "name": "a>b", "sender": "a", "receiver": "b"},)
    summed = Figured(Verdict.FAIL, "", {"rx": direction(4e9, 4.5e9, "fail")}, flows, None, None)
    peers = [(PEER, Bitrate(4e9)), (PEER, Bitrate(4e9))]
    assert excuse(summed, [], peers).verdict is Verdict.FAIL
    assert excuse(summed, [], peers[:1]).verdict is Verdict.INVALID


def test_other_work_on_an_end_is_anexcuse() -> None:
    found = excuse(slow(), [BUSY], [])
    assert found.verdict is Verdict.INVALID
    assert "700.0 Mbit/s is below the limit 900.0 Mbit/s, but the processors of pi4b-2 were 97 % busy" in found.reason


@pytest.mark.parametrize("figure", [slow(limit=None), slow(goodput=930e6)], ids=["no limit", "another rule missed"])
def test_what_did_not_fail_for_its_rate_needs_noexcuse(figure: Figured) -> None:
    assert excuse(figure, [BUSY], [(PEER, Bitrate(1e6))]).verdict is Verdict.FAIL
