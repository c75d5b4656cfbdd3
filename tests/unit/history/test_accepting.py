"""The value of an accepted baseline."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from pytest_pinet.history.accepting import figure_of
from pytest_pinet.judge.baseline import Baseline, RunPlace, course_of, without_course
from pytest_pinet.model.quantities import Bitrate

HIGH, LOW = 940.0, 827.0
SEEDS = range(40)


def baseline(seed: int, shared: bool) -> Baseline:
    """Return 8 days of 3 boots. A fifth of the connections (``shared``: of the boots) is low, and has nine more.

    Runs of the first day have no limit yet, and three connections.
    """
    source = random.Random(seed)
    runs, places = [], []
    for day in range(8):
        for boot in range(3):
            low = source.random() < 0.2
            for number in range(10 if low else 1 if day else 3):
                is_low = low if shared or not number else source.random() < 0.2
                runs.append(Bitrate.mbps((LOW if is_low else HIGH) * source.gauss(1, 0.001)))
                places.append(RunPlace(f"2026-11-{day + 1:02}", f"{day}-{boot}", "1", number + 1, 3 * number))
    return Baseline(runs[0], tuple(runs), places=tuple(places))


def value(own: Baseline) -> Bitrate:
    return figure_of(without_course(own, course_of(own)))


@pytest.mark.parametrize("shared", [False, True], ids=["each connection is low by itself", "a low boot stays low"])
def test_low_runs_that_took_longer_do_not_move_the_value(shared: bool) -> None:
    found = fmean(value(baseline(seed, shared)).bps for seed in SEEDS) / 1e6
    # If each run counted once, the value of single low connections would be 1.8 % too high.
    assert found == pytest.approx(0.8 * HIGH + 0.2 * LOW, rel=0.01)


def test_days_that_differ_count_alike_whatever_their_number_of_connections() -> None:
    rates = [(940.0,) * 2, (900.0,) * 12]
    placed = [
        (RunPlace(f"2026-11-0{day + 1}", str(day), "1", number + 1, 3 * number), Bitrate.mbps(rate))
        for day, own in enumerate(rates)
        for number, rate in enumerate(own)
    ]
    places, runs = zip(*placed, strict=True)
    assert value(Baseline(runs[0], runs, places=places)) == Bitrate.mbps(920)
