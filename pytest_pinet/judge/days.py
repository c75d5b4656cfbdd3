"""How much an unchanged link may differ today from runs of other days, and how two sets of runs compare.

Runs of one day share the day's level, and runs of one boot and link-up share that of the session. More traffic reduces
neither. A baseline of few days says little about the days to come, so a stated prior counts as PRIOR_WORTH days.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.baseline import Baseline
from pytest_pinet.judge.difference import Difference, Relation
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.judge.spread import NINE_OF_TEN, UNKNOWN, Noise, combined
from pytest_pinet.judge.statistics import HALF_ZONE, lasting_bound, normal, percent, student
from pytest_pinet.judge.two_levels import Unit, two_levels
from pytest_pinet.judge.words import GOODPUT, Words
from pytest_pinet.model.quantities import Bitrate, Tolerance

# A tolerance with an absolute part may be larger than the goodput.
LEAST_LIMIT = 1e-3

# The logarithm of a change that is impossible. Intervals of a few runs that differ much exceed what a float can hold.
MOST_CHANGE = 100.0


def compare_sets(old: Baseline, new: Baseline, tolerance: Tolerance, words: Words = GOODPUT) -> Difference:
    """Compare the runs of ``new`` with the runs of ``old``; both have at least one run with a value.

    The levels of days and sessions vary as in the gate (`day_spread`, with its prior). A day or session that both sets
    share cancels: a variance counts with the square of the difference of its weights in both means. As in the gate,
    the test distinguishes a slowdown that may pass from one that must be found (`zone_of`). The degrees of freedom of
    the sum come from its parts (Satterthwaite 1946). ``words``: if the value is better low, the runs have its inverse,
    and the difference the value's own change.
    """
    a, b = ([math.log(run.bps) for _, run in one.placed] for one in (old, new))
    sessions = [[(place.day, place.session) for place, _ in one.placed] for one in (old, new)]
    spread = day_spread(max(old, new, key=lambda runs: len(runs.days)))
    groups = grouped(
        ((number, session), value)
        for number, (values, own) in enumerate(zip((a, b), sessions, strict=True))
        for value, session in zip(values, own, strict=True)
    )
    of_runs, run_freedom = _pooled(list(groups.values()))
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
    half = student(1 - ERROR_RATE, freedom) * math.sqrt(whole)
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
    # Not `Words.change`: for a level that fell to nothing, it divides by 0.
    sign = -1 if words.inverse else 1
    relative, *ends = (math.expm1(min(sign * one, MOST_CHANGE)) for one in (change, change - half, change + half))
    low, high = sorted(ends)
    word = {Relation.SLOWER: words.worse, Relation.FASTER: words.better}.get(result, result)
    why = f"{word}: {relative * 100:+.1f} % ({low * 100:+.1f} to {high * 100:+.1f} %), tolerance {tolerance}; "
    why += f"{len(b)} run{'s' if len(b) > 1 else ''} against {len(a)}"
    if of_days:
        why += f"; their days may differ by {percent(student(1 - ERROR_RATE, spread.freedom) * math.sqrt(of_days))}"
        why += "; runs of the same days decide" if result is Relation.INCONCLUSIVE else ""
    return Difference(result, why, change=relative, interval=(low, high))


def _weight(old: Sequence[Hashable], new: Sequence[Hashable]) -> float:
    """Return the sum of the squares of the differences of the weights of each day (or session) in both means."""
    a, b = Counter(old), Counter(new)
    return math.fsum((a[one] / len(old) - b[one] / len(new)) ** 2 for one in {*a, *b})


# The prior: the standard deviation between days, and the degrees of freedom that it is worth. Public results of one
# board and NIC differ from source to source and run to run by 0.2 to 1.7 % (941 to 943 Mbit/s of a CM4, 0.3 % of a
# Pi 5 with a 5 Gbit/s NIC, 1 % of a CM4 receiving both ways, 0.7 % on a busy host, 1.7 % through a switch). The root
# of the mean square is 0.8 to 0.9 %. The worth was chosen by simulation: with more, two unlike days are trusted too
# much; with less, a quiet link needs a second day to find 5 %.
PRIOR_SD = 0.008
PRIOR_WORTH = 8.0
# Days that differ by more than the prior count as they are, and the prior then counts less.
PRIOR_WORTH_WHEN_WRONG = 3.0
# From so many days on, their own differences replace every other guess about days.
ENOUGH_DAYS = 3
# With more days, the prior no longer matters.
MOST_DAYS = 30
# Of a tolerance, this share lies between the limit and the slowdown that may certainly pass: 2 of 3 %.
ZONE_SHARE = 2 / 3


@dataclass(frozen=True)
class DaySpread:
    """The relative variances of an unchanged link between days, sessions of one day, and runs of one session.

    ``freedom`` is that of ``days``, with the prior. ``session_freedom`` is that of ``sessions``. ``seen`` counts the
    days that the baseline is known to span, at least 1; ``session_count`` and ``run_count`` count sessions and runs.
    ``dated``: the baseline says on which day each run was made.
    """

    days: float
    freedom: float
    sessions: float
    session_freedom: float
    runs: float
    seen: int
    session_count: int
    run_count: int
    dated: bool = True

    @property
    def run_freedom(self) -> int:
        """The degrees of freedom of ``runs``."""
        return self.run_count - self.session_count

    @property
    def variance(self) -> float:
        """The variance of the difference between a session of another day and the mean of the baseline."""
        return self._parts(self.seen)[0] + self._parts(self.seen)[1] + self.runs / self.run_count

    @property
    def variance_freedom(self) -> float:
        """The degrees of freedom of `variance` (Satterthwaite 1946)."""
        days, sessions = self._parts(self.seen)
        return (days + sessions) ** 2 / (days**2 / self.freedom + sessions**2 / self.session_freedom)

    def _parts(self, days: int) -> tuple[float, float]:
        sessions = max(self.session_count, days)
        return self.days * (1 + 1 / days), self.sessions * (1 + 1 / sessions)

    def after(self, days: int) -> DaySpread:
        """Return the spread with a baseline of so many days that differ as these do."""
        each = self.run_count / self.seen
        return replace(
            self,
            freedom=self.freedom + days - self.seen,
            seen=days,
            session_count=max(self.session_count, days),
            run_count=max(round(each * days), self.run_count),
        )

    def missing(self, is_enough: Callable[[DaySpread], bool]) -> int | None:
        """Return how many more days are enough; None: no number of days is."""
        days = range(self.seen, MOST_DAYS + 1)
        return next((count - self.seen for count in days if is_enough(self.after(count))), None)

    def bound(self, error_rate: float) -> float:
        """Return by how much today may differ from the baseline if nothing changed."""
        return lasting_bound(self.variance_freedom, error_rate) * math.sqrt(self.variance)

    def text(self, error_rate: float) -> str:
        """Return ``baseline of 2 days, assumes days differ by less than 3.1 %``."""
        days = f"{self.seen} day{'' if self.seen == 1 else 's'}"
        differ = percent(self.bound(error_rate))
        if not self.dated:
            days = f"unknown days (counts as {days}; accept a new one with 'pinet accept')"
        # While the prior counts for more than the days that were seen.
        if self.seen - 1 < PRIOR_WORTH:
            return f"baseline of {days}, assumes days differ by less than {differ}"
        return f"baseline of {days}, which allow a difference of {differ}"


def day_spread(baseline: Baseline, noise: Noise = UNKNOWN) -> DaySpread:
    """Return how an unchanged link may differ from this baseline. ``noise`` is what a calibration measured.

    Runs without a known day count as one day. The components are moments of the nested groups (Searle, Variance
    Components, 3.6); the one between days is pooled with the prior, the one between sessions with the calibration.
    """
    days = _grouped(baseline)
    sessions = [session for day in days for session in day]
    runs = [run for session in sessions for run in session]
    of_runs, _ = _pooled(sessions)
    each_runs = _usual([len(session) for session in sessions])
    # Means of sessions also contain the noise of their runs.
    means = [[fmean(session) for session in day] for day in days]
    of_means, freedom = _pooled(means)
    seen = max(of_means - of_runs / each_runs, 0.0)
    known, worth = (noise.sessions**2, noise.session_freedom or noise.freedom) if not noise.assumed else (0.0, 0.0)
    prior, prior_worth = (known, max(worth, 1.0)) if worth else (UNKNOWN.sessions**2, UNKNOWN.freedom)
    of_sessions = (prior_worth * prior + freedom * seen) / (prior_worth + freedom)
    if freedom > 1:
        of_sessions = max(of_sessions, seen)
    if not freedom and not worth:
        # One session on each day: the two cannot be separated.
        of_sessions = 0.0
    each_sessions = _usual([len(day) for day in days])
    day_means = [fmean(day) for day in means]
    below = of_sessions / each_sessions + of_runs / (each_runs * each_sessions)
    of_days, days_freedom = _of_days(day_means, below)
    session_freedom = max(prior_worth + freedom, 1.0)
    counts = len(days), len(sessions), len(runs)
    return DaySpread(of_days, days_freedom, of_sessions, session_freedom, of_runs, *counts, dated=all(baseline.days))


def _of_days(means: Sequence[float], below: float) -> tuple[float, float]:
    """Return the variance between days and its degrees of freedom. ``below`` is what runs and sessions explain.

    The noise of runs hides the days: what is seen of them counts by the square of their part in what is seen.
    """
    more = len(means) - 1
    if not more:
        return PRIOR_SD**2, PRIOR_WORTH
    middle = fmean(means)
    seen = max(math.fsum((one - middle) ** 2 for one in means) / more - below, 0.0)
    expected = max(seen, PRIOR_SD**2)
    part = expected / (expected + below)
    worth = more * part**2
    pooled = (PRIOR_WORTH * PRIOR_SD**2 + worth * seen) / (PRIOR_WORTH + worth)
    if seen > pooled:
        return part * seen + (1 - part) * pooled, worth + PRIOR_WORTH_WHEN_WRONG + (1 - part) * PRIOR_WORTH
    return pooled, worth + PRIOR_WORTH


def _grouped(baseline: Baseline) -> list[list[list[float]]]:
    """Return the logarithms of the runs by day and session."""
    days: dict[str, dict[str, list[float]]] = {}
    for place, run in baseline.placed:
        days.setdefault(place.day, {}).setdefault(place.session, []).append(math.log(run.bps))
    return [list(sessions.values()) for sessions in days.values()]


def _pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the variance within groups, and its degrees of freedom; 0 if no group has two values."""
    freedom = sum(len(group) - 1 for group in groups)
    return math.fsum((one - fmean(group)) ** 2 for group in groups for one in group) / max(freedom, 1), freedom


def _usual(sizes: Sequence[int]) -> float:
    """Return the harmonic mean of sizes: the mean of groups has the variance of one value over it."""
    return len(sizes) / math.fsum(1 / size for size in sizes)


def against_baseline(noise: Noise, spread: DaySpread) -> Noise:
    """Return the noise of a value that is judged by this baseline: days and the baseline's own error count, too."""
    if spread.runs > noise.connections**2 and spread.run_freedom:
        # The connections of the baseline differed by more than is known or assumed.
        noise = replace(noise, connections=math.sqrt(spread.runs), freedom=float(spread.run_freedom))
    return replace(
        noise,
        sessions=math.sqrt(spread.variance),
        links=0.0,
        session_freedom=spread.variance_freedom,
        days_known=spread.seen >= ENOUGH_DAYS,
    )


def days_for_tolerance(baseline: Baseline, tolerance: Tolerance) -> int | None:
    """Return how many more days this baseline needs for gates with this tolerance; None: no number of days is enough.

    Nine of ten gates of an unchanged link must reach a verdict. Levels of connections do not count, since each run of a
    gate shows both; of days and boots it shows one.
    """
    levels = two_levels(baseline)
    spread = day_spread(levels.without(baseline) if levels and levels.unit is Unit.CONNECTION else baseline)
    limit = tolerance.lowest(baseline.figure)
    if not 0 < limit.bps < baseline.figure.bps:
        return 0
    margin, zone = -math.log(limit.bps / baseline.figure.bps), zone_of(limit, baseline.figure)
    return spread.missing(lambda then: then.bound(ERROR_RATE) - zone + NINE_OF_TEN * math.sqrt(then.variance) <= margin)


def zone_of(limit: Bitrate, figure: Bitrate) -> float:
    """Return half the distance between a slowdown that may pass and one that must be found, for this limit."""
    if not 0 < limit.bps < figure.bps:
        return HALF_ZONE
    return min(HALF_ZONE, ZONE_SHARE * -math.log(limit.bps / figure.bps))


def missing_days(
    spread: DaySpread, margin: float, error_rate: float, zone: float = HALF_ZONE, of_mean: float = 0.0
) -> int | None:
    """Return how many more days make a distance ``margin`` from the limit certain; None: no number of days does.

    ``of_mean`` is the standard deviation of the mean of today's connections, which more days do not reduce.
    """
    scatter = normal(1 - error_rate) * of_mean
    return spread.missing(lambda then: math.hypot(then.bound(error_rate), scatter) - zone <= abs(margin))
