"""Percentiles and late probes of round trips, and round trips that do not count."""

from __future__ import annotations

import pytest

from pytest_pinet.measure.latency import Latency
from pytest_pinet.traffic.sockperf import Trips

FAST = (0.001,) * 98


@pytest.mark.parametrize(
    ("trips", "p50", "p99", "late"),
    [
        (Trips(5.0, 100, (*FAST, 0.001, 0.001)), 0.001, 0.001, 0.0),
        (Trips(5.0, 100, (*FAST, 0.003, 0.009)), 0.001, 0.003, 0.02),
        # A lost probe is late, and as long as the measurement.
        (Trips(5.0, 100, FAST), 0.001, 5.0, 0.02),
        (Trips(5.0, 100, FAST[:40]), 5.0, 5.0, 0.6),
        # An answer at the limit is not late.
        (Trips(5.0, 2, (0.001, 0.002)), 0.001, 0.002, 0.0),
    ],
)
def test_a_lost_probe_is_a_late_one(trips: Trips, p50: float, p99: float, late: float) -> None:
    found = Latency(after_s=0.002).values(trips)
    assert (found["p50"], found["p99"], found["late"]) == pytest.approx((p50, p99, late))


@pytest.mark.parametrize(("sent", "counts"), [(5000, True), (4000, True), (3999, False)])
def test_a_sender_that_pauses_hides_late_answers(sent: int, counts: bool) -> None:
    said = Latency(rate=1000).excluded(Trips(5.0, sent, FAST))
    assert said == ("" if counts else "the sender limits: it sent 800 of 1000 probes for each second")
