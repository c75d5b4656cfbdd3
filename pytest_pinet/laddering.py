"""UDP at one rate after the other: the highest whose loss stays within a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_pinet.figures import Figured
from pytest_pinet.judge.confirm import confirm
from pytest_pinet.judge.extras import loss_rate
from pytest_pinet.judge.profile import Profile
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import LadderTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.traffic import LadderRecord, StepRecord, ladder_text
from pytest_pinet.runs import Runs
from pytest_pinet.tries import Try

# A sender whose queue pushes back sends less than it was told, and loses nothing: that rate was not tried at all.
REACHED = 0.98


@dataclass
class Step:
    """All tries at one rate (of each stream); those in which a link dropped count for nothing."""

    rate: Bitrate
    tries: list[Try] = field(default_factory=list)

    @property
    def counted(self) -> list[Try]:
        return [one for one in self.tries if not one.excluded]


@dataclass
class Ladder:
    """The steps that were climbed, the lowest first."""

    traffic: LadderTraffic
    profile: Profile
    steps: list[Step] = field(default_factory=list)

    def climb(self, runs: Runs) -> None:
        """Try the rates from the lowest on, until one is not held. Raises LabError or UnsupportedError."""
        for rate in self.traffic.rates:
            step = Step(rate)
            self.steps.append(step)
            while self._verdict(step) is None:
                step.tries.append(runs.again(self.traffic.step(rate)))
            if self._verdict(step) is Verdict.FAIL:
                return

    def _verdict(self, step: Step) -> Verdict | None:
        """What one try misses is a suspicion: others must miss it, too. None asks for another try."""
        return confirm([self._holds(step, one) for one in step.counted], self.profile)

    def _holds(self, step: Step, one: Try) -> bool:
        loss = self._loss([one])
        return loss is not None and loss <= self.traffic.loss and self._reached(step, [one])

    @staticmethod
    def _loss(tries: Sequence[Try]) -> float | None:
        """The part of all datagrams that was lost; None where one flow does not know it."""
        flows = [flow.flow for one in tries for flow in one.flows]
        if any(flow.lost_packets is None or flow.packets is None for flow in flows):
            return None
        return loss_rate(sum(f.lost_packets or 0 for f in flows), sum(f.packets or 0 for f in flows))

    def _reached(self, step: Step, tries: Sequence[Try]) -> bool:
        """Whether each flow was sent as fast as it should, as far as its receiver can tell."""
        for flow in (flow.flow for one in tries for flow in one.flows):
            lost = flow.lost_packets or 0
            sent_bps = flow.goodput.bps * (1 + lost / max(1, (flow.packets or 0) - lost))
            if sent_bps < REACHED * self.traffic.streams * step.rate.bps:
                return False
        return True

    @property
    def knee(self) -> Step | None:
        """The highest step that was held; None where none was.

        A step that was held stays so until it is certain that it is not: tries for its goodput may come after.
        """
        held = [step for step in self.steps if self._verdict(step) is not Verdict.FAIL]
        return held[-1] if held else None

    @property
    def judged(self) -> tuple[list[Try], Traffic]:
        """The tries whose goodput is the figure, and what was sent: the knee's, or where there is none the lowest.

        More tries of it are added to these; afterwards it may be another's turn.
        """
        step = self.knee or self.steps[0]
        return step.tries, self.traffic.step(step.rate)

    def unheld(self, found: Figured) -> Figured:
        """Where no rate was held, that is the verdict."""
        if self.knee is not None:
            return found
        why = ladder_text(self.record())
        for record in found.directions.values():
            record["verdict"], record["reason"] = Verdict.FAIL.value, why
        return replace(found, verdict=Verdict.FAIL, reason=why, wanted=None)

    def record(self) -> LadderRecord:
        """All steps as plain data."""
        knee = self.knee
        streams = self.traffic.streams
        steps: list[StepRecord] = [
            {
                "rate_bps": streams * step.rate.bps,
                "goodput_bps": sum(f.flow.goodput.bps for one in step.counted for f in one.flows)
                / max(1, len(step.counted)),
                "loss": self._loss(step.counted),
                "attempts": len(step.tries),
                "reached": self._reached(step, step.counted),
                "held": knee is not None and step.rate <= knee.rate,
            }
            for step in self.steps
        ]
        return {
            "loss": self.traffic.loss,
            "knee_bps": None if knee is None else streams * knee.rate.bps,
            "steps": steps,
        }


def climbed(runs: Runs, traffic: Traffic, profile: Profile) -> Ladder | None:
    """The ladder after it was climbed; None for traffic that is none. Raises LabError or UnsupportedError."""
    if not isinstance(traffic, LadderTraffic):
        return None
    ladder = Ladder(traffic, profile)
    ladder.climb(runs)
    return ladder
