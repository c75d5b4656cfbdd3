"""Values beside goodput in both builds: each boot measures them as a run without a limit does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from pytest_pinet.judge.costs import COST_TURNS
from pytest_pinet.judge.difference import Difference
from pytest_pinet.judge.figures import UNMEASURED, figure_tolerance
from pytest_pinet.judge.profile import most_specific
from pytest_pinet.judge.turns import Boot, Side, judge_change, judge_misses
from pytest_pinet.judge.words import words_of
from pytest_pinet.measure.figures import Probe, worst_first
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.limits import METRICS, Limit, Metric, Threshold
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict


@dataclass
class ValueSeries:
    """The turns of a gate call of ``probe``. ``values_of_all`` returns how many values the whole comparison has.

    ``turns`` has the side, the time and the record of each boot. ``found`` has the difference of the builds for each
    value that can have a limit. ``limits`` are the limits of the call.
    """

    probe: Probe
    limits: Sequence[Limit]
    key: MetricKey
    error_rate: float
    values_of_all: Callable[[], int]
    most_boots: int
    turns: list[tuple[Side, float, ResultRecord]] = field(default_factory=list)
    found: dict[str, Difference] = field(default_factory=dict)
    given_up: bool = False

    @property
    def values(self) -> int:
        """How many values are judged."""
        return len(self.found)

    @property
    def decided(self) -> bool:
        """Whether more turns would change nothing. One worse value is enough for that."""
        found = [self._ruling(figure)[0] for figure in self._compared if self.turns]
        return Verdict.FAIL in found or (bool(found) and None not in found)

    @property
    def _compared(self) -> list[Figure]:
        return [one for one in self.probe.figures if one.name in METRICS]

    def add(self, side: Side, at_s: float, record: ResultRecord) -> None:
        """Add what one boot measured, and judge all turns. A certain result stays."""
        self.turns.append((side, at_s, record))
        for figure in self._compared:
            before = self.found.get(figure.name)
            if before is None or not before.decided:
                self.found[figure.name] = self._difference(figure)

    def give_up(self) -> None:
        """Make every undecided value inconclusive, because there are no more turns."""
        self.given_up = True
        self.found = {name: one.given_up() for name, one in self.found.items()}

    def _difference(self, figure: Figure) -> Difference:
        boots = [
            Boot(side, at, tuple(figure.level(value) for value in _values(record, figure.name)))
            for side, at, record in self.turns
        ]
        return judge_change(
            boots,
            figure_tolerance(figure, self.limits, self.key),
            UNMEASURED,
            self.error_rate,
            self.values_of_all(),
            self.most_boots,
            words=words_of(figure),
        )

    def _threshold(self, figure: Figure) -> Threshold | None:
        limit = most_specific(self.limits, self.key, Metric(figure.name))
        return None if limit is None else limit.threshold()

    def _ruling(self, figure: Figure) -> tuple[Verdict | None, str]:
        """Return the verdict on B, and why: by the difference, and by the limit in both builds. None: another turn.

        If the limit holds, the difference needs no more than COST_TURNS.
        """
        found, limit = self.found[figure.name], self._threshold(figure)
        if limit is None or found.verdict is Verdict.FAIL:
            return found.verdict if found.decided else None, found.why
        each = [(side, _values(record, figure.name)) for side, _, record in self.turns]
        misses = [(side, limit.judge(median(own))[0] is Verdict.FAIL) for side, own in each if own]
        verdict, why = judge_misses(misses, self.given_up)
        why = f"{found.why}; {why}" if why else found.why
        if verdict is not Verdict.PASS:
            return verdict, why
        if found.verdict is not Verdict.INCONCLUSIVE:
            return found.verdict, why
        enough = found.decided or len(self.turns) >= COST_TURNS
        return (verdict, f"{why}; the limit holds") if enough else (None, why)

    def record(self) -> ResultRecord:
        """Return the latest record of the build under test with the values and verdicts of all turns."""
        of_b = [record for side, _, record in self.turns if side is Side.B]
        last = of_b[-1] if of_b else self.turns[-1][2]
        figures = {one.name: self._figure(one) for one in self.probe.figures}
        verdict, reason = worst_first(figures)
        return last.replace(figures=figures, verdict=verdict, message=f"{last.combination.id} {reason}")

    def _figure(self, figure: Figure) -> FigureJudgement:
        a, b = ([v for side, _, one in self.turns if side is own for v in _values(one, figure.name)] for own in Side)
        one = FigureJudgement.without_limit(figure, b or a)
        if figure.name not in self.found:
            return one
        texts = (figure.show(median(values)) if values else "no value" for values in (a, b))
        # While turns continue, an undecided comparison is not bad yet.
        verdict, why = self._ruling(figure)
        reason = "{} {} with A, {} with B: {}".format(figure.name, *texts, why)
        limit, stopped = self._threshold(figure), self.found[figure.name].why
        return replace(one, verdict=verdict or Verdict.PASS, reason=reason, limit=limit, stopped=stopped)


def _values(record: ResultRecord, name: str) -> tuple[float, ...]:
    figures = record.figures or {}
    return figures[name].values if name in figures else ()
