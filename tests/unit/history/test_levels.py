"""Level changes: planted steps are found, drifts and steps are distinguished, and false alarms of noise are counted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest

from benchmarks.level_changes import delay, interval, new_reports, series
from pytest_pinet.history import levels
from pytest_pinet.history.drift import course
from pytest_pinet.history.levels import MATTERS, LevelShift, Readings


def shifts(logs: Sequence[float], matters: float = MATTERS) -> list[LevelShift]:
    return levels.shifts(Readings(logs), matters=matters)


# Each cell has 200 series without a change. The values were counted with these seeds.
@pytest.mark.parametrize(
    ("length", "noise", "alike", "dips", "most"),
    [
        (12, 0.01, 0.0, 0.0, 0),
        (12, 0.02, 0.5, 0.0, 8),
        (30, 0.03, 0.0, 0.0, 0),
        (60, 0.01, 0.3, 0.0, 1),
        (180, 0.005, 0.0, 0.0, 0),
        (180, 0.01, 0.3, 0.0, 1),
        (180, 0.1, 0.0, 0.0, 0),
        (180, 0.02, 0.5, 0.0, 2),
        (180, 0.01, 0.3, 0.1, 3),
        (400, 0.01, 0.0, 0.05, 2),
    ],
)
def test_noise_raises_few_false_alarms(length: int, noise: float, alike: float, dips: float, most: int) -> None:
    alarms = sum(bool(shifts(series(seed, length, noise, alike, dips))) for seed in range(200))
    assert alarms <= most, f"{alarms} of 200"


@pytest.mark.parametrize(
    ("size", "noise", "after", "found", "exact"),
    [
        (0.02, 0.005, 90, 0.99, 0.85),
        (0.03, 0.01, 90, 0.99, 0.7),
        (0.05, 0.01, 90, 1.0, 0.95),
        (0.05, 0.01, 5, 0.98, 0.9),
        (0.05, 0.005, 3, 0.98, 0.98),
        (0.1, 0.02, 10, 0.98, 0.9),
    ],
)
def test_a_planted_step_is_found_where_it_is(size: float, noise: float, after: int, found: float, exact: float) -> None:
    at, hits, right, inside = 180 - after, 0, 0, 0
    for seed in range(100):
        near = [one for one in shifts(series(seed, noise=noise, steps=[(at, -size)])) if abs(one.at - at) <= 8]
        if near:
            (one,) = near
            hits += 1
            right += one.at == at
            inside += one.first <= at <= one.last
            assert one.size == pytest.approx(-size, abs=size / 2)
    assert hits >= found * 100
    assert right >= exact * hits
    assert inside >= 0.96 * hits


# What was counted with 1,000 series of each kind: docs/explanation/trends.md.
def test_a_growing_series_of_independent_runs_raises_few_false_alarms() -> None:
    """Each run is looked at when it is new, as after each night: 40 series are 4,000 runs."""
    assert sum(map(sum, (new_reports(series(seed, 100)) for seed in range(40)))) <= 2


def test_days_that_resemble_each_other_are_rarely_a_new_level() -> None:
    """Each of these series raised one to five false alarms, 21 in all, with the mere estimate of the correlation."""
    seeds = (20005, 20019, 20027, 20032, 20047, 20065, 20070, 20080, 20085, 20097)
    assert sum(map(sum, (new_reports(series(seed, 100, alike=0.8)) for seed in seeds))) <= 7


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_a_loss_of_five_percent_is_found_within_four_runs(alike: float) -> None:
    delays = [delay(seed, 0.01, alike) or 99 for seed in range(40)]
    assert median(delays) <= 3
    assert sum(one <= 4 for one in delays) >= 0.9 * len(delays)


def test_false_alarms_that_come_together_make_a_wide_interval() -> None:
    assert interval([0] * 200) == pytest.approx((0, 3.7 / 200), rel=0.01)
    low, high = interval([1, 1, 1, 1, *[0] * 196])
    assert (low * 200, high * 200) == pytest.approx((1.09, 10.24), rel=0.03), "exact limits of a Poisson number of 4"
    low, high = interval([4, *[0] * 199])
    assert low * 50 < 0.1
    assert high * 50 == pytest.approx(5.57, rel=0.02), "four times the limit of a Poisson number of 1"


def test_an_improvement_and_its_loss_are_both_found() -> None:
    found = shifts(series(1, steps=[(60, 0.05), (120, -0.05)]))
    assert [one.at for one in found] == [60, 120]
    assert found[0].size > 0 > found[1].size


def test_a_shift_that_does_not_matter_is_none() -> None:
    values = series(1, noise=0.0005, steps=[(90, -0.005)])
    assert shifts(values) == []
    assert [one.at for one in shifts(values, matters=0.004)] == [90]


@pytest.mark.parametrize("bad_days", [1, 2])
def test_a_bad_day_is_no_level(bad_days: int) -> None:
    values = series(1, noise=0.003)
    values[90 : 90 + bad_days] = [-0.2] * bad_days
    assert shifts(values) == []
    assert min(Readings(values).values) > -0.03


@pytest.mark.parametrize("length", range(6))
def test_too_few_runs_have_one_level(length: int) -> None:
    assert shifts([0.0, 0.0, 0.0, -0.5, -0.5, -0.5][:length]) == []
    assert course([0.0] * length).drift is None


def test_equal_values_are_one_level_and_a_step_between_levels_is_certain() -> None:
    assert shifts([1.0] * 100) == []
    assert [one.at for one in shifts([1.0] * 50 + [0.9] * 50)] == [50]


@pytest.mark.parametrize("alike", [0.0, 0.3])
def test_a_slow_drift_is_not_reported_as_steps(alike: float) -> None:
    drifts, invented = 0, 0
    for seed in range(20):
        found = course(series(seed, noise=0.004, alike=alike, ramp=(40, 150, -0.06)))
        drifts += found.drift is not None
        invented += len(found.shifts)
        if found.drift is not None:
            assert found.drift.begin == pytest.approx(40, abs=30)
            assert found.drift.end == pytest.approx(150, abs=30)
            assert found.drift.size == pytest.approx(-0.06, abs=0.02)
    assert drifts >= 19
    assert invented <= 4


@pytest.mark.parametrize("steps", [[(80, -0.05)], [(60, -0.05), (120, -0.05)], [(60, -0.05), (120, 0.05)]])
def test_steps_are_no_drift(steps: list[tuple[int, float]]) -> None:
    told = [course(series(seed, steps=steps)) for seed in range(20)]
    assert sum(one.drift is not None for one in told) <= 1
    assert sum([shift.at for shift in one.shifts] == [at for at, _ in steps] for one in told) >= 18


def test_a_step_beside_a_drift_is_found() -> None:
    found = [course(series(seed, noise=0.004, ramp=(20, 170, -0.06), steps=[(100, -0.05)])) for seed in range(20)]
    assert sum(one.drift is not None for one in found) >= 18
    assert sum(any(abs(shift.at - 100) <= 2 for shift in one.shifts) for one in found) >= 18


def test_levels_follow_the_course() -> None:
    found = course(series(1, steps=[(90, -0.05)]))
    assert len(found.levels) == 180
    assert found.levels[0] == pytest.approx(0, abs=0.005)
    assert found.levels[-1] == pytest.approx(-0.05, abs=0.005)
