"""A self-test on one combination: a baseline, then gates on a link that is slower by known amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median

from pytest_pinet import measuring
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.figures import Plan as GatePlan
from pytest_pinet.judge.profile import Profile
from pytest_pinet.known import Known
from pytest_pinet.lab.link import Link
from pytest_pinet.lab.reduction import Rates, rate_for, reduced
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.preconditions import refuse
from pytest_pinet.runs import Runs
from pytest_pinet.selftest.counts import Mark, Outcome, mark
from pytest_pinet.selftest.plan import BASELINE_CONNECTIONS, Case, Plan
from pytest_pinet.standard_traffic import attempt_at, standard_traffic
from pytest_pinet.visiting import Visit

# A shaper outlives its gate by this much at most, whatever happens to us; confirming a failure takes a link-up.
SHAPER_EXTRA_S = 120.0


@dataclass
class Report:
    """What a self-test of one combination found so far; whatever ends it early, that much is true.

    The limit of every gate lies ``tolerance`` (0.03 = 3 %) below the baseline of its direction.
    """

    combination: Combination
    tolerance: float
    ways: Sequence[Direction]
    baselines: dict[Direction, Bitrate] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)


class Selftest:
    """Bound to one open link; ``known`` has the noise of its figures.

    ``on_step`` is told each step as it is done, ``on_odd`` why a gate gave no verdict that can be counted.
    """

    def __init__(
        self,
        visit: Visit,
        link: Link,
        plan: Plan,
        known: Known,
        on_step: Callable[[str], None],
        on_odd: Callable[[str], None],
    ) -> None:
        self._visit = visit
        self._link = link
        self._plan = plan
        self._known = known
        self._on_step = on_step
        self._on_odd = on_odd

    def run(self, report: Report) -> None:
        """Measure the baselines and run all gates. Raises LabError or UnsupportedError; the report keeps what was."""
        for way in report.ways:
            report.baselines[way] = self._baseline(way)
            self._on_step(f"baseline {way}: {report.baselines[way]}")
        cases = self._plan.order(report.ways)
        for number, case in enumerate(cases, 1):
            try:
                outcome = self._gate(case, report.baselines, report.tolerance)
            except InvalidMeasurement as error:
                # A busy end or a supply that dropped says nothing about the next gate.
                outcome = Outcome(case, Verdict.INVALID, Bitrate(0.0), 0.0, 0.0, str(error))
            report.outcomes.append(outcome)
            self._on_step(
                f"gate {number} of {len(cases)}: {case.way}, {case.reduction * 100:g} % slower: {outcome.verdict} "
                f"after {outcome.traffic_s:.0f} s, {outcome.goodput}"
            )
            if mark(outcome, report.tolerance) is Mark.INVALID:
                self._on_odd(outcome.reason)

    @property
    def _profile(self) -> Profile:
        return self._plan.profile

    def _baseline(self, way: Direction) -> Bitrate:
        """The median of several connections."""
        traffic = standard_traffic(way, self._profile.connection_s)
        lasts_s = BASELINE_CONNECTIONS * (self._profile.connection_s + 1.0)
        with (
            self._visit.measuring(self._link.combination),
            Runs(self._link, self._visit.tool, lasts_s, watch=self._visit.watch) as runs,
        ):
            while sum(not one.excluded for one in runs.tries) < BASELINE_CONNECTIONS:
                runs.again(traffic)
            refuse(runs.finish(traffic))
        found = [attempt_at(one, way) for one in runs.tries]
        return Bitrate(median(attempt.goodput.bps for attempt in found if not attempt.excluded))

    def _gate(self, case: Case, baselines: Mapping[Direction, Bitrate], tolerance: float) -> Outcome:
        link, baseline = self._link, baselines[case.way]
        here = link.combination
        limit = Limit(
            Bitrate(baseline.bps * (1 - tolerance)),
            Origin.CALL,
            f"{tolerance * 100:g} % below {baseline}",
            here.board,
            here.nic,
            here.topology.name,
        )
        plan = GatePlan(limits=[limit], profile=self._profile, known=self._known)
        traffic = standard_traffic(case.way, self._profile.connection_s)
        with self._visit.measuring(here), self._shaper(case.reduction, baselines):
            record = measuring.measure(link, traffic, plan, self._visit.tool, None, watch=self._visit.watch)
        direction = record["directions"][str(case.way)]
        return Outcome(
            case,
            Verdict(record["verdict"]),
            Bitrate(direction["goodput_bps"]),
            sum(attempt["seconds"] + attempt["warmup_s"] for attempt in direction["attempts"]),
            record["seconds"],
            record["message"],
        )

    def _shaper(self, reduction: float, baselines: Mapping[Direction, Bitrate]) -> AbstractContextManager[None]:
        if not reduction:
            return nullcontext()
        rates = shaped(baselines, reduction, self._link.path, self._link.scale)
        return reduced(self._link.peer, rates, 2 * self._profile.budget_s + SHAPER_EXTRA_S)


def shaped(baselines: Mapping[Direction, Bitrate], reduction: float, path: Path, scale: float) -> Rates:
    """What makes a link slower that runs at ``scale`` of its rate; the baselines are told at all of it."""
    line = Bitrate(path.speed_mbps * 1e6)
    tx, rx = (
        rate_for(Bitrate(baselines[way].bps * (1 - reduction) * scale), path) if way in baselines else line
        for way in (Direction.TX, Direction.RX)
    )
    return Rates(tx, rx)
