"""Tells a level that wanders off over weeks from one that jumps: a slow drift has no build to blame; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.history.levels import (
    CERTAIN,
    LEAST_NOISE,
    MATTERS,
    Shift,
    drawn_in,
    levels,
    noise_of,
    shifts,
)

# What takes fewer runs is a jump.
LEAST_LENGTH = 30
_GRID = 16
_ROUNDS = 4
# What a jump (place and size) and a drift (two places and a size) must be worth, in logarithms of the length.
_JUMP = 3
_DRIFT = 4
# The simpler story is told unless the other one is this much better.
_MARGIN = 4.0
# A jump beside a drift must be that much more certain: what a drift is not straight about looks like one.
_BESIDE = 1.4


@dataclass(frozen=True)
class Drift:
    """A level that moved steadily from the reading ``begin`` to the reading ``end``, by ``size`` in logarithms."""

    begin: int
    end: int
    size: float


@dataclass(frozen=True)
class Course:
    """What a series did: its jumps, and the drift that it had beside them. ``levels`` has a value for each reading."""

    shifts: tuple[Shift, ...]
    drift: Drift | None
    levels: tuple[float, ...]


# Where a drift begins and ends, its size, and the jumps beside it.
Told = tuple[tuple[int, int], float, list[Shift]]


def course(logs: Sequence[float], certain: float = CERTAIN, matters: float = MATTERS) -> Course:
    """Jumps and drift of a series of logarithms."""
    found = shifts(logs, certain, matters)
    values = drawn_in(logs) if len(logs) > 1 else list(logs)
    cuts = [shift.at for shift in found]
    jumped = Course(tuple(found), None, tuple(levels(values, cuts)) if values else ())
    if not found or len(logs) < 2 * LEAST_LENGTH:
        # A drift that matters looks like a jump at first.
        return jumped
    best, least = jumped, _cost(values, cuts, 0.0, ()) - _MARGIN
    alone: Told = (*_best_ramp(values, ()), [])
    for ramp, size, own in (
        alone,
        *(_together(logs, values, start, certain * _BESIDE, matters) for start in ([], cuts)),
    ):
        cost = _cost(values, [shift.at for shift in own], size, ramp)
        if cost < least and _is_drift(values, own, ramp, size, certain, matters):
            line = [size * part for part in _ramp(len(values), ramp)]
            flat = [value - part for value, part in zip(values, line, strict=True)]
            fitted = [a + b for a, b in zip(levels(flat, [shift.at for shift in own]), line, strict=True)]
            best, least = Course(tuple(own), Drift(*ramp, size), tuple(fitted)), cost
    return best


def _together(
    logs: Sequence[float], values: Sequence[float], cuts: Sequence[int], certain: float, matters: float
) -> Told:
    """A drift and the jumps beside it, each found while the other is taken out, in turn."""
    own: list[Shift] = []
    ramp, size = _best_ramp(values, cuts)
    for _ in range(_ROUNDS):
        line = [size * part for part in _ramp(len(values), ramp)]
        own = shifts([value - part for value, part in zip(logs, line, strict=True)], certain, matters)
        again = [shift.at for shift in own]
        ramp, size = _best_ramp(values, again)
        if again == list(cuts):
            break
        cuts = again
    return ramp, size, own


def _ramp(length: int, ramp: tuple[int, int]) -> list[float]:
    """0 before it begins, 1 after it ended, and straight in between."""
    begin, end = ramp
    return [min(max((index - begin) / (end - begin), 0.0), 1.0) for index in range(length)]


def _best_ramp(values: Sequence[float], cuts: Sequence[int]) -> tuple[tuple[int, int], float]:
    """Where a drift beside these jumps fits best: first roughly, then to some runs."""
    length = len(values)
    step = max(length // _GRID, 1)
    flat = _without_levels(values, cuts)
    places = [*range(0, length - 1, step), length - 1]
    best = max(
        (_gain(flat, cuts, (a, b)) for a in places for b in places if b - a >= LEAST_LENGTH), key=lambda one: one[0]
    )
    while step > 1:
        step = max(step // 2, 1)
        begin, end = best[1]
        near = (
            (a, b)
            for a in (begin - step, begin, begin + step)
            for b in (end - step, end, end + step)
            if a >= 0 and b < length and b - a >= LEAST_LENGTH
        )
        best = max((_gain(flat, cuts, ramp) for ramp in near), key=lambda one: one[0])
    return best[1], best[2]


def _gain(flat: Sequence[float], cuts: Sequence[int], ramp: tuple[int, int]) -> tuple[float, tuple[int, int], float]:
    """By how much a drift lowers the squares, and its size (Frisch-Waugh: both without their levels)."""
    line = _without_levels(_ramp(len(flat), ramp), cuts)
    squares = math.fsum(one * one for one in line)
    if squares < 1e-12:
        return 0.0, ramp, 0.0
    product = math.fsum(a * b for a, b in zip(line, flat, strict=True))
    return product * product / squares, ramp, product / squares


def _without_levels(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    return [value - level for value, level in zip(values, levels(values, cuts), strict=True)]


def _cost(values: Sequence[float], cuts: Sequence[int], size: float, ramp: tuple[int, int] | tuple[()]) -> float:
    """Bayesian information criterion; neighbours that resemble each other count less."""
    line = [size * part for part in _ramp(len(values), ramp)] if ramp else [0.0] * len(values)
    flat = [value - part for value, part in zip(values, line, strict=True)]
    _, factor = noise_of(flat, cuts)
    squares = max(math.fsum(one * one for one in _without_levels(flat, cuts)) / len(flat), LEAST_NOISE**2)
    parts = _JUMP * len(cuts) + (_DRIFT if ramp else 0)
    return len(flat) / (factor * factor) * math.log(squares) + parts * math.log(len(flat))


def _is_drift(
    values: Sequence[float], own: Sequence[Shift], ramp: tuple[int, int], size: float, certain: float, matters: float
) -> bool:
    """Whether the drift itself is certain, and matters."""
    cuts = [shift.at for shift in own]
    line = _ramp(len(values), ramp)
    flat = [value - size * part for value, part in zip(values, line, strict=True)]
    noise, factor = noise_of(flat, cuts)
    squares = math.fsum(one * one for one in _without_levels(line, cuts))
    return abs(size) >= matters and abs(size) * math.sqrt(squares) > certain * noise * factor
