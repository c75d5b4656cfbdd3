"""Decide when traffic may stop: a sequential test over connections that ends with pass, fail or inconclusive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, linear_regression
from typing import NamedTuple

from pytest_pinet.judge.baseline import EARLIER_S, Counterpart, Course
from pytest_pinet.judge.circumstances import disturbed
from pytest_pinet.judge.level import Level, flags, read
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.spread import FEW, FLOOR, NINE_OF_TEN, Noise, Spread, spread_of
from pytest_pinet.judge.starts import next_seconds, shows_level, start_of
from pytest_pinet.judge.statistics import (
    HALF_ZONE,
    chi_square,
    counted,
    lasting_bound,
    normal,
    percent,
    student,
    variance,
)
from pytest_pinet.judge.two_levels import TwoLevels, Unit, explanations, is_other_share, split
from pytest_pinet.judge.words import GOODPUT, Words, words_of
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.measurement import EventKind
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

ERROR_RATE = 0.01
# Ratios to the limit are clipped at this factor in both directions, so that the logarithm of 0 is defined.
FARTHEST = 1000.0
# A regression needs this share of the connections below the limit. Of many connections, one standard deviation of their
# number more than half is enough: a few very low ones are no regression.
MOST_BELOW = 2 / 3
# If a larger share of the connections is disturbed, the result cannot pass.
MOST_DISTURBED = 1 / 3
# Disturbances of a smaller share of a connection's time do not count here: one dip in a minute is no dip in 3 seconds.
LITTLE = 0.01
# A stall of so many seconds is a standstill (the kernel's watchdog of transmit queues waits as long). One may be an
# accident of the lab. The second one fails, however much arrived before and afterwards.
STANDSTILL_S = 5.0
STANDSTILLS = 2


@dataclass(frozen=True)
class Decision:
    """Whether to stop, and why. ``outcome`` is PASS, FAIL or INCONCLUSIVE; None requires another connection.

    ``ratio`` is goodput over limit, the mean of all counted connections, and ``interval`` its interval at the set error
    rate (None before the first connection). ``why`` is one sentence. ``next_fresh`` is what must be fresh for the next
    connection. ``connections``, ``below`` and ``disturbed`` count the connections with a value, with a value below the
    limit, and with a dip or an event. ``seconds`` is all traffic so far. ``noise`` is the relative standard deviation
    between connections that was used. ``carries`` is the least margin that can be judged with this noise and the whole
    budget (see `smallest_margin`). ``flagged`` has a sentence for each disturbance of the traffic; a pass with it
    becomes marginal. ``start_s`` is the longest slow start, 0 without one. ``next_s`` is the length (s) of the next
    connection if it must be longer than usual, else 0. ``levels`` says in words on which levels the connections fell;
    ``other_share``: not in the shares of the baseline; ``ambiguous``: an unchanged link explains the
    values as well as a slower one. ``moved`` is the relative difference of later connections than the baseline has from
    the earlier ones, 0 if it may be chance.
    """

    outcome: Verdict | None
    why: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    next_fresh: Fresh = Fresh.CONNECTION
    connections: int = 0
    below: int = 0
    disturbed: int = 0
    seconds: float = 0.0
    noise: float | None = None
    carries: float | None = None
    flagged: tuple[str, ...] = ()
    start_s: float = 0.0
    next_s: int = 0
    levels: str = ""
    other_share: bool = False
    ambiguous: bool = False
    moved: float = 0.0


@dataclass(frozen=True)
class Against:
    """What an accepted baseline says about a run that is judged by it.

    ``zone`` is half the distance (in logarithms) between a slowdown that may pass and one that must be found.
    ``levels`` are given for a link whose connections, boots or days fall on two levels: then every plausible
    explanation of the values must give the same verdict. ``course`` says how its connections differ with their place.
    ``figure`` is what is judged, None for goodput; without a baseline, only this is known.
    """

    zone: float = HALF_ZONE
    levels: TwoLevels | None = None
    course: Course = field(default_factory=Course)
    figure: Figure | None = None

    @property
    def words(self) -> Words:
        return GOODPUT if self.figure is None else words_of(self.figure)

    def show(self, bps: float) -> str:
        """Write a level."""
        return str(Bitrate(bps)) if self.figure is None else self.figure.show(self.figure.of_rate(bps))


class _Like(NamedTuple):
    """A connection with a value: the values as they would be at the first place of the baseline.

    ``after_link``: the run took the link down and up before it.
    """

    connection: Connection
    reading: Level
    there: Counterpart
    after_link: bool


@dataclass(frozen=True)
class _Standing:
    """All connections with a value, compared with the limit; ``undisturbed`` is the sum without disturbed ones.

    ``plausible`` has one spread for each plausible explanation, several only for a link with two levels. ``one_draw``:
    all connections of this run share their level, so that more traffic adds no knowledge of levels. ``early`` is the
    sum of the connections that have a counterpart in the baseline.
    """

    level: Spread
    mean: Spread
    plausible: tuple[Spread, ...]
    undisturbed: float
    below: int
    disturbed: int
    outlasted: bool
    early: float
    one_draw: bool = False

    @property
    def n(self) -> int:
        return self.level.n

    @property
    def ambiguous(self) -> bool:
        return len({one.mean > 0 for one in self.plausible}) > 1

    @property
    def mostly_below(self) -> bool:
        return self.below >= min(MOST_BELOW * self.n, (self.n + math.sqrt(self.n)) / 2)

    def _least(self, asked: int, more: int) -> int:
        """Return the fewest connections for a verdict, as far as the budget allows: it has ``more`` left."""
        return max(asked, min(self.level.least, self.n + more))

    def passes(self, error_rate: float, profile: Profile, more: int) -> bool:
        certain = all(one.mean > _needed(one, error_rate, more) for one in self.plausible) and self.undisturbed > 0
        return (
            self.n >= self._least(profile.passes_after, more) and certain and self.disturbed <= MOST_DISTURBED * self.n
        )

    def fails(self, error_rate: float, profile: Profile, more: int) -> bool:
        certain = all(one.mean < -_needed(one, error_rate, more) for one in self.plausible)
        # With two levels, the means of few connections say little about the long run.
        certain = certain or (len(self.plausible) == 1 and self.mean.mean < -_needed(self.mean, error_rate, more))
        return self.n >= self._least(profile.fails_after, more) and certain and self.mostly_below and self.outlasted

    def is_hopeless(self, more: int, error_rate: float, noise: Noise, profile: Profile) -> bool:
        """Return whether even the rest of the budget cannot make the result certain.

        False with too few connections to know the noise.
        """
        if self.n < max(profile.fails_after, min(self.level.least, self.n + more)):
            # An undecided run becomes part of a later baseline, which needs the same connections to know its level.
            return False
        reach = [abs(s.mean) + NINE_OF_TEN * math.sqrt(s.between / s.n) for s in (self.level, self.mean)]
        farthest = max(*reach, *(abs(one.mean) for one in self.plausible))
        if self.one_draw and self.ambiguous:
            return True
        if farthest < self.level.needed_at_best(error_rate):
            # However quiet the connections are: the days of the baseline allow no verdict.
            return True
        if (noise.freedom < FEW and self.n < FEW) or len(self.plausible) > 1:
            return False
        # Assume the lowest noise that is plausible after what was seen.
        freedom = noise.freedom + self.n - 1
        least = chi_square(0.1, freedom) / freedom
        return all(
            far < s.needed_at_last(error_rate, s.n + more, least)
            for far, s in zip(reach, (self.level, self.mean), strict=True)
        )


def _needed(spread: Spread, error_rate: float, more: int) -> float:
    return spread.needed(error_rate) if more else spread.needed_at_last(error_rate)


def decide(
    connections: Sequence[Connection],
    limit: Bitrate,
    noise: Noise,
    profile: Profile,
    error_rate: float = ERROR_RATE,
    fresh_link: bool = False,
    against: Against = Against(),
) -> Decision:
    """Judge all connections of one direction by its limit, each beside the baseline's connection at the same place.

    The test is a sequential likelihood ratio test on the logarithms of value over limit (see `likelihood`). It passes
    if the levels are certainly above the limit, the means of undisturbed connections are above it, too, and at most one
    connection in three was disturbed. It fails if levels or means are certainly below, and most connections lie below.
    With ``fresh_link`` (the caller can take the link down and up), the connections since a fresh link-up must lie below
    on average, too. Apart from that, the order of connections matters only if later ones than the baseline has
    certainly differ from the earlier ones: such a run does not pass, and fails only if the earlier ones are too low.
    Connections before all of the baseline's may let a run pass, and never fail.
    Traffic that stands still repeatedly fails in any case.

    It is inconclusive if the budget is spent, or if the rest of the budget could not make the result certain. Raises
    ValueError for a limit that is not above 0 and finite, and for an error rate outside 0 to 0.5.
    """
    if not (math.isfinite(limit.bps) and limit.bps > 0):
        raise ValueError(f"a limit of {limit.bps} bit/s cannot be judged; expected a finite rate above 0")
    if not 0 < error_rate < 0.5:
        raise ValueError(f"{error_rate} is no error rate of a gate; expected more than 0 and less than 0.5")
    starts = [start_of(one) for one in connections]
    shown = [one for one, shows in zip(connections, shows_level(starts), strict=True) if shows and read(one)]
    alike = _alike(shown, against.course)
    restless = bool(shown) and against.course.restless and all(one.number == 1 for one in shown)
    usable = [one for one in alike if not one.there.before]
    spent = math.fsum(one.traffic_seconds for one in connections)
    start_s = max((one.slow_s for one in starts), default=0.0)
    next_s = next_seconds(starts, profile.connection_s)
    more = profile.more(spent, next_s)
    # Connections that end at once use no budget, so their number ends the test, too.
    broken = sum(read(one) is None and one.traffic_seconds < profile.connection_s / 2 for one in connections)
    over = more < 1 or broken >= 2 * profile.fails_after
    flagged = tuple(sorted(flag for one in connections for flag in flags(one)))
    start = Decision(None, "", seconds=spent, flagged=flagged, start_s=start_s, next_s=next_s)
    stood = _standstills(shown)

    def of(own: Sequence[_Like]) -> Decision:
        standing = _stand(own, limit, noise, fresh_link, against.zone)
        if against.levels is None:
            on_levels, other_share = _fresh_levels(own, against)
        else:
            standing, on_levels, other_share = _on_levels(standing, own, limit, against.levels, error_rate, against)
        moved = 0.0 if on_levels else _moved(own, error_rate)
        known = replace(
            start,
            ratio=math.exp(standing.mean.mean),
            interval=_interval(standing, error_rate),
            connections=standing.n,
            below=standing.below,
            disturbed=standing.disturbed,
            noise=math.sqrt(standing.level.between),
            carries=standing.level.margin_after(standing.n + more, error_rate),
            levels=on_levels,
            other_share=other_share,
            ambiguous=standing.ambiguous,
            moved=moved,
        )
        if len(stood) >= STANDSTILLS:
            why = f"the traffic stood still {len(stood)} times, for up to {max(stood):.1f} s"
            return replace(known, outcome=Verdict.FAIL, why=why)
        if not moved and not restless and standing.passes(error_rate, profile, more):
            return _explained(replace(known, outcome=Verdict.PASS), against.words)
        if (not moved or standing.early < 0) and standing.fails(error_rate, profile, more):
            return _explained(replace(known, outcome=Verdict.FAIL), against.words)
        lasting = moved and standing.n >= 2 * profile.fails_after
        if over or lasting or standing.is_hopeless(more, error_rate, noise, profile):
            undecided = replace(known, outcome=Verdict.INCONCLUSIVE)
            return _explained(undecided, against.words, too_few=standing.n < profile.fails_after)
        suspect = standing.n >= profile.fails_after - 1 and standing.mostly_below
        had_link = any(one.fresh is not Fresh.CONNECTION for one in shown)
        fresh = Fresh.LINK if suspect and not had_link else Fresh.CONNECTION
        return _explained(replace(known, next_fresh=fresh), against.words)

    # Earlier connections than the baseline has may be lower: a link passes with them, but their level makes none fail.
    if len(usable) < len(alike) and ((found := of(alike)).outcome is Verdict.PASS or len(stood) >= STANDSTILLS):
        return found
    if usable:
        return of(usable)
    why = f"none of {len(connections)} attempts gave a value" if connections else "nothing was measured yet"
    if not all(one.ended for one in starts):
        why = f"{why}: the start lasted longer than the connections"
    elif restless:
        why = "only first connections of link-ups were measured, which say little on this link: see its baseline"
    elif shown:
        last = shown[-1]
        had_s = (last.traffic_before_s or 0.0) + last.traffic_seconds
        earlier_s = against.course.earlier_s((last.number or 0) + 1, had_s)
        least_s = earlier_s - EARLIER_S if against.course.is_flat else earlier_s
        over = over or least_s > more * max(profile.connection_s, next_s)
        why = (
            f"nothing can be compared: the baseline was measured after {had_s + earlier_s:.0f} s of other traffic, this"
            f" run after {had_s:.0f} s; run the tests before this one, too, or accept runs of this test alone"
        )
    return replace(start, outcome=Verdict.INCONCLUSIVE if over else None, why=why)


def _standstills(connections: Sequence[Connection]) -> list[float]:
    """Return the lengths of long stalls (s). A stall beside other work on an end does not count."""
    stalls = [e for one in connections if not disturbed(one) for e in one.events if e.kind is EventKind.STALL]
    return [event.seconds for event in stalls if event.seconds >= STANDSTILL_S]


def _interval(standing: _Standing, error_rate: float) -> tuple[float, float]:
    """Return the interval of value over limit; it covers every plausible explanation."""
    each = standing.plausible if len(standing.plausible) > 1 else (standing.mean,)
    halves = [_half(one, error_rate) for one in each]
    low = min(one.mean - half for one, half in zip(each, halves, strict=True))
    return math.exp(low), math.exp(max(one.mean + half for one, half in zip(each, halves, strict=True)))


def _half(spread: Spread, error_rate: float) -> float:
    """Return half the interval of the mean at this error rate."""
    between = normal(1 - error_rate) ** 2 * spread.between / spread.n
    freedom = spread.level_freedom
    lasting = normal(1 - error_rate) if freedom is None else lasting_bound(freedom, error_rate)
    return math.sqrt(between + lasting**2 * spread.level)


def _alike(connections: Sequence[Connection], course: Course) -> list[_Like]:
    """Return the connections that have a counterpart in the baseline, without restless ones if there are others."""
    calm = course.restless and any(one.number != 1 for one in connections)
    found, after_link = [], False
    for one in connections:
        after_link = after_link or one.fresh is not Fresh.CONNECTION
        reading, there = read(one), course.counterpart(one.number, one.traffic_before_s)
        if reading and there and not (calm and one.number == 1):
            by = math.exp(-there.above)
            own = reading._replace(mean=reading.mean * by, level=reading.level * by)
            found.append(_Like(one, own, there, after_link))
    return found


def _moved(usable: Sequence[_Like], error_rate: float) -> float:
    """Return by how much the run certainly rises or falls; 0 if it may be chance, or the baseline has all its places.

    Connections beyond these places may differ from the others, or all may follow a line. Only their own noise counts.
    """
    n, late = len(usable), [float(one.there.beyond) for one in usable]
    if n < 4 or not any(late):
        return 0.0
    values = _levels_of(usable)
    found = []
    for places in (late, [float(at) for at in range(n)]):
        squares = variance(places) * (n - 1)
        if not squares:
            continue
        slope, start = linear_regression(places, values)
        left = math.fsum((one - start - slope * at) ** 2 for at, one in zip(places, values, strict=True))
        sd = math.sqrt(max(left / (n - 2), FLOOR**2) / squares)
        if abs(slope) > student(1 - error_rate / 4, n - 2) * sd:
            found.append(math.expm1(slope * (max(places) - min(places))))
    return max(found, key=abs, default=0.0)


def _stand(usable: Sequence[_Like], limit: Bitrate, noise: Noise, fresh_link: bool, zone: float) -> _Standing:
    readings = [one.reading for one in usable]
    shared = noise.level_variance([one.connection.fresh for one in usable])
    level = spread_of([_log(r.level, limit) for r in readings], [r.own for r in readings], noise, shared, zone)
    means = [_log(r.mean, limit) for r in readings]
    # A single connection on the fresh link-up may be high by chance, so all connections since then count.
    again = math.fsum(mean for mean, one in zip(means, usable, strict=True) if one.after_link)
    disturbances = [r.disturbed and not _is_little(one.connection, r) for one, r in zip(usable, readings, strict=True)]
    return _Standing(
        level=level,
        plausible=(level,),
        # Short disturbances of the means say nothing about other days, so the level's variance between sessions is
        # used.
        mean=replace(spread_of(means, [r.own_mean for r in readings], noise, shared, zone), level=level.level),
        undisturbed=math.fsum(mean for mean, bad in zip(means, disturbances, strict=True) if not bad),
        below=sum(mean < 0 for mean in means),
        disturbed=sum(disturbances),
        outlasted=not fresh_link or again < 0,
        early=math.fsum(mean for mean, one in zip(means, usable, strict=True) if not one.there.beyond),
    )


def _on_levels(
    standing: _Standing,
    usable: Sequence[_Like],
    limit: Bitrate,
    levels: TwoLevels,
    error_rate: float,
    against: Against,
) -> tuple[_Standing, str, bool]:
    """Return the standing of connections of a link with two levels, and what `Decision` says of the levels."""
    own, bound, values = standing.level, math.log(limit.bps), _levels_of(usable)
    found = explanations(values, levels, error_rate)
    each = levels.unit is Unit.CONNECTION or levels.shows_both(values, found[0])
    if not each:
        found = explanations([fmean(values)], levels, error_rate)
    freedom = levels.count - 2 + own.n - 1 if each else own.freedom
    plausible = tuple(
        replace(
            own,
            mean=levels.middle + one.change - bound,
            # The spread of the days or boots of a level is part of what is known about days and boots.
            between=max(own.n * one.variance, FLOOR**2) if each else own.between,
            freedom=freedom,
        )
        for one in found
    )
    # Of explanations that a single value cannot tell apart, the text has that of a link that changed least.
    best = found[0] if each else min(found, key=lambda one: abs(one.shift))
    low, high = (against.show(math.exp(level + best.shift)) for level in (levels.low, levels.high))
    unit, of = (Unit.CONNECTION, own.n) if each else (levels.unit, 1)
    text = (
        f"{unit} on two levels, {low} and {high}: {best.lower} of {of} on the {against.words.ends[0]} one, "
        f"{levels.lower} of {levels.count} in the baseline"
    )
    found_standing = replace(
        standing,
        level=plausible[0],
        mean=plausible[0],
        plausible=plausible,
        one_draw=not each and (levels.proven or levels.misses_one(own.n, best.lower > 0)),
        undisturbed=plausible[0].mean if standing.undisturbed or not standing.disturbed else 0.0,
        below=own.n if plausible[0].mean < 0 else 0,
        outlasted=standing.outlasted or (plausible[0].mean < 0 and any(one.after_link for one in usable)),
    )
    return found_standing, text, is_other_share(best.lower, of, levels, error_rate)


def _fresh_levels(usable: Sequence[_Like], against: Against) -> tuple[str, bool]:
    """Say on which levels the connections of this run fall although its baseline has one level or is missing."""
    found = split(_levels_of(usable), Unit.CONNECTION)
    if found is None:
        return "", False
    low, high = (against.show(math.exp(level)) for level in (found.low, found.high))
    share = f"{found.lower} of {found.count} on the {against.words.ends[0]} one"
    return f"connections on two levels, {low} and {high}: {share}", True


def _levels_of(usable: Sequence[_Like]) -> list[float]:
    return [math.log(max(one.reading.level, 1.0)) for one in usable]


def _is_little(one: Connection, reading: Level) -> bool:
    """Return whether all disturbances of a connection together are short for its length."""
    events = math.fsum(e.seconds for e in one.events if e.kind is not EventKind.SLOW_START)
    lost_s = max(events, math.fsum(dip.seconds for dip in reading.dips))
    return lost_s < LITTLE * one.traffic_seconds


def _log(bps: float, limit: Bitrate) -> float:
    """Return the logarithm of value over limit, rounded so that scaling both gives the same result."""
    return round(math.log(min(max(bps / limit.bps, 1 / FARTHEST), FARTHEST)), 12)


def _explained(known: Decision, words: Words, too_few: bool = False) -> Decision:
    """Return the decision with ``why`` filled in. ``too_few`` connections gave a value for a certain failure."""
    assert known.ratio is not None
    assert known.noise is not None
    where, noise = words.place(known.ratio), percent(known.noise)
    odd = f"; {counted(known.disturbed, known.connections)} had disturbances" if known.disturbed else ""
    odd += f"; {known.levels}" if known.levels else ""
    odd += f"; slow starts of up to {known.start_s:.1f} s do not count" if known.start_s else ""
    if known.outcome is Verdict.PASS:
        why = f"certain after {counted(known.connections)} ({known.seconds:.0f} s): {where}, noise {noise}{odd}"
    elif known.outcome is Verdict.FAIL:
        below = counted(known.below, known.connections)
        average = f"{where} on average, noise {noise}{odd}"
        why = f"{words.missed} the limit in {below} ({known.seconds:.0f} s): {average}"
    elif known.outcome is Verdict.INCONCLUSIVE:
        after = f"{counted(known.connections)}, {known.seconds:.0f} s of traffic"
        why = f"undecided after {after}: {_obstacle(known, words, too_few)}"
    else:
        why = f"not certain yet after {counted(known.connections)} ({known.seconds:.0f} s): {where}, noise {noise}{odd}"
    return replace(known, why=why)


def _obstacle(known: Decision, words: Words, too_few: bool) -> str:
    assert known.ratio is not None
    assert known.noise is not None
    assert known.carries is not None
    if known.disturbed > MOST_DISTURBED * known.connections:
        return f"{counted(known.disturbed, known.connections)} had disturbances, such as: {known.flagged[0]}"
    if known.moved:
        moved = words.change(known.moved)
        moves = f"{'rise' if moved > 0 else 'fall'} by {percent(moved)}"
        more = "no connection of the baseline came so late; runs without a limit have more connections"
        return f"the values {moves} with the traffic, and {more}"
    if known.ambiguous:
        low, high = words.ends
        other = f"a {words.worse} one on its {high} level"
        return f"an unchanged link on its {low} level explains the values as well as {other}"
    if too_few and known.ratio < 1:
        return "too few connections gave a value, and there is no time for more"
    possible = f"the smallest margin that this noise allows is {percent(words.change(known.carries))}"
    if known.carries >= 1:
        possible = "this noise allows no margin"
    margin = percent(words.change(known.ratio - 1))
    return f"noise {percent(known.noise)} between connections is too much for the margin {margin}; {possible}"
