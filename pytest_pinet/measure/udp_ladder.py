"""Measure UDP at increasing rates to find the highest rate with a loss within the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_pinet.judge.extras import loss_rate
from pytest_pinet.judge.profile import Profile, confirm
from pytest_pinet.measure.traffic_runner import Runs
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.measurement import LadderRecord, StepRecord
from pytest_pinet.model.traffic import LadderTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.sentences import ladder_text

# Below this share of its rate a step was not really tried: a sender with a full queue sends less and loses nothing.
REACHED = 0.98


@dataclass
class LadderStep:
    """All connections at one rate (per stream). Connections with a dropped link are not counted."""

    rate: Bitrate
    connections: list[Connection] = field(default_factory=list)

    @property
    def counted(self) -> list[Connection]:
        return [one for one in self.connections if not one.excluded]


@dataclass
class Ladder:
    """The steps that were measured, the lowest first."""

    traffic: LadderTraffic
    profile: Profile
    steps: list[LadderStep] = field(default_factory=list)

    def measure(self, runs: Runs) -> None:
        """Measure at increasing rates until one loses too much. Raises LabError or UnsupportedError."""
        for rate in self.traffic.rates:
            step = LadderStep(rate)
            self.steps.append(step)
            while self._verdict(step) is None:
                step.connections.append(runs.again(self.traffic.step(rate)))
            if self._verdict(step) is Verdict.FAIL:
                return

    def _verdict(self, step: LadderStep) -> Verdict | None:
        """Return the verdict on a step; None requires another connection: a single miss is only a suspicion."""
        return confirm([self._holds(step, one) for one in step.counted], self.profile)

    def _holds(self, step: LadderStep, one: Connection) -> bool:
        loss = self._loss([one])
        return loss is not None and loss <= self.traffic.loss and self._reached(step, [one])

    @staticmethod
    def _loss(connections: Sequence[Connection]) -> float | None:
        """Return the share of all datagrams that was lost; None if one flow does not know it."""
        flows = [flow.flow for one in connections for flow in one.flows]
        if any(flow.lost_packets is None or flow.packets is None for flow in flows):
            return None
        return loss_rate(sum(f.lost_packets or 0 for f in flows), sum(f.packets or 0 for f in flows))

    def _reached(self, step: LadderStep, connections: Sequence[Connection]) -> bool:
        """Return whether each flow was sent at its rate, computed from what its receiver counted."""
        for flow in (flow.flow for one in connections for flow in one.flows):
            lost = flow.lost_packets or 0
            sent_bps = flow.goodput.bps * (1 + lost / max(1, (flow.packets or 0) - lost))
            if sent_bps < REACHED * self.traffic.streams * step.rate.bps:
                return False
        return True

    @property
    def knee(self) -> LadderStep | None:
        """The highest step that was held; None if no step was held.

        A held step keeps this state until it certainly fails: later connections, for its goodput, may still change it.
        """
        held = [step for step in self.steps if self._verdict(step) is not Verdict.FAIL]
        return held[-1] if held else None

    @property
    def judged(self) -> tuple[list[Connection], Traffic]:
        """The connections whose goodput is the result, and their traffic: of the knee, or else of the lowest step.

        New connections of this traffic are added to the list. Afterwards another step may be the knee.
        """
        step = self.knee or self.steps[0]
        return step.connections, self.traffic.step(step.rate)

    @property
    def lossy(self) -> str:
        """A sentence for the verdict if every rate lost too much; empty if one rate was held."""
        return "" if self.knee is not None else ladder_text(self.record())

    def record(self) -> LadderRecord:
        knee = self.knee
        streams = self.traffic.streams
        steps = tuple(
            StepRecord(
                rate_bps=streams * step.rate.bps,
                goodput_bps=sum(f.flow.goodput.bps for one in step.counted for f in one.flows)
                / max(1, len(step.counted)),
                loss=self._loss(step.counted),
                connections=len(step.connections),
                reached=self._reached(step, step.counted),
                held=knee is not None and step.rate <= knee.rate,
            )
            for step in self.steps
        )
        return LadderRecord(
            loss=self.traffic.loss, knee_bps=None if knee is None else streams * knee.rate.bps, steps=steps
        )
