"""When traffic may stop: a sequential test over connections, with pass, fail and inconclusive as its ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pytest_pinet.judge.decision import MOST_DISTURBED, Decision, Outcome, explained
from pytest_pinet.judge.likelihood import needed, required
from pytest_pinet.judge.margin import NINE_OF_TEN, margin_at
from pytest_pinet.judge.noise import Noise
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.quantiles import chi_square, normal
from pytest_pinet.judge.reading import Reading, read, traffic_seconds, unusable
from pytest_pinet.judge.spread import FEW, Spread, spread_of
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.quantities import Bitrate

__all__ = ["ERROR_RATE", "Decision", "Outcome", "decide"]

ERROR_RATE = 0.01
# Figures beyond this factor of the limit, either way, are all the same; the logarithm of nothing is no number.
FARTHEST = 1000.0
# Part of the connections that must lie below the limit before it is called a regression.
MOST_BELOW = 2 / 3


@dataclass(frozen=True)
class _Seen:
    """An attempt as the rule sees it: its reading (None: no figure), the seconds it took, and what it began with."""

    reading: Reading | None
    seconds: float
    fresh: Fresh
    remarks: tuple[str, ...]


# As `read`: the gate decides anew after each attempt, and asks of every number of them.
@lru_cache(maxsize=128)
def _seen(attempt: Attempt) -> _Seen:
    reading = read(attempt)
    if reading is None:
        remarks: tuple[str, ...] = (unusable(attempt),)
    else:
        # An event tells of the same moment, and better.
        remarks = tuple(event.text for event in attempt.events) or tuple(str(dip) for dip in reading.dips)
    return _Seen(reading, traffic_seconds(attempt), attempt.fresh, remarks)


@dataclass(frozen=True)
class _Standing:
    """Where all connections that gave a figure stand against the limit; ``undisturbed`` sums those without a dip."""

    level: Spread
    mean: Spread
    undisturbed: float
    below: int
    disturbed: int
    outlasted: bool

    @property
    def n(self) -> int:
        return self.level.n

    @property
    def mostly_below(self) -> bool:
        return self.below >= MOST_BELOW * self.n

    def _least(self, asked: int, more: int) -> int:
        """The fewest connections for a verdict, as far as the budget has them: ``more`` are left in it."""
        return max(asked, min(self.level.least, self.n + more))

    def passes(self, enough: float, profile: Profile, more: int) -> bool:
        certain = self.level.certainty > enough and self.undisturbed > 0
        return (
            self.n >= self._least(profile.passes_after, more) and certain and self.disturbed <= MOST_DISTURBED * self.n
        )

    def fails(self, enough: float, profile: Profile, more: int) -> bool:
        certain = min(self.level.certainty, self.mean.certainty) < -enough
        return self.n >= self._least(profile.fails_after, more) and certain and self.mostly_below and self.outlasted

    def is_hopeless(self, more: int, error_rate: float, noise: Noise, profile: Profile) -> bool:
        """Whether even the rest of the budget could not make the figures certain; only said when the noise is known."""
        if self.n < (FEW if noise.freedom < FEW else profile.fails_after):
            return False
        # Even if the noise is in truth at the low end of what it may be, after what was seen of it.
        freedom = noise.freedom + self.n - 1
        least = chi_square(0.1, freedom) / freedom
        return all(
            abs(s.mean) + NINE_OF_TEN * math.sqrt(s.between / s.n)
            < required(least * s.variance_after(s.n + more), s.freedom_after(s.n + more), error_rate)
            for s in (self.level, self.mean)
        )


def decide(
    attempts: Sequence[Attempt],
    limit: Bitrate,
    noise: Noise,
    profile: Profile,
    error_rate: float = ERROR_RATE,
    fresh_link: bool = False,
) -> Decision:
    """Judge all attempts of one direction against its limit; the order of attempts does not matter.

    A sequential likelihood ratio test on the logarithms of figure over limit (see `likelihood`). It passes when the
    levels are certainly above the limit, the means of undisturbed connections are above it too, and at most one
    connection in three was disturbed. It fails when levels or means are certainly below, two thirds of the connections
    lie below, and, with ``fresh_link`` (the caller can take the link down and up), one of those began with a fresh
    link-up. It ends as inconclusive when the budget is spent, or when what is left of it could not make the figures
    certain. Raises ValueError for a limit that is not more than 0 and finite, and for an error rate outside 0 to 0.5.
    """
    if not (math.isfinite(limit.bps) and limit.bps > 0):
        raise ValueError(f"a limit of {limit.bps} bit/s cannot be judged; expected a finite rate above 0")
    if not 0 < error_rate < 0.5:
        raise ValueError(f"an error rate of {error_rate} cannot be kept; expected more than 0 and less than 0.5")
    seen = [_seen(attempt) for attempt in attempts]
    usable = [one for one in seen if one.reading is not None]
    spent = math.fsum(one.seconds for one in seen)
    more = max(int((profile.budget_s - spent + 1e-6) / profile.connection_s), 0)
    # What fails at once costs no traffic; it must end, too.
    over = more < 1 or len(seen) - len(usable) >= 2 * profile.fails_after
    flagged = tuple(sorted(remark for one in seen for remark in one.remarks))
    if not usable:
        outcome = Outcome.INCONCLUSIVE if over else Outcome.GO_ON
        why = f"none of {len(seen)} attempts gave a figure" if seen else "nothing was measured yet"
        return Decision(outcome, why, seconds=spent, flagged=flagged)

    standing = _stand(usable, limit, noise, fresh_link)
    half = normal(1 - error_rate) * math.sqrt(standing.mean.variance)
    in_the_end = standing.n + more
    known = Decision(
        Outcome.GO_ON,
        "",
        ratio=math.exp(standing.mean.mean),
        low=math.exp(standing.mean.mean - half),
        high=math.exp(standing.mean.mean + half),
        connections=standing.n,
        below=standing.below,
        disturbed=standing.disturbed,
        seconds=spent,
        noise=math.sqrt(standing.level.between),
        carries=margin_at(
            standing.level.variance_after(in_the_end), standing.level.freedom_after(in_the_end), error_rate
        ),
        flagged=flagged,
    )
    enough = needed(error_rate)
    if standing.passes(enough, profile, more):
        return explained(replace(known, outcome=Outcome.PASS))
    if standing.fails(enough, profile, more):
        return explained(replace(known, outcome=Outcome.FAIL))
    if over or standing.is_hopeless(more, error_rate, noise, profile):
        return explained(replace(known, outcome=Outcome.INCONCLUSIVE))
    suspect = standing.n >= profile.fails_after - 1 and standing.mostly_below
    had_link = any(one.fresh is not Fresh.CONNECTION for one in usable)
    return explained(replace(known, next_fresh=Fresh.LINK if suspect and not had_link else Fresh.CONNECTION))


def _stand(usable: Sequence[_Seen], limit: Bitrate, noise: Noise, fresh_link: bool) -> _Standing:
    readings = [one.reading for one in usable if one.reading is not None]
    shared = noise.level_variance([one.fresh for one in usable])
    level = spread_of([_log(r.level, limit) for r in readings], [r.own for r in readings], noise, shared)
    means = [_log(r.mean, limit) for r in readings]
    again = [mean for mean, one in zip(means, usable, strict=True) if one.fresh is not Fresh.CONNECTION]
    return _Standing(
        level=level,
        # What a few bad moments do to the means says nothing about other days.
        mean=replace(spread_of(means, [r.own_mean for r in readings], noise, shared), level=level.level),
        undisturbed=math.fsum(mean for mean, r in zip(means, readings, strict=True) if not r.disturbed),
        below=sum(mean < 0 for mean in means),
        disturbed=sum(r.disturbed for r in readings),
        outlasted=not fresh_link or any(mean < 0 for mean in again),
    )


def _log(bps: float, limit: Bitrate) -> float:
    """Logarithm of figure over limit, rounded to what floating point leaves alone when both are scaled."""
    return round(math.log(min(max(bps / limit.bps, 1 / FARTHEST), FARTHEST)), 12)
