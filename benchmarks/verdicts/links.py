"""The links of the benchmark: recorded ones, and models of links that could not be recorded here."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache

from benchmarks.verdicts.recorded import STEP_S, Recording, nearest, recordings

RATE_MBPS = 940.0


class Link(ABC):
    """A link. It gives sessions; the connections of a session follow each other."""

    @abstractmethod
    def session(self, slower: float, source: random.Random) -> Session:
        """Return a session on the link, slower by ``slower`` percent (negative: faster)."""


class Session(ABC):
    """One session. Its connections share what is constant within a session.

    A session is a day of a baseline, with ``boots``; all connections of a gate are made in its first boot.
    """

    boots = 1

    def rebooted(self) -> Session:
        """Return the session in another boot of the same day. On most links, nothing differs."""
        return self

    def linked(self) -> None:  # noqa: B027
        """Take the link down and up. On most links, nothing differs."""

    @abstractmethod
    def connection(self, seconds: int) -> list[float]:
        """Return the receiver rates of a fresh connection in Mbit/s per 0.1 s."""


@dataclass(frozen=True)
class Recorded(Link):
    """A recorded link. A session is one recorded run.

    A reduction without a recording is scaled from the next smaller recorded one.
    """

    name: str
    reported: bool = True

    def session(self, slower: float, source: random.Random) -> Session:
        runs = recordings(self.name, self.reported)
        base = nearest(list(runs), slower)
        factor = (1 - slower / 100) / (1 - base / 100)
        index = source.randrange(len(runs[base]))
        # Without a shaper each connection is its own recorded run; consecutive runs stay consecutive.
        step = 1 if self.name == "unshaped" else 0
        return _RecordedSession(runs[base], index, step, factor, source)


class _RecordedSession(Session):
    def __init__(
        self, runs: tuple[Recording, ...], index: int, step: int, factor: float, source: random.Random
    ) -> None:
        self.runs, self.index, self.step, self.factor, self.source = runs, index, step, factor, source

    def connection(self, seconds: int) -> list[float]:
        run = self.runs[self.index % len(self.runs)]
        self.index += self.step
        return [rate * self.factor for rate in run.segment(round(seconds / STEP_S), self.source)]


@dataclass(frozen=True)
class Model(Link):
    """A model of rates: a first-order autoregression, with a level per run and per session.

    ``second`` is the standard deviation of one-second means, ``tied`` the correlation of consecutive ones. ``run`` and
    ``whole`` are relative standard deviations between runs and between sessions. ``pace`` is the drift within a
    session, in relative units per second (standard deviation).
    """

    second: float
    tied: float
    run: float
    whole: float = 0.0
    pace: float = 0.0

    def session(self, slower: float, source: random.Random) -> Session:
        level = RATE_MBPS * (1 - slower / 100) * math.exp(source.gauss(0, self.whole))
        return _ModelSession(self, level, source.gauss(0, self.pace), source)


@cache
def at_steps(second: float, tied: float) -> tuple[float, float]:
    """Return the standard deviation and correlation of 0.1 s samples that give these one-second means.

    The mean of ten samples has the variance ``s^2 / 100 * sum over i, j of r^|i-j|``. The correlation of two means
    follows in the same way. ``r`` is found by bisection.
    """
    low, high = 0.0, 0.999
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _tie_of_means(middle) < tied else (low, middle)
    return second / math.sqrt(_variance_of_mean(low)), low


def _variance_of_mean(tie: float) -> float:
    return math.fsum(tie ** abs(i - j) for i in range(10) for j in range(10)) / 100


def _tie_of_means(tie: float) -> float:
    between = math.fsum(tie ** (10 + j - i) for i in range(10) for j in range(10)) / 100
    return between / _variance_of_mean(tie)


class _ModelSession(Session):
    def __init__(self, model: Model, level: float, pace: float, source: random.Random) -> None:
        self.level, self.pace, self.run, self.source = level, pace, model.run, source
        self.spread, self.tie = at_steps(model.second, model.tied)
        self.elapsed = 0.0

    def connection(self, seconds: int) -> list[float]:
        gauss = self.source.gauss
        level = self.level * math.exp(gauss(0, self.run) + self.pace * self.elapsed)
        self.elapsed += seconds
        fresh, state, rates = self.spread * math.sqrt(1 - self.tie**2), gauss(0, self.spread), []
        for _ in range(round(seconds / STEP_S)):
            state = self.tie * state + gauss(0, fresh)
            rates.append(max(0.0, level * (1 + state)))
        return rates


@dataclass(frozen=True)
class Moved(Link):
    """Another link in a lab that drifts: a level per session, and a steady drift within it (per second)."""

    link: Link
    whole: float
    pace: float

    def session(self, slower: float, source: random.Random) -> Session:
        return _MovedSession(
            self.link.session(slower, source), math.exp(source.gauss(0, self.whole)), source.gauss(0, self.pace)
        )


class _MovedSession(Session):
    def __init__(self, session: Session, level: float, pace: float) -> None:
        self.inner, self.level, self.pace, self.elapsed = session, level, pace, 0.0

    def connection(self, seconds: int) -> list[float]:
        factor = self.level * math.exp(self.pace * self.elapsed)
        self.elapsed += seconds
        return [rate * factor for rate in self.inner.connection(seconds)]


@dataclass(frozen=True)
class Dipping(Link):
    """Another link on a host that is sometimes too busy: losses of log-normal size, ``per_second`` on average.

    During a loss the rate is 30 %, for as long as the size of the loss requires.
    """

    link: Link
    per_second: float
    size_s: float
    shape: float

    def session(self, slower: float, source: random.Random) -> Session:
        # The rate of losses differs between sessions.
        rate = self.per_second * source.uniform(0.3, 1.7)
        return _DippingSession(self.link.session(slower, source), replace(self, per_second=rate), source)


class _DippingSession(Session):
    def __init__(self, session: Session, model: Dipping, source: random.Random) -> None:
        self.inner, self.model, self.source = session, model, source

    def connection(self, seconds: int) -> list[float]:
        rates = self.inner.connection(seconds)
        at = self.source.expovariate(self.model.per_second)
        while at < seconds:
            left = self.model.size_s * math.exp(self.source.gauss(0, self.model.shape))
            index = int(at / STEP_S)
            while left > 0 and index < len(rates):
                lost = min(left, 0.7 * STEP_S)
                rates[index] *= 1 - lost / STEP_S
                left -= lost
                index += 1
            at += self.source.expovariate(self.model.per_second)
        return rates


class Stalling(Session):
    """A session in which a share of the seconds, chosen independently, runs at half rate.

    Seconds begin at any sample.
    """

    def __init__(self, session: Session, share: float, source: random.Random) -> None:
        self.inner, self.share, self.source = session, share, source

    def connection(self, seconds: int) -> list[float]:
        rates = self.inner.connection(seconds)
        offset = self.source.randrange(10)
        slow = [self.source.random() < self.share for _ in range(seconds + 1)]
        return [rate / 2 if slow[(index + offset) // 10] else rate for index, rate in enumerate(rates)]


QUIET = Recorded("quiet")
# Parameters from public logs of real boards, and from a disturbed host.
LINKS: dict[str, Link] = {
    "quiet": QUIET,
    "busy": Recorded("busy"),
    "host": Dipping(QUIET, per_second=0.1, size_s=0.04, shape=0.9),
    "s1": Model(second=0.007, tied=0.3, run=0.003),
    "s2": Model(second=0.035, tied=0.3, run=0.01),
    "s3": Model(second=0.02, tied=0.5, run=0.02, whole=0.02),
    "drift": Moved(QUIET, whole=0.02, pace=0.0003),
    "unshaped": Recorded("unshaped"),
}
