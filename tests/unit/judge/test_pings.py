"""Pings with limits on loss and latency: a limit fails only if several series miss it."""

from __future__ import annotations

import pytest

from pytest_pinet.judge.extras import judge_pings
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.limits import Limit, Metric, Origin, Scope
from pytest_pinet.model.quantities import Bitrate, Duration, Share
from pytest_pinet.model.traffic import PingReport
from pytest_pinet.model.verdict import Verdict
from tests.support.link_stand_in import key

LATENCY = Limit(Duration(0.002), Origin.MARKER, "the test's", metric=Metric.LATENCY)
FAST = PROFILES["fast"]


def judged(
    *means_ms: float, limits: tuple[Limit, ...] = (LATENCY,), strict: bool = False
) -> tuple[Verdict | None, tuple[str, ...]]:
    """Judge series of ten pings with these mean round-trip times."""
    rounds = [PingReport(10, 10, ms / 2e3, ms / 1e3, ms / 5e2, None) for ms in means_ms]
    found = judge_pings(rounds, limits, key("pi4b", "onboard"), FAST, strict)
    return found.verdict, found.reasons


def test_one_series_that_meets_all_limits_is_enough() -> None:
    assert judged(0.5) == (Verdict.PASS, ("mean round-trip time 0.5 ms meets the limit 2 ms",))


def test_a_miss_is_a_suspicion_until_other_series_confirm_it() -> None:
    assert judged(3.0)[0] is None
    misses = [3.0] * FAST.fails_after
    assert judged(*misses) == (Verdict.FAIL, ("mean round-trip time 3 ms is above the limit 2 ms",))
    assert judged(3.0, *[0.5] * (FAST.fails_after - 1))[0] is Verdict.MARGINAL


def test_with_strict_a_cleared_suspicion_fails_and_the_reason_names_the_option() -> None:
    cleared = [3.0, *[0.5] * (FAST.fails_after - 1)]
    missed, option = "mean round-trip time 3 ms is above the limit 2 ms", "marginal results fail (--pinet-strict)"
    assert judged(*cleared, strict=True) == (Verdict.FAIL, (missed, option))
    assert judged(*cleared) == (Verdict.MARGINAL, (missed,))
    assert judged(0.5, strict=True)[0] is Verdict.PASS


@pytest.mark.parametrize(
    "limits", [(), (Limit(Bitrate(9e8), Origin.MARKER, "it"),), (Limit(Share(0.1), Origin.MARKER, "it", Scope("pi5")),)]
)
def test_pings_without_a_limit_pass(limits: tuple[Limit, ...]) -> None:
    assert judged(50.0, limits=limits) == (Verdict.PASS, ())
