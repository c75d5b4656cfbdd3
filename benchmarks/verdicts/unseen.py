"""Links whose author had not read the judge, and on which no constant of the judge was chosen.

They stop being unseen as soon as a developer changes the judge because of them: write new ones then.

The first group has days that differ by at most 0.8 % (standard deviation). The links of the second group have larger
differences between days or boots, so they ask for a baseline of eight days. Rates are in Mbit/s per 0.1 s.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from benchmarks.verdicts.links import Link, Session
from benchmarks.verdicts.recorded import STEP_S

# How much of the deviation of a day is left on the next one.
TIE = 0.5
# The rates of one connection: from its level in Mbit/s, its number of samples, and a source of random numbers.
Course = Callable[[float, int, random.Random], list[float]]


@dataclass(frozen=True)
class Unseen(Link):
    """A link with a course of rates in each connection.

    ``day`` is the standard deviation between days, ``connection`` that between connections (relative). A share
    ``rare`` of the connections, or of the sessions with ``rare_days``, is lower by ``depth``.
    """

    course: Course
    rate: float = 940.0
    day: float = 0.0
    connection: float = 0.0
    rare: float = 0.0
    depth: float = 0.0
    rare_days: bool = False

    def session(self, slower: float, source: random.Random) -> Session:
        level = self.rate * (1 - slower / 100) * math.exp(source.gauss(0, self.day))
        if self.rare_days and source.random() < self.rare:
            level *= 1 - self.depth
        return _UnseenSession(self, level, source)


class _UnseenSession(Session):
    def __init__(self, link: Unseen, level: float, source: random.Random) -> None:
        self.link, self.level, self.source = link, level, source

    def connection(self, seconds: int) -> list[float]:
        link, source = self.link, self.source
        level = self.level * math.exp(source.gauss(0, link.connection))
        if not link.rare_days and source.random() < link.rare:
            level *= 1 - link.depth
        return [max(0.0, rate) for rate in link.course(level, round(seconds / STEP_S), source)]


def sawtooth(level: float, count: int, source: random.Random) -> list[float]:
    """A window that halves its surplus now and then: rises linearly, falls at once."""
    rates, phase, period = [], source.random(), source.uniform(0.8, 2.5)
    for _ in range(count):
        rates.append(level * (0.94 + 0.12 * phase))
        phase += STEP_S / period
        if phase >= 1:
            phase, period = 0.0, source.uniform(0.8, 2.5)
    return rates


def coarse(level: float, count: int, source: random.Random) -> list[float]:
    """A receiver that counts in blocks of 256 KiB."""
    block = 256 * 1024 * 8 / 1e6 / STEP_S
    carried, rates = source.random() * block, []
    for _ in range(count):
        carried += level * (1 + source.gauss(0, 0.002))
        whole = math.floor(carried / block) * block
        rates.append(whole)
        carried -= whole
    return rates


def metronome(level: float, count: int, source: random.Random) -> list[float]:
    """Other work takes a third of one sample in each second."""
    offset = source.randrange(10)
    return [
        level * (0.67 if (index + offset) % 10 == 0 else 1.0) * (1 + source.gauss(0, 0.003)) for index in range(count)
    ]


def ceiling(level: float, count: int, source: random.Random) -> list[float]:
    """A hard ceiling with losses below it, exponentially distributed."""
    return [level * (1 - min(0.5, source.expovariate(1 / 0.01))) for _ in range(count)]


def gusts(level: float, count: int, source: random.Random) -> list[float]:
    """Two levels inside a connection, 6 % apart, each for 2.5 s on average."""
    high, rates = source.random() < 0.5, []
    for _ in range(count):
        if source.random() < STEP_S / 2.5:
            high = not high
        rates.append(level * (1.03 if high else 0.97) * (1 + source.gauss(0, 0.004)))
    return rates


def climb(level: float, count: int, source: random.Random) -> list[float]:
    """A start that approaches the level exponentially, with a time constant of 0.2 to 0.9 s."""
    constant = source.uniform(0.2, 0.9)
    return [
        level * (1 - math.exp(-(index + 1) * STEP_S / constant)) * (1 + source.gauss(0, 0.004))
        for index in range(count)
    ]


def air(level: float, count: int, source: random.Random) -> list[float]:
    """A radio link: 6 % from sample to sample, half of it remembered."""
    state, rates = source.gauss(0, 0.06), []
    for _ in range(count):
        state = 0.5 * state + source.gauss(0, 0.052)
        rates.append(level * (1 + state))
    return rates


def beat(level: float, count: int, source: random.Random) -> list[float]:
    """Two schedulers that beat against each other: 2 % with a period of 1.7 s, 1 % with one of 0.45 s."""
    first, second = source.uniform(0, 2 * math.pi), source.uniform(0, 2 * math.pi)
    return [
        level
        * (
            1
            + 0.02 * math.sin(first + 2 * math.pi * index * STEP_S / 1.7)
            + 0.01 * math.sin(second + 2 * math.pi * index * STEP_S / 0.45)
        )
        for index in range(count)
    ]


def plain(level: float, count: int, source: random.Random) -> list[float]:
    """White noise of 1 %."""
    return [level * (1 + source.gauss(0, 0.01)) for _ in range(count)]


@dataclass(frozen=True)
class Wandering(Link):
    """Days that wander about their mean: each has half of the deviation of the day before, plus something new.

    Sessions of one source are days that follow each other, so that a baseline holds neighbouring days.
    """

    step: float
    # The deviation of the last day of each source.
    last: WeakKeyDictionary[random.Random, float] = field(default_factory=WeakKeyDictionary, compare=False, repr=False)

    def session(self, slower: float, source: random.Random) -> Session:
        fresh = source.gauss(0, self.step)
        # The first day has the spread of all days (Box and Jenkins, Time Series Analysis, 3.2).
        self.last[source] = TIE * self.last[source] + fresh if source in self.last else fresh / math.sqrt(1 - TIE**2)
        return _UnseenSession(Unseen(plain), 940.0 * (1 - slower / 100) * math.exp(self.last[source]), source)


WITHIN_PRIOR: dict[str, Link] = {
    "sawtooth": Unseen(sawtooth, day=0.003, connection=0.002),
    "coarse counter": Unseen(coarse, rate=330.0, day=0.002),
    "metronome": Unseen(metronome, rate=94.1, day=0.004, connection=0.002),
    "ceiling": Unseen(ceiling, day=0.005, connection=0.003),
    "gusts": Unseen(gusts, rate=320.0, day=0.003, connection=0.003),
    "climb": Unseen(climb, day=0.004, connection=0.004),
    "radio": Unseen(air, rate=85.0, day=0.007, connection=0.01),
    "beat": Unseen(beat, rate=2350.0, day=0.006, connection=0.002),
    "one connection in eight": Unseen(plain, day=0.004, rare=0.125, depth=0.06),
    "wandering": Wandering(0.006),
}
EIGHT_DAYS: dict[str, Link] = {
    "days of 1.5 %": Unseen(plain, day=0.015, connection=0.003),
    "one day in four": Unseen(plain, day=0.003, connection=0.003, rare=0.25, depth=0.04, rare_days=True),
    "half of the days": Unseen(sawtooth, day=0.003, connection=0.002, rare=0.5, depth=0.08, rare_days=True),
    "wandering far": Wandering(0.012),
}
UNSEEN = {**WITHIN_PRIOR, **EIGHT_DAYS}
