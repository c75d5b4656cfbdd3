"""Runs thousands of gates on every link, at every reduction, by every rule."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.verdicts.links import LINKS, Session, Stalling
from benchmarks.verdicts.ours import History, flagged_within, gate, history, in_turn, without_sessions
from benchmarks.verdicts.rivals import RIVALS, Ending, Gate
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.noise import UNKNOWN

# A stored history serves this many gates, then a new one is drawn, so that its own error is part of every result.
PER_HISTORY = 25
SLOWER = (0, 1, 2, 3, 5, 10, -10)
STALL = "stall20"
STALL_SHARE = 0.2
OURS: dict[str, tuple[str, bool]] = {
    "pinet": ("standard", False),
    "pinet calibrated": ("standard", True),
    "pinet soak": ("soak", False),
}
RULES = (*OURS, *RIVALS)


@dataclass(frozen=True)
class Cell:
    """The results of many gates of one rule on one link at one reduction, in percent, and their seconds."""

    link: str
    case: str
    rule: str
    gates: int
    fail: float
    passed: float
    flagged: float
    inconclusive: float
    median_s: float

    @property
    def wrong(self) -> float:
        """Return the percentage of wrong verdicts. At 2 and 3 % slower no verdict is wrong."""
        if self.case == STALL:
            return self.passed
        slower = int(self.case)
        if slower <= 1:
            return self.fail
        return self.passed + self.flagged if slower >= 5 else 0.0


def draw(link: str, case: str, source: random.Random) -> Session:
    """Return a session of a link in one case."""
    if case == STALL:
        return Stalling(LINKS[link].session(0, source), STALL_SHARE, source)
    return LINKS[link].session(int(case), source)


def cases() -> list[str]:
    """Return the names of all cases: percent slower, and the link that stalls."""
    return [*(str(slower) for slower in SLOWER), STALL]


def trial(link: str, case: str, rule: str, gates: int, seed: int = 1, per_history: int = PER_HISTORY) -> Cell:
    """Run gates. With the same seed every rule gets the same kind of links, but not the same samples."""
    source = random.Random(f"{seed}/{link}/{case}/{rule}")
    found: list[Gate] = []
    stored = _stored(link, source)
    for number in range(gates):
        if number and number % per_history == 0:
            stored = _stored(link, source)
        found.append(_gate(rule, draw(link, case, source), stored))

    def share(ending: Ending) -> float:
        return 100 * sum(g.ending is ending for g in found) / gates

    return Cell(
        link,
        case,
        rule,
        gates,
        share(Ending.FAIL),
        share(Ending.PASS),
        share(Ending.FLAGGED),
        share(Ending.INCONCLUSIVE),
        median(g.seconds for g in found),
    )


def _stored(link: str, source: random.Random) -> History:
    return history(lambda: LINKS[link].session(0, source))


def _gate(rule: str, session: Session, stored: History) -> Gate:
    if rule in OURS:
        profile, calibrated = OURS[rule]
        return gate(session, stored, profile, calibrated)
    return RIVALS[rule](session, stored.baseline_mbps)


def flags(link: str, case: str, gates: int, seed: int = 1) -> float:
    """Return the percentage of soak gates that flag the traffic within 22 s."""
    return _counted(link, case, gates, seed, lambda s, stored: flagged_within(s, stored, "soak", 22.0))


def _counted(link: str, case: str, gates: int, seed: int, test: Callable[[Session, History], bool]) -> float:
    source = random.Random(f"{seed}/{link}/{case}/flags")
    stored = _stored(link, source)
    return 100 * sum(test(draw(link, case, source), stored) for _ in range(gates)) / gates


@dataclass(frozen=True)
class Turns:
    """The results of the interleaved engine on one link and change, in percent."""

    link: str
    slower: int
    calibrated: bool
    results: dict[Relation, float]
    median_s: float


def turns(link: str, slower: int, gates: int, calibrated: bool, seed: int = 1) -> Turns:
    """Run the interleaved engine on two states of one session, with the same level and drift for both."""
    source = random.Random(f"{seed}/{link}/{slower}/turns/{calibrated}")
    found = []
    noise = UNKNOWN
    for number in range(gates):
        if calibrated and number % PER_HISTORY == 0:
            noise = without_sessions(_stored(link, source).noise)
        found.append(in_turn(LINKS[link].session(0, source), slower, noise))
    share: dict[Relation, float] = {}
    for r in (Relation.SLOWER, Relation.SAME, Relation.FASTER, Relation.INCONCLUSIVE):
        share[r] = 100 * sum(result is r for result, _ in found) / gates
    return Turns(link, slower, calibrated, share, median(seconds for _, seconds in found))
