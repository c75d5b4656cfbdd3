"""Level changes: planted steps are found, drifts and steps are distinguished, and false alarms of noise are counted."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import median

import pytest

from pytest_pinet.history import levels
from pytest_pinet.history.drift import course
from pytest_pinet.history.levels import MATTERS, LevelShift, Readings


def shifts(logs: Sequence[float], matters: float = MATTERS) -> list[LevelShift]:
    return levels.shifts(Readings(logs), matters=matters)


def series(
    seed: int,
    length: int = 180,
    noise: float = 0.01,
    alike: float = 0.0,
    dips: float = 0.0,
    steps: Sequence[tuple[int, float]] = (),
    ramp: tuple[int, int, float] | None = None,
) -> list[float]:
    """Return logarithms of goodput.

    ``alike`` is the correlation of neighbours; a share ``dips`` of runs loses 5 to 40 %.
    """
    chance = random.Random(seed)
    day = chance.gauss(0, 1)
    values = []
    for index in range(length):
        day = alike * day + math.sqrt(1 - alike * alike) * chance.gauss(0, 1)
        value = noise * day + math.fsum(size for at, size in steps if index >= at)
        if chance.random() < dips:
            value -= chance.uniform(0.05, 0.4)
        if ramp is not None:
            begin, end, size = ramp
            value += size * min(max((index - begin) / (end - begin), 0.0), 1.0)
        values.append(value)
    return values


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


@pytest.mark.parametrize(("alike", "most"), [(0.0, 0), (0.5, 1), (0.7, 2), (0.8, 2)])
def test_a_growing_series_raises_at_most_one_false_alarm_per_thousand_runs(alike: float, most: int) -> None:
    """Each run is looked at when it is new, as after each night: 25 series of 100 runs are 2,500 runs."""
    alarms = 0
    for seed in range(25):
        whole = series(seed, 100, 0.01, alike, 0.0)
        known = 0
        for length in range(6, 101):
            found = len(shifts(whole[:length]))
            alarms += max(found - known, 0)
            known = found
    assert alarms <= most


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_a_loss_of_five_percent_is_found_within_four_runs(alike: float) -> None:
    delays = []
    for seed in range(25):
        whole = [value - (0.0513 if number >= 60 else 0) for number, value in enumerate(series(seed, 80, 0.01, alike))]
        delays.append(next((n - 60 for n in range(61, 81) if any(abs(s.at - 60) < 4 for s in shifts(whole[:n]))), 99))
    assert median(delays) <= 4
    assert sum(delay <= 4 for delay in delays) >= 0.95 * len(delays)
    assert max(delays) <= 5


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
