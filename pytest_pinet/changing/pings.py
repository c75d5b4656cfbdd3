"""Pings of two builds in turn: a limit that only the build under test misses, and misses again, is its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.record import ResultRecord

# In so many turns of the build under test, with none of the known-good one, it is the build, and no accident.
OFTEN = 2
_GOOD = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED)


@dataclass
class Pings:
    """What each turn gave for one call; ``decided`` once more turns would add nothing."""

    turns: list[tuple[Side, ResultRecord]] = field(default_factory=list)
    given_up: bool = False

    @property
    def found(self) -> dict[object, object]:
        """No goodput comes of pings."""
        return {}

    def _missed(self, side: Side) -> list[ResultRecord]:
        return [record for one, record in self.turns if one is side and Verdict(record["verdict"]) not in _GOOD]

    @property
    def decided(self) -> bool:
        if self.given_up or self._missed(Side.A):
            return True
        of_b = [record for side, record in self.turns if side is Side.B]
        missed = len(self._missed(Side.B))
        # After the second miss the known-good build has its say again.
        return bool(of_b) and (missed < len(of_b) or (missed >= OFTEN and self.turns[-1][0] is Side.A))

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
        verdict, why = Verdict.PASS, ""
        if self._missed(Side.A):
            verdict, why = Verdict.INCONCLUSIVE, "the known-good build misses it, too"
        elif of_b and len(self._missed(Side.B)) == len(of_b) and self.decided:
            enough = len(of_b) >= OFTEN
            verdict = Verdict.FAIL if enough else Verdict.INCONCLUSIVE
            turns = f"{len(of_b)} of {len(of_b)} turns of the build under test and in none of {len(of_a)} of the other"
            why = f"missed in {turns}" if enough else "too few turns tell whose fault it is"
        elif self._missed(Side.B):
            why = f"missed in {len(self._missed(Side.B))} of {len(of_b)} turns of the build under test"
        notes = [*last["notes"], *([why] if why else [])]
        message = f"{last['message']}: {why}" if why and verdict is not Verdict.PASS else last["message"]
        return {**last, "verdict": verdict.value, "message": message, "notes": notes}
