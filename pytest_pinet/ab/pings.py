"""Pings of two builds in turn: a limit that only the build under test misses, and misses again, is its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_pinet.judge.interleaved import Side
from pytest_pinet.judge.pings import PingTurns
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict


@dataclass
class Pings:
    """What each turn gave for one call; ``decided`` once more turns would add nothing."""

    turns: list[tuple[Side, ResultRecord]] = field(default_factory=list)
    given_up: bool = False

    @property
    def found(self) -> dict[object, object]:
        """No goodput comes of pings."""
        return {}

    @property
    def _judged(self) -> PingTurns:
        return PingTurns(tuple((side, record.verdict) for side, record in self.turns), self.given_up)

    @property
    def decided(self) -> bool:
        return self._judged.decided

    def give_up(self) -> None:
        """No more turns are made."""
        self.given_up = True

    def take(self, side: Side, measure: Callable[[], ResultRecord]) -> None:
        """Ping in this turn."""
        self.turns.append((side, measure()))

    def record(self) -> ResultRecord:
        """That of the build under test, judged by both; while it goes on it is good."""
        of_b = [record for side, record in self.turns if side is Side.B]
        of_a = [record for side, record in self.turns if side is Side.A]
        last = (of_b or of_a)[-1]
        verdict, why = self._judged.judge()
        notes = [*last.notes, *([why] if why else [])]
        message = f"{last.message}: {why}" if why and verdict is not Verdict.PASS else last.message
        return last.replace(verdict=verdict, message=message, notes=notes)
