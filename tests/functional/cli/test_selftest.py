"""``pinet selftest`` on a real lab: verdicts on known reductions are right, and no shaper is left."""

from __future__ import annotations

import json

import pytest

from pytest_pinet.calibration.selftest import SHAPER_ERROR
from tests.support.doctor_command import pinet
from tests.support.gate_project import GateLab
from tests.support.visited_link import GOODPUT, PAIR

pytestmark = pytest.mark.slow


def test_a_reduction_of_forty_percent_fails_and_an_unchanged_link_passes(gate_lab: GateLab) -> None:
    on = gate_lab.nodes_on()
    # The tolerance lies between both states, so that only a machine that takes a fifth of the traffic can mix them up.
    words = ("--reductions", "40%", "--repeats", "2", "--tolerance", "20%", "--seed", "5", "--json")
    answer = pinet(gate_lab, "selftest", "--lab", str(gate_lab.file), PAIR, *words)
    (found,) = json.loads(answer.output)
    assert found["tolerance"] == 0.2
    assert {name: pytest.approx(rate, rel=0.2) for name, rate in found["baselines_bps"].items()} == {
        "tx": GOODPUT.bps,
        "rx": GOODPUT.bps,
    }
    verdicts = sorted((gate["reduction"], gate["direction"], gate["verdict"]) for gate in found["gates"])
    assert [one[:2] for one in verdicts] == [(0.0, "rx"), (0.0, "tx"), (0.4, "rx"), (0.4, "tx")]
    # A marginal pass after a repeat is also right, because the machine may be busy.
    assert {one[2] for one in verdicts[:2]} <= {"pass", "marginal"}
    assert {one[2] for one in verdicts[2:]} == {"fail"}
    none, forty = found["counts"]
    assert (none["right"], none["wrong"], forty["right"], forty["wrong"]) == (2, 0, 2, 0)
    assert forty["measured_reduction"] == pytest.approx(0.4, abs=0.1)
    # Three connections of 3 s.
    assert forty["traffic_seconds_median"] > 8.5
    # Beside other work the link may be still slower than the shaper makes it. The self-test then trusts no count; that
    # it measures the reduction exactly is a statement of `make soak`.
    exact = abs(forty["measured_reduction"] - 0.4) <= SHAPER_ERROR
    assert answer.code == (0 if exact else 1)
    assert ("40 % slower is detected after" if exact else "instead of 40 %") in found["sentence"]
    assert "4 gates each, seed 5, about 1 min" in answer.errors
    assert gate_lab.nodes_on() == on
    assert gate_lab.holders() == []
