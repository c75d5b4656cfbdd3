"""Runs thousands of gates on every link, at every reduction, by every rule."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, median

from benchmarks.verdicts.harder_links import ALL as SHOWN
from benchmarks.verdicts.links import LINKS, Session, Stalling
from benchmarks.verdicts.ours import (
    LIMIT,
    RUNS_OF_A_DAY,
    Ending,
    baseline,
    calibrated,
    flagged_within,
    gate,
    in_turn,
    without_sessions,
)
from benchmarks.verdicts.recorded import STEP_S
from benchmarks.verdicts.unseen import UNSEEN
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.judge.spread import UNKNOWN
from pytest_pinet.judge.statistics import HALF_ZONE, normal, variance

# A calibration serves this many comparisons.
PER_CALIBRATION = 25
# A baseline serves this many gates, then a new one is drawn, so that its own error is part of every result.
PER_BASELINE = 3
SLOWER = (0, 1, 2, 3, 5, 10, -10)
ALL = {**SHOWN, **UNSEEN}
STALL = "stall20"
STALL_SHARE = 0.2
# Our rule: the profile, and the days of the baseline.
OURS: dict[str, tuple[str, int]] = {
    "pinet, 1 day": ("standard", 1),
    "pinet, 2 days": ("standard", 2),
    "pinet, 8 days": ("standard", 8),
    "soak, 8 days": ("soak", 8),
}
# Sessions and connections from which the ideal rule's knowledge of a link is computed: the levels of connections of
# 3 s after the longest start. With 100 sessions, the ideal share of equal links differed by 12 points.
IDEAL_SESSIONS, IDEAL_EACH = 2000, 2
IDEAL_START_S, IDEAL_S = 4, 3


@dataclass(frozen=True)
class Cell:
    """The results of many gates of one rule on one link at one reduction: gates by their ending, and seconds."""

    link: str
    case: str
    rule: str
    gates: int
    endings: Mapping[str, int]
    median_s: float
    mean_s: float

    def percent(self, *endings: Ending) -> float:
        """Return the percentage of gates that ended so."""
        return 100 * sum(self.endings.get(ending, 0) for ending in endings) / self.gates

    @property
    def wrong_endings(self) -> tuple[Ending, ...]:
        """The endings that are wrong. At 2 and 3 % slower only "improved" is."""
        if self.case == STALL:
            return (Ending.PASS, Ending.IMPROVED)
        slower = int(self.case)
        if slower >= 5:
            return (Ending.PASS, Ending.FLAGGED, Ending.IMPROVED)
        if slower > 1:
            return (Ending.IMPROVED,)
        return (Ending.FAIL, Ending.IMPROVED) if slower >= 0 else (Ending.FAIL,)

    @property
    def wrong(self) -> float:
        """The percentage of wrong verdicts."""
        return self.percent(*self.wrong_endings)

    @property
    def wrong_interval(self) -> tuple[float, float]:
        """The interval of ``wrong`` (95 %, Wilson 1927)."""
        return wilson(self.wrong_gates, self.gates)

    @property
    def wrong_gates(self) -> int:
        """The number of wrong verdicts."""
        return sum(self.endings.get(ending, 0) for ending in self.wrong_endings)


def wilson(count: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share, in percent."""
    share, wide = count / of, z * z / of
    middle = (share + wide / 2) / (1 + wide)
    half = z * math.sqrt(share * (1 - share) / of + wide / of / 4) / (1 + wide)
    return max(100 * (middle - half), 0.0), 100 * (middle + half)


def draw(link: str, case: str, source: random.Random) -> Session:
    """Return a session of a link in one case."""
    if case == STALL:
        return Stalling(ALL[link].session(0, source), STALL_SHARE, source)
    return ALL[link].session(int(case), source)


def cases() -> list[str]:
    """Return the names of all cases: percent slower, and the link that stalls."""
    return [*(str(slower) for slower in SLOWER), STALL]


def trial(link: str, case: str, rule: str, gates: int, seed: int = 1) -> Cell:
    """Run gates. With the same seed, every rule gets the same kind of links, but not the same samples."""
    source = random.Random(f"{seed}/{link}/{case}/{rule}")
    found = []
    profile, days = OURS[rule]
    for number in range(gates):
        if number % PER_BASELINE == 0:
            stored = baseline(lambda: ALL[link].session(0, source), days, profile)
        found.append(gate(draw(link, case, source), stored, profile))
    seconds = [one.seconds for one in found]
    endings = Counter(str(one.ending) for one in found)
    return Cell(link, case, rule, gates, dict(endings), median(seconds), fmean(seconds))


@cache
def _true_spread(link: str) -> tuple[float, float]:
    """Return the variances of a link between days and between connections, from many of its sessions."""
    source = random.Random(f"true/{link}")
    sessions = []
    for _ in range(IDEAL_SESSIONS):
        session = ALL[link].session(0, source)
        connections = [session.connection(IDEAL_START_S + IDEAL_S) for _ in range(IDEAL_EACH)]
        sessions.append([math.log(max(fmean(rates[round(IDEAL_START_S / STEP_S) :]), 1e-6)) for rates in connections])
    within = fmean(variance(own) for own in sessions)
    between = variance([fmean(own) for own in sessions])
    return max(between - within / IDEAL_EACH, 0.0), within


def ideal(link: str, case: str, days: int) -> float:
    """Return the share (percent) in which a rule stays undecided that knows the true spread of the link.

    It knows the variances of days and connections, has our budget of 20 connections, and errs in 1 % of the gates.
    """
    of_days, of_connections = _true_spread(link)
    runs = days * RUNS_OF_A_DAY if days > 1 else 2 * RUNS_OF_A_DAY
    boots = days * ALL[link].session(0, random.Random(0)).boots
    sd = math.sqrt(of_days * (1 + 1 / boots) + of_connections * (1 / 20 + 1 / runs)) or 1e-9
    middle = math.log1p(-int(case) / 100) - math.log(LIMIT)
    needed = max(normal(1 - ERROR_RATE) * sd - HALF_ZONE, 0.0)
    under = NormalDist(middle, sd)
    return 100 * (under.cdf(needed) - under.cdf(-needed))


def flags(link: str, case: str, gates: int, seed: int = 1) -> float:
    """Return the percentage of soak gates that flag the traffic within that of the shortest pass."""
    source = random.Random(f"{seed}/{link}/{case}/flags")
    stored = baseline(lambda: ALL[link].session(0, source), profile="soak")
    return 100 * sum(flagged_within(draw(link, case, source), stored, "soak") for _ in range(gates)) / gates


@dataclass(frozen=True)
class Turns:
    """The results of the interleaved engine on one link and change, in percent."""

    link: str
    slower: int
    calibrated: bool
    results: dict[Relation, float]
    median_s: float


def turns(link: str, slower: int, gates: int, known: bool, seed: int = 1) -> Turns:
    """Run the interleaved engine on two states of one session, with the same level and drift for both."""
    source = random.Random(f"{seed}/{link}/{slower}/turns/{known}")
    found = []
    noise = UNKNOWN
    for number in range(gates):
        if known and number % PER_CALIBRATION == 0:
            noise = without_sessions(calibrated(lambda: LINKS[link].session(0, source)))
        found.append(in_turn(LINKS[link].session(0, source), slower, noise))
    share: dict[Relation, float] = {}
    for r in (Relation.SLOWER, Relation.SAME, Relation.FASTER, Relation.INCONCLUSIVE):
        share[r] = 100 * sum(result is r for result, _ in found) / gates
    return Turns(link, slower, known, share, median(seconds for _, seconds in found))
