"""Links with slow starts, with several levels, with days that differ, and with slow noise inside connections."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from benchmarks.verdicts.links import LINKS, QUIET, RATE_MBPS, Link, Model, Session
from benchmarks.verdicts.recorded import STEP_S
from pytest_pinet.judge.two_levels import Unit


@dataclass(frozen=True)
class SlowStarts(Link):
    """Another link whose connections take ``least`` to ``most`` seconds until they reach their level.

    They rise evenly from 30 %, or (``jumps``) stay at 60 % and then jump.
    """

    link: Link
    least: float
    most: float
    jumps: bool = False

    def session(self, slower: float, source: random.Random) -> Session:
        return _Starting(self.link.session(slower, source), self, source)


class _Starting(Session):
    def __init__(self, session: Session, model: SlowStarts, source: random.Random) -> None:
        self.inner, self.model, self.source = session, model, source

    def connection(self, seconds: int) -> list[float]:
        length = self.source.uniform(self.model.least, self.model.most) / STEP_S
        return [
            rate if index >= length else rate * (0.6 if self.model.jumps else 0.3 + 0.7 * index / length)
            for index, rate in enumerate(self.inner.connection(seconds))
        ]


# The boots of each day of a baseline, on links whose boots differ.
BOOTS = 3


@dataclass(frozen=True)
class TwoLevels(Link):
    """Another link on two levels, ``apart`` from each other.

    Each connection, boot or day (``unit``) falls on the lower one with the probability ``share``.
    """

    link: Link
    apart: float
    share: float = 0.5
    unit: Unit = Unit.CONNECTION

    def session(self, slower: float, source: random.Random) -> Session:
        return _OnTwoLevels(self.link.session(slower, source), self, source)


class _OnTwoLevels(Session):
    def __init__(self, session: Session, model: TwoLevels, source: random.Random) -> None:
        self.inner, self.model, self.source = session, model, source
        self.low = source.random() < model.share
        self.boots = BOOTS if model.unit is Unit.BOOT else 1

    def rebooted(self) -> Session:
        return _OnTwoLevels(self.inner, self.model, self.source) if self.boots > 1 else self

    def connection(self, seconds: int) -> list[float]:
        low = self.source.random() < self.model.share if self.model.unit is Unit.CONNECTION else self.low
        factor = 1 - self.model.apart if low else 1.0
        return [rate * factor for rate in self.inner.connection(seconds)]


@dataclass(frozen=True)
class UnlikeDays(Link):
    """Another link whose days differ by ``sd`` (standard deviation)."""

    link: Link
    sd: float

    def session(self, slower: float, source: random.Random) -> Session:
        inner, factor = self.link.session(slower, source), math.exp(source.gauss(0, self.sd))
        return _Scaled(inner, factor)


class _Scaled(Session):
    def __init__(self, session: Session, factor: float) -> None:
        self.inner, self.factor = session, factor

    def connection(self, seconds: int) -> list[float]:
        return [rate * self.factor for rate in self.inner.connection(seconds)]


@dataclass(frozen=True)
class Changing(Link):
    """Another link that becomes slower by ``by`` after ``after_s`` seconds of traffic of each session."""

    link: Link
    by: float
    after_s: float

    def session(self, slower: float, source: random.Random) -> Session:
        return _Changing(self.link.session(slower, source), self)


class _Changing(Session):
    def __init__(self, session: Session, model: Changing) -> None:
        self.inner, self.model, self.elapsed = session, model, 0.0

    def connection(self, seconds: int) -> list[float]:
        begin, self.elapsed = self.elapsed, self.elapsed + seconds
        return [
            rate * (1 - self.model.by) if begin + index * STEP_S >= self.model.after_s else rate
            for index, rate in enumerate(self.inner.connection(seconds))
        ]


@dataclass(frozen=True)
class Correlated(Link):
    """A model of 0.1 s samples with the standard deviation ``sd``, each tied to the one before it by ``tie``."""

    sd: float
    tie: float

    def session(self, slower: float, source: random.Random) -> Session:
        return _CorrelatedSession(self, RATE_MBPS * (1 - slower / 100), source)


class _CorrelatedSession(Session):
    def __init__(self, model: Correlated, level: float, source: random.Random) -> None:
        self.model, self.level, self.source = model, level, source

    def connection(self, seconds: int) -> list[float]:
        model, gauss = self.model, self.source.gauss
        state, fresh, rates = gauss(0, model.sd), model.sd * math.sqrt(1 - model.tie**2), []
        for _ in range(round(seconds / STEP_S)):
            state = model.tie * state + gauss(0, fresh)
            rates.append(max(0.0, self.level * (1 + state)))
        return rates


S1 = LINKS["s1"]
HARDER: dict[str, Link] = {
    "days 0.4 %": UnlikeDays(QUIET, 0.004),
    "days 0.8 %": UnlikeDays(QUIET, 0.008),
    "days 1 %": UnlikeDays(QUIET, 0.01),
    "days 2 %": UnlikeDays(QUIET, 0.02),
    "days 0.8 %, s1": UnlikeDays(S1, 0.008),
    "days on two levels, 5 %": TwoLevels(QUIET, 0.05, unit=Unit.DAY),
    "boots on two levels, 5 %": TwoLevels(QUIET, 0.05, unit=Unit.BOOT),
    "boots on two levels, 10 %": TwoLevels(QUIET, 0.10, unit=Unit.BOOT),
    "connections on two levels, 2 %": TwoLevels(QUIET, 0.02),
    "connections on two levels, 5 %": TwoLevels(QUIET, 0.05),
    "connections on two levels, 10 %": TwoLevels(QUIET, 0.10),
    "a fifth of the connections 5 % lower": TwoLevels(QUIET, 0.05, share=0.2),
    "slow starts of 1 to 4 s": SlowStarts(QUIET, 1.0, 4.0),
    "slow starts of 1 to 2 s, s1": SlowStarts(S1, 1.0, 2.0),
    "slow starts that jump": SlowStarts(QUIET, 1.0, 4.0, jumps=True),
    "AR(1) 0.9, 3 %": Correlated(0.03, 0.9),
    "AR(1) 0.98, 3 %": Correlated(0.03, 0.98),
    "rough, days 1 %": UnlikeDays(Model(second=0.02, tied=0.3, run=0.005), 0.01),
}
ALL = {**LINKS, **HARDER}
