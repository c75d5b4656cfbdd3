"""The share of bad events, such as boots without a link: when it is certain, and whether build B has more than build A.

An event is good or bad, so a few values say little: a share needs tens of events. The test is Wald's sequential test
of two shares (1947). It compares "at most ``allowed`` of all events are bad" with "at least ``found``".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from pytest_pinet.judge.statistics import percent
from pytest_pinet.model.verdict import Verdict

# A test that is not certain after so many times the events of a clean pass is inconclusive.
MOST_TIMES = 3
# A share of 0 has no likelihood ratio.
_NONE = 0.001
# The shares at which Barnard's test searches the highest error rate.
_GRID = 50
# Turns of both builds alternate, and are looked at after each one. With this part of the error rate, at most 1 % of
# equal builds get FAIL (counted for 2 to 16 turns, with any share of bad ones).
OF_TURNS = 0.5
# More turns are made while so large a difference is so improbable by chance.
IN_DOUBT = 0.1
# A is measured only after B has failed, and the difference is looked at after each event of A. With this part of the
# error rate, at most 1 % of equal builds get FAIL (simulated, 0 to 15 % bad).
OF_THE_DIFFERENCE = 0.15


@dataclass(frozen=True)
class Events:
    """How many events were counted, and how many of them were bad."""

    count: int = 0
    bad: int = 0

    @classmethod
    def of(cls, bad: Iterable[bool]) -> Events:
        every = list(bad)
        return cls(len(every), sum(every))

    @property
    def share(self) -> float:
        return self.bad / self.count if self.count else 0.0

    def words(self, noun: str) -> str:
        """Return ``2 of 40 boots were bad (5.0 %)``; ``noun`` is the plural of the event."""
        return f"{self.bad} of {self.count} {noun} {'was' if self.bad == 1 else 'were'} bad ({percent(self.share)})"


@dataclass(frozen=True)
class ShareRule:
    """``allowed`` is the share of bad events that passes, ``found`` the share that must be found.

    ``missed`` is the error rate of a pass, ``false`` that of a failure. After ``most`` events without certainty, the
    result is inconclusive.
    """

    allowed: float
    found: float
    most: int
    missed: float = 0.01
    false: float = 0.01

    @classmethod
    def passing_after(cls, clean: int, allowed: float) -> ShareRule:
        """Return the rule that passes after ``clean`` good events without a bad one.

        If none may be bad, one in a thousand may. 33 events and 2 % find 15 %, 10 events find 38 %, 5 events find 61 %.
        """
        allowed = max(allowed, _NONE)
        found = 1 - (1 - allowed) * (cls.missed / (1 - cls.false)) ** (1 / clean)
        return cls(allowed, found, MOST_TIMES * clean)

    @property
    def least_good(self) -> int:
        """The number of events that passes if none of them is bad."""
        return self.most // MOST_TIMES

    def judge(self, seen: Events) -> Verdict | None:
        """Return PASS, FAIL or INCONCLUSIVE; None requires another event. The first verdict counts, so stop there."""
        bad = math.log(self.found / self.allowed)
        good = math.log((1 - self.found) / (1 - self.allowed))
        ratio = seen.bad * bad + (seen.count - seen.bad) * good
        # Rounding must not ask for one more event.
        if ratio >= math.log((1 - self.missed) / self.false) - 1e-9:
            return Verdict.FAIL
        if ratio <= math.log(self.missed / (1 - self.false)) + 1e-9:
            return Verdict.PASS
        return Verdict.INCONCLUSIVE if seen.count >= self.most else None

    @property
    def words(self) -> str:
        """Return what the rule decides, for a sentence."""
        return f"at most {percent(self.allowed)} may be bad, and a share of {percent(self.found)} is found"


def judge_builds(b: Events, a: Events, rule: ShareRule) -> Verdict | None:
    """Judge the events of build B; None requires another event: of B until B is certain, then of A (`wants_a`).

    FAIL needs three things: B has too many bad events, A passes, and the difference is certain (`barnard`). If both
    builds share one fault, B is not to blame, and the result is inconclusive.
    """
    of_b = rule.judge(b)
    if of_b is not Verdict.FAIL:
        return of_b
    of_a = rule.judge(a)
    if of_a is Verdict.PASS and barnard(a, b) <= OF_THE_DIFFERENCE * rule.false:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE if of_a is Verdict.FAIL or a.count >= rule.most else None


def wants_a(b: Events, rule: ShareRule) -> bool:
    """Return whether the next event must be one of build A: the events of B alone say that B is bad."""
    return rule.judge(b) is Verdict.FAIL


def judge_turns(b: Events, a: Events, false: float) -> Verdict | None:
    """Judge whether certainly more turns of B are bad than of A, which alternate (FAIL); None requires another turn."""
    chance = barnard(a, b) if b.bad else 1.0
    if chance <= OF_TURNS * false:
        return Verdict.FAIL
    return None if b.bad > 1 and chance <= IN_DOUBT else Verdict.PASS


@lru_cache(maxsize=1024)
def barnard(a: Events, b: Events) -> float:
    """Return how likely equal builds give a difference as this one, or a larger one, with more bad events in B.

    Barnard's exact test (1947), one-sided, with the pooled score as its order: the highest probability over all shares
    that both builds could have.
    """
    if not a.count or not b.count:
        return 1.0
    least = _score(a, b) - 1e-12
    # By the bad events of A: the fewest bad events of B that are as extreme. More of A need as many of B, or more.
    beyond: list[int] = []
    fewest = 0
    for of_a in range(a.count + 1):
        while fewest <= b.count and _score(Events(a.count, of_a), Events(b.count, fewest)) < least:
            fewest += 1
        beyond.append(fewest)
    ways_a, ways_b = ([math.comb(one.count, bad) for bad in range(one.count + 1)] for one in (a, b))
    return max(_extreme(step / _GRID, ways_a, ways_b, beyond) for step in range(1, _GRID))


def _extreme(share: float, of_a: Sequence[int], of_b: Sequence[int], beyond: Sequence[int]) -> float:
    from_b = [*reversed([*accumulate(reversed(_binomial(of_b, share)))]), 0.0]
    return math.fsum(one * from_b[beyond[bad]] for bad, one in enumerate(_binomial(of_a, share)))


def _binomial(ways: Sequence[int], share: float) -> list[float]:
    last = len(ways) - 1
    return [one * share**bad * (1 - share) ** (last - bad) for bad, one in enumerate(ways)]


def _score(a: Events, b: Events) -> float:
    """Return the difference of two shares, B minus A, in its standard errors."""
    pooled = (a.bad + b.bad) / (a.count + b.count)
    error = math.sqrt(pooled * (1 - pooled) * (1 / a.count + 1 / b.count))
    return (b.share - a.share) / error if error else 0.0
