"""Events that are good or bad, such as boots and flaps of a link: measured until the share of bad ones is certain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.figures import FigureRuling, without_limit
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.shares import Events, ShareRule
from pytest_pinet.measure.figures import Probe
from pytest_pinet.model.figures import Better, Figure, Sample
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict

# With so many events that do not count, the lab is at fault.
MOST_EXCLUDED = 5


@dataclass(frozen=True)
class Counted(Probe):
    """A probe whose samples are events, with the ``rule`` for the share of bad ones.

    ``noun`` is the plural of an event (``boots``), ``values`` are the values of an event; they have no limit.
    ``decide`` replaces the rule, for one of two builds: it returns None if another event is needed.
    """

    noun: ClassVar[str]
    values: ClassVar[tuple[Figure, ...]]
    rule: ShareRule = field(kw_only=True)
    decide: Callable[[Events], Verdict | None] | None = field(default=None, kw_only=True)

    @abstractmethod
    def why_bad(self, event: Sample) -> str:
        """Return why an event is bad; empty for a good one."""

    @property
    def figure(self) -> Figure:
        """The share of the bad events."""
        return Figure(f"bad_{self.noun}", "share", Better.DOWN)

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (self.figure, *self.values)

    def judge(
        self, samples: Sequence[Sample], key: MetricKey, plan: GatePlan, known: Mapping[str, Reference]
    ) -> dict[str, FigureRuling]:
        counted = [one for one in samples if not one.excluded]
        seen = Events.of(bool(self.why_bad(one)) for one in counted)
        verdict = (self.decide or self.rule.judge)(seen)
        wanted = verdict is None and len(samples) - len(counted) < MOST_EXCLUDED
        share = self.judged(seen, verdict or Verdict.INCONCLUSIVE)
        others = {one.name: FigureRuling(without_limit(one, samples)) for one in self.values}
        return {self.figure.name: FigureRuling(share, wanted)} | {
            name: one for name, one in others.items() if one.judgement.values
        }

    def judged(self, seen: Events, verdict: Verdict, more: str = "") -> FigureJudgement:
        """Return the judgement of the share of bad events. ``more`` is added to its reason."""
        words = seen.words(self.noun)
        reason = words if verdict is Verdict.PASS else f"{words}: {self.rule.words}"
        if verdict is Verdict.INCONCLUSIVE:
            reason = f"not certain: {reason}"
        reason = f"{reason}; {more}" if more else reason
        each = (1.0,) * seen.bad + (0.0,) * (seen.count - seen.bad)
        return FigureJudgement("share", "down", seen.share, each, verdict, reason, stopped=words)

    def notes(self, samples: Sequence[Sample]) -> list[str]:
        """Return what is to be known of the events, and which of them are bad."""
        bad = [
            f"{self.noun.removesuffix('s')} {at} is bad: {why}"
            for at, one in enumerate(samples, 1)
            if not one.excluded and (why := self.why_bad(one))
        ]
        return [*super().notes(samples), *bad]

    def events(self, record: ResultRecord) -> Events:
        values = record.figures[self.figure.name].values if record.figures else ()
        return Events(len(values), round(sum(values)))
