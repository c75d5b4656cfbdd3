"""Compare two sets of runs that were made on their own days, boots and link-ups (`pinet compare`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import fmean

from pytest_pinet.judge.baseline import Baseline
from pytest_pinet.judge.days import day_spread, zone_of
from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.noise import UNKNOWN, combined
from pytest_pinet.judge.statistics import student, variance
from pytest_pinet.judge.text import percent
from pytest_pinet.model.quantities import Bitrate, Tolerance

# A tolerance with an absolute part may be larger than the goodput.
LEAST_LIMIT = 1e-3

# The logarithm of a change that is impossible. Intervals of a few runs that differ much exceed what a float can hold.
MOST_CHANGE = 100.0


def days_of(runs: Baseline) -> int:
    """Return how many days these runs span."""
    return len({place.day for place, _ in runs.placed})


def compare_sets(old: Baseline, new: Baseline, tolerance: Tolerance, error_rate: float = 0.01) -> Difference:
    """Compare the runs of ``new`` with the runs of ``old``; both have at least one run with a value.

    The levels of days and sessions vary as in the gate (`day_spread`, with its prior). A day or session that both sets
    share cancels: a variance counts with the square of the difference of its weights in both means. As in the gate,
    the test distinguishes a slowdown that may pass from one that must be found (`zone_of`). The degrees of freedom of
    the sum come from its parts (Satterthwaite 1946).
    """
    a, b = ([math.log(run.bps) for _, run in one.placed] for one in (old, new))
    sessions = [[(place.day, place.session) for place, _ in one.placed] for one in (old, new)]
    spread = day_spread(max(old, new, key=days_of))
    of_runs, run_freedom = _within((a, b), sessions)
    if not run_freedom:
        # One run in each session: what is seen between days contains the noise of runs.
        of_runs, run_freedom = spread.days, round(spread.freedom)
    of_days = spread.days * _weight(*([place.day for place, _ in one.placed] for one in (old, new)))
    parts = [
        (of_days, spread.freedom),
        (spread.sessions * _weight(*sessions), spread.session_freedom),
        (
            max(combined(of_runs, run_freedom, UNKNOWN), of_runs) * (1 / len(a) + 1 / len(b)),
            run_freedom + UNKNOWN.freedom,
        ),
    ]
    whole = math.fsum(part for part, _ in parts)
    freedom = whole**2 / math.fsum(part**2 / own for part, own in parts)
    half = student(1 - error_rate, freedom) * math.sqrt(whole)
    change, middle = fmean(b) - fmean(a), Bitrate(math.exp(fmean(a)))
    limit = tolerance.lowest(middle)
    allowed = -math.log(max(limit.bps / middle.bps, LEAST_LIMIT))
    needed = max(half - zone_of(limit, middle), 0.0)
    result = Relation.INCONCLUSIVE
    if change < -allowed - needed:
        result = Relation.SLOWER
    elif change > allowed + needed:
        result = Relation.FASTER
    elif change > -allowed + needed:
        result = Relation.SAME
    relative, low, high = (math.expm1(min(one, MOST_CHANGE)) for one in (change, change - half, change + half))
    why = f"{result}: {relative * 100:+.1f} % ({low * 100:+.1f} to {high * 100:+.1f} %), tolerance {tolerance}; "
    why += f"{len(b)} run{'s' if len(b) > 1 else ''} against {len(a)}"
    if of_days:
        why += f"; their days may differ by {percent(student(1 - error_rate, spread.freedom) * math.sqrt(of_days))}"
        why += "; runs of the same days decide" if result is Relation.INCONCLUSIVE else ""
    return Difference(result, why, change=relative, interval=(low, high))


def _weight(old: Sequence[Hashable], new: Sequence[Hashable]) -> float:
    """Return the sum of the squares of the differences of the weights of each day (or session) in both means."""
    a, b = Counter(old), Counter(new)
    return math.fsum((a[one] / len(old) - b[one] / len(new)) ** 2 for one in {*a, *b})


def _within(sets: Sequence[Sequence[float]], keys: Sequence[Sequence[Hashable]]) -> tuple[float, int]:
    """Return the variance of runs of one session and one set, and its degrees of freedom; 0 if it is not known."""
    groups: dict[tuple[int, Hashable], list[float]] = {}
    for number, (values, own) in enumerate(zip(sets, keys, strict=True)):
        for value, key in zip(values, own, strict=True):
            groups.setdefault((number, key), []).append(value)
    several = [group for group in groups.values() if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    return math.fsum(variance(group) * (len(group) - 1) for group in several) / max(freedom, 1), freedom
