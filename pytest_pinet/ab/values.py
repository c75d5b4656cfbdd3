"""Values beside goodput in both builds: each boot measures them as a run without a limit does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from pytest_pinet.judge.difference import Difference
from pytest_pinet.judge.figures import UNMEASURED
from pytest_pinet.judge.turns import Boot, Side, judge_change
from pytest_pinet.judge.words import words_of
from pytest_pinet.measure.figures import Probe, worst_first
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict


@dataclass
class ValueSeries:
    """The turns of a gate call of ``probe``. ``values_of_all`` returns how many values the whole comparison has.

    ``turns`` has the side, the time and the record of each boot. ``found`` judges each value by its name.
    """

    probe: Probe
    tolerance: float
    error_rate: float
    values_of_all: Callable[[], int]
    most_boots: int
    turns: list[tuple[Side, float, ResultRecord]] = field(default_factory=list)
    found: dict[str, Difference] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """How many values are judged."""
        return len(self.found)

    @property
    def decided(self) -> bool:
        """Whether more turns would change nothing. One worse value is enough for that."""
        found = self.found.values()
        return any(one.verdict is Verdict.FAIL for one in found) or (bool(found) and all(one.decided for one in found))

    def add(self, side: Side, at_s: float, record: ResultRecord) -> None:
        """Add what one boot measured, and judge all turns. A certain result stays."""
        self.turns.append((side, at_s, record))
        for figure in self.probe.figures:
            before = self.found.get(figure.name)
            if before is None or not before.decided:
                self.found[figure.name] = self._judged(figure)

    def give_up(self) -> None:
        """Make every undecided value inconclusive, because there are no more turns."""
        self.found = {name: one.given_up() for name, one in self.found.items()}

    def _judged(self, figure: Figure) -> Difference:
        boots = [
            Boot(side, at, tuple(figure.level(value) for value in _values(record, figure.name)))
            for side, at, record in self.turns
        ]
        return judge_change(
            boots,
            self.tolerance,
            UNMEASURED,
            self.error_rate,
            self.values_of_all(),
            self.most_boots,
            words=words_of(figure),
        )

    def record(self) -> ResultRecord:
        """Return the latest record of the build under test with the values and verdicts of all turns."""
        of_b = [record for side, _, record in self.turns if side is Side.B]
        last = of_b[-1] if of_b else self.turns[-1][2]
        figures = {one.name: self._figure(one) for one in self.probe.figures}
        verdict, reason = worst_first(figures)
        return last.replace(figures=figures, verdict=verdict, message=f"{last.combination.id} {reason}")

    def _figure(self, figure: Figure) -> FigureJudgement:
        a, b = ([v for side, _, one in self.turns if side is own for v in _values(one, figure.name)] for own in Side)
        found = self.found[figure.name]
        texts = (figure.show(median(values)) if values else "no value" for values in (a, b))
        why = "{} {} with A, {} with B: {}".format(figure.name, *texts, found.why)
        # While turns continue, an undecided comparison is not bad yet.
        verdict = found.verdict if found.decided else Verdict.PASS
        values = b or a
        one = FigureJudgement(
            figure.unit, figure.better, median(values) if values else None, tuple(values), verdict, why
        )
        return replace(one, stopped=found.why)


def _values(record: ResultRecord, name: str) -> tuple[float, ...]:
    figures = record.figures or {}
    return figures[name].values if name in figures else ()
