"""Runs a self-test on one combination: baselines, then gates on a link that is slower by known amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median

from pytest_pinet.calibration.selftest import (
    BASELINE_CONNECTIONS,
    Mark,
    SelftestCase,
    SelftestOutcome,
    SelftestPlan,
    SelftestReport,
    mark,
)
from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import Rates, rate_for, reduced
from pytest_pinet.measure import measurement
from pytest_pinet.measure.preconditions import refuse
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.limits import Limit, Origin, Scope
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, standard_traffic
from pytest_pinet.model.verdict import Verdict

# The most time that a shaper stays after its gate if this process dies. Confirming a failure takes a link-up.
SHAPER_EXTRA_S = 120.0


@dataclass(frozen=True)
class Selftest:
    """The gates on one open link. ``on_odd`` gets the reason if a gate's verdict cannot be counted."""

    access: LabAccess
    link: Link
    plan: SelftestPlan
    known: ReferenceData
    on_step: Callable[[str], None]
    on_odd: Callable[[str], None]

    def run(self, report: SelftestReport) -> None:
        """Measure the baselines, then run all gates. Raises LabError or UnsupportedError; earlier results stay."""
        for way in report.ways:
            report.baselines[way] = self._baseline(way)
            self.on_step(f"baseline {way}: {report.baselines[way]}")
        cases = self.plan.order(report.ways)
        for number, case in enumerate(cases, 1):
            try:
                outcome = self._gate(case, report.baselines, report.tolerance)
            except InvalidMeasurement as error:
                # A busy end or an under-voltage does not affect the next gate.
                outcome = SelftestOutcome(case, Verdict.INVALID, Bitrate(0.0), 0.0, 0.0, str(error))
            report.outcomes.append(outcome)
            self.on_step(
                f"gate {number} of {len(cases)}: {case.way}, {case.reduction * 100:g} % slower: {outcome.verdict} "
                f"after {outcome.traffic_s:.0f} s, {outcome.goodput}"
            )
            if mark(outcome, report.tolerance) is Mark.INVALID:
                self.on_odd(outcome.reason)

    def _context(self) -> MeasureContext:
        return MeasureContext(self.link, self.access.tool, watch=self.access.watch)

    def _baseline(self, way: Direction) -> Bitrate:
        """Return the median goodput of several connections."""
        traffic = standard_traffic(way, self.plan.profile.connection_s)
        lasts_s = BASELINE_CONNECTIONS * (self.plan.profile.connection_s + 1.0)
        with (
            self.access.measuring(self.link.combination),
            Runs(self._context(), lasts_s) as runs,
        ):
            while sum(not one.excluded for one in runs.connections) < BASELINE_CONNECTIONS:
                runs.again(traffic)
            refuse(runs.finish(traffic))
        found = [one.towards(way) for one in runs.connections]
        return Bitrate(median(connection.goodput.bps for connection in found if not connection.excluded))

    def _gate(self, case: SelftestCase, baselines: Mapping[Direction, Bitrate], tolerance: float) -> SelftestOutcome:
        link, baseline = self.link, baselines[case.way]
        here = link.combination
        limit = Limit(
            Bitrate(baseline.bps * (1 - tolerance)),
            Origin.CALL,
            f"{tolerance * 100:g} % below {baseline}",
            Scope(here.board, here.nic, here.topology.name),
        )
        traffic = standard_traffic(case.way, self.plan.profile.connection_s)
        plan = GatePlan([limit], self.plan.profile, self.known.of_traffic(here.identity, traffic))
        with self.access.measuring(here), self._shaper(case.reduction, baselines):
            record = measurement.measure(self._context(), traffic, plan)
        direction = record.directions[str(case.way)]
        return SelftestOutcome(
            case,
            record.verdict,
            Bitrate(direction.goodput_bps),
            sum(one.seconds + one.warmup_s for one in direction.connections),
            record.seconds,
            record.message,
        )

    def _shaper(self, reduction: float, baselines: Mapping[Direction, Bitrate]) -> AbstractContextManager[None]:
        if not reduction:
            return nullcontext()
        rates = shaped(baselines, reduction, self.link.path, self.link.scale)
        return reduced(self.link.peer, rates, 2 * self.plan.profile.budget_s + SHAPER_EXTRA_S)


def shaped(baselines: Mapping[Direction, Bitrate], reduction: float, path: Path, scale: float) -> Rates:
    """Return the rates that slow down a link which runs at ``scale`` of its rate. Baselines are given at full rate."""
    line = Bitrate(path.speed_mbps * 1e6)
    tx, rx = (
        rate_for(Bitrate(baselines[way].bps * (1 - reduction) * scale), path) if way in baselines else line
        for way in (Direction.TX, Direction.RX)
    )
    return Rates(tx, rx)
