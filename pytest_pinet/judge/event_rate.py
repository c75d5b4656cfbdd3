"""Judge rare events by their rate: what so many events in so many hours prove, and whether B has more than A.

Bounds are Poisson's. Both sequential tests (Wald 1947) compare a rate with three times this rate, at 1 % errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.judge.statistics import certainty_threshold
from pytest_pinet.model.verdict import Verdict

# Rates are per so many hours.
PER_H = 1000.0
RATIO = 3.0
ERROR_RATE = 0.01
# Of the bounds in sentences.
CERTAINTY = 0.95
# Events belong together until the board has recovered, and for so long afterwards.
QUIET_S = 600.0
# The boards of the example in a sentence, and the rate that it shows if no limit is given.
BOARDS = 24
USUAL_LIMIT = 1.0


@dataclass(frozen=True)
class Exposure:
    """How many events there were in so many hours."""

    events: int
    hours: float

    @property
    def highest(self) -> float:
        """The rate (per PER_H) that is exceeded with a probability of 5 %; infinite without hours."""
        return PER_H * most_expected(self.events) / self.hours if self.hours > 0 else math.inf


@dataclass(frozen=True)
class Event:
    """What happened to a board from ``start_s`` to ``end_s``, in a turn of the build ``side`` ("" without builds).

    ``kind`` is its name in sentences, ``text`` is what its first sign said.
    """

    start_s: float
    end_s: float
    kind: str
    text: str = ""
    node: str = ""
    side: str = ""


def merged(found: Iterable[Event], severity: Sequence[str]) -> list[Event]:
    """Return the events of one board: what begins before the board has recovered and was quiet is no new event.

    An event has the kind of its part that comes first in ``severity``.
    """
    events: list[Event] = []
    for one in sorted(found, key=lambda part: part.start_s):
        last = events[-1] if events else None
        if last is None or one.start_s > last.end_s + QUIET_S:
            events.append(one)
        else:
            worst = min(last, one, key=lambda part: severity.index(part.kind))
            events[-1] = replace(worst, start_s=last.start_s, end_s=max(last.end_s, one.end_s))
    return events


def most_expected(events: int) -> float:
    """Return the mean of the Poisson distribution that gives at most ``events`` with the probability 1 - CERTAINTY."""
    low, high = 0.0, 10.0 + 3.0 * events
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        terms = (math.exp(k * math.log(middle) - middle - math.lgamma(k + 1)) for k in range(events + 1))
        low, high = (middle, high) if math.fsum(terms) > 1 - CERTAINTY else (low, middle)
    return high


def judge_limit(found: Exposure, limit: float) -> Verdict:
    """Judge a rate against a limit (per PER_H): PASS if it is not three times the limit, FAIL if it is not the limit.

    Without an event it passes after 4,600 hours at a limit of 0.5.
    """
    likelihood = found.events * math.log(RATIO) - (RATIO - 1) * limit * found.hours / PER_H
    return _verdict(likelihood)


def judge_builds(a: Exposure, b: Exposure) -> Verdict:
    """Judge whether B has three times as many events in an hour as A (FAIL), or as many (PASS).

    Only the events count, each of one build (conditional binomial test), so that boards may differ as they like. Both
    builds must have run on each board alternately.
    """
    if a.hours <= 0 or b.hours <= 0:
        return Verdict.INCONCLUSIVE
    same = b.hours / (a.hours + b.hours)
    more = RATIO * b.hours / (a.hours + RATIO * b.hours)
    return _verdict(b.events * math.log(more / same) + a.events * math.log((1 - more) / (1 - same)))


def _verdict(likelihood: float) -> Verdict:
    """Return the verdict of a log likelihood ratio of "three times as many" to "as many"."""
    enough = certainty_threshold(ERROR_RATE)
    if abs(likelihood) < enough:
        return Verdict.INCONCLUSIVE
    return Verdict.FAIL if likelihood > 0 else Verdict.PASS


def sentence(found: Exposure, kind: str, limit: float | None = None, hours: str = "h") -> str:
    """Return what is known, such as "0 stalls in 40 h: below 75 per 1,000 h; to show < 1 per 1,000 h, ..."."""
    name = kind if found.events == 1 else f"{kind}s"
    if found.hours <= 0:
        return f"{found.events} {name}, and no hour was watched: nothing is known"
    text = f"{found.events} {name} in {shown(found.hours)} {hours}: "
    if found.events:
        text += f"{shown(found.events * PER_H / found.hours)} per 1,000 h, "
    text += f"below {shown(found.highest)} per 1,000 h"
    wanted = USUAL_LIMIT if limit is None else limit
    if not found.events and found.highest > wanted:
        days = most_expected(0) * PER_H / wanted / BOARDS / 24
        text += f"; to show < {wanted:g} per 1,000 h, watch {BOARDS} boards for {days:.{0 if days >= 1 else 1}f} days"
    return text


def shown(value: float) -> str:
    """Return a number with two digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"
