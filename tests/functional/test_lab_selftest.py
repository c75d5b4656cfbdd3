"""``pinet selftest`` on a real lab: the gate is right about known reductions, and nothing is left of them."""

from __future__ import annotations

import json

import pytest
from doctor_bench import pinet
from gate_bench import GateLab
from visiting_bench import GOODPUT, PAIR

pytestmark = pytest.mark.slow


def test_ten_percent_are_found_in_both_directions_and_an_unchanged_link_passes(gate_lab: GateLab) -> None:
    on = gate_lab.nodes_on()
    words = ("--reductions", "10%", "--repeats", "2", "--seed", "5", "--json")
    told = pinet(gate_lab, "selftest", "--lab", str(gate_lab.file), PAIR, *words)
    assert told.code == 0
    (found,) = json.loads(told.output)
    assert found["tolerance"] == 0.03
    assert {name: pytest.approx(rate, rel=0.02) for name, rate in found["baselines_bps"].items()} == {
        "tx": GOODPUT.bps,
        "rx": GOODPUT.bps,
    }
    verdicts = sorted((gate["reduction"], gate["direction"], gate["verdict"]) for gate in found["gates"])
    assert [one[:2] for one in verdicts] == [(0.0, "rx"), (0.0, "tx"), (0.1, "rx"), (0.1, "tx")]
    # A pass that took a repeat is one, too: the machine has more to do than this.
    assert {one[2] for one in verdicts[:2]} <= {"pass", "marginal"}
    assert {one[2] for one in verdicts[2:]} == {"fail"}
    none, ten = found["counts"]
    assert (none["right"], none["wrong"], ten["right"], ten["wrong"]) == (2, 0, 2, 0)
    assert ten["measured_reduction"] == pytest.approx(0.1, abs=0.02)
    assert ten["traffic_seconds_median"] >= 9
    assert "10 % slower is found after" in found["sentence"]
    assert "4 gates each, seed 5, about 1 min" in told.errors
    assert gate_lab.nodes_on() == on
    assert gate_lab.holders() == []
