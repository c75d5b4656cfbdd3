"""The gates of a self-test: their plan, their run on one combination, and the counts of right verdicts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, median

from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import Profile
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.rate_shaper import Rates, rate_for, reduced
from pytest_pinet.measure import measurement
from pytest_pinet.measure.preconditions import refuse
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit, Origin, Scope
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, standard_traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.text_wrap import text_table

# Connections for the baseline of each direction. Its error is then less than half of one connection's error.
BASELINE_CONNECTIONS = 5
# Time of a connection besides traffic, of adding and removing a shaper, and of opening the link (s, virtual lab).
SET_UP_S = 0.4
SHAPER_S = 0.4
OPENING_S = 5.0
# For a reduction this near to the tolerance, both pass and fail are right.
AT_THE_LIMIT = 0.002
# The largest allowed difference between the requested and the measured reduction.
SHAPER_ERROR = 0.005
_PASSED = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED)


@dataclass(frozen=True)
class SelftestCase:
    """One gate: traffic in one direction of a link that is slower by ``reduction`` (0.05 = 5 %)."""

    way: Direction
    reduction: float


@dataclass(frozen=True)
class SelftestPlan:
    """``repeats`` gates for each reduction and for none, in alternating directions and the random order of ``seed``."""

    reductions: tuple[float, ...]
    repeats: int
    profile: Profile
    seed: int

    def order(self, ways: Sequence[Direction]) -> list[SelftestCase]:
        """Return all gates in random order, so that slow drift of the lab cannot look like a reduction."""
        cases = [
            SelftestCase(ways[index % len(ways)], reduction)
            for reduction in (0.0, *self.reductions)
            for index in range(self.repeats)
        ]
        random.Random(self.seed).shuffle(cases)
        return cases

    def seconds(self, ways: int, tolerance: float) -> float:
        """Return the approximate duration for one combination (s). Gates near the limit take half of the budget."""
        connection_s = self.profile.connection_s + SET_UP_S
        total = OPENING_S + ways * BASELINE_CONNECTIONS * connection_s
        for reduction in (0.0, *self.reductions):
            margin = abs(reduction - tolerance)
            if margin <= AT_THE_LIMIT:
                connections = self.profile.budget_s / self.profile.connection_s / 2
            else:
                connections = self.profile.fails_after if reduction > tolerance else self.profile.passes_after
            total += self.repeats * (connections * connection_s + (SHAPER_S if reduction else 0.0))
        return total


class Mark(StrEnum):
    """The rating of a verdict on a known reduction."""

    RIGHT = "right"
    WRONG = "wrong"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"


@dataclass(frozen=True)
class SelftestOutcome:
    """One gate: its verdict, its measured goodput, its seconds of traffic, and its seconds in all."""

    case: SelftestCase
    verdict: Verdict
    goodput: Bitrate
    traffic_s: float
    seconds: float
    reason: str

    def as_json(self) -> dict[str, object]:
        return {
            "direction": str(self.case.way),
            "reduction": self.case.reduction,
            "verdict": str(self.verdict),
            "goodput_bps": self.goodput.bps,
            "traffic_seconds": self.traffic_s,
            "seconds": self.seconds,
            "reason": self.reason,
        }


@dataclass
class SelftestReport:
    """The results of one combination so far. Each limit is ``tolerance`` (0.03 = 3 %) below its baseline."""

    combination: Combination
    tolerance: float
    ways: Sequence[Direction]
    baselines: dict[Direction, Bitrate] = field(default_factory=dict)
    outcomes: list[SelftestOutcome] = field(default_factory=list)


def mark(outcome: SelftestOutcome, tolerance: float) -> Mark:
    """Rate a verdict: a reduction below the tolerance must pass, above it fail; at the tolerance both are right."""
    if outcome.verdict is Verdict.INCONCLUSIVE:
        return Mark.INCONCLUSIVE
    if outcome.verdict not in (*_PASSED, Verdict.FAIL):
        return Mark.INVALID
    if at_limit(outcome.case.reduction, tolerance):
        return Mark.RIGHT
    must_fail = outcome.case.reduction > tolerance
    return Mark.RIGHT if (outcome.verdict is Verdict.FAIL) is must_fail else Mark.WRONG


def at_limit(reduction: float, tolerance: float) -> bool:
    """Return whether a reduction is so near to the tolerance that both pass and fail are right."""
    return abs(reduction - tolerance) <= AT_THE_LIMIT


@dataclass(frozen=True)
class Count:
    """The gates of one reduction: the number of verdicts by rating, and their seconds of traffic.

    ``measured`` is the mean reduction that the gates measured, over both directions (None: all were invalid).
    ``passed`` is the number that passed. Invalid gates count in ``marks`` only.
    """

    reduction: float
    at_limit: bool
    marks: Mapping[Mark, int]
    passed: int
    median_s: float
    most_s: float
    measured: float | None

    @property
    def gates(self) -> int:
        return sum(self.marks.values())

    @property
    def judged(self) -> int:
        """The number of gates with a valid verdict."""
        return self.gates - self.marks[Mark.INVALID]

    @property
    def shaper_erred(self) -> bool:
        """Whether the link did not slow down by the requested amount, so that the counts prove nothing."""
        return self.reduction > 0 and self.measured is not None and abs(self.measured - self.reduction) > SHAPER_ERROR

    def as_json(self) -> dict[str, object]:
        return {
            "reduction": self.reduction,
            "at_limit": self.at_limit,
            "gates": self.gates,
            **{str(kind): self.marks[kind] for kind in Mark},
            "passed": self.passed,
            "traffic_seconds_median": self.median_s,
            "traffic_seconds_90_percent": self.most_s,
            "measured_reduction": self.measured,
        }


def count(outcomes: Sequence[SelftestOutcome], baselines: Mapping[Direction, Bitrate], tolerance: float) -> list[Count]:
    """Return a count for each reduction, in ascending order. ``baselines`` are by direction."""
    found = []
    for reduction in sorted({one.case.reduction for one in outcomes}):
        own = [one for one in outcomes if one.case.reduction == reduction]
        marks = [mark(one, tolerance) for one in own]
        judged = [one for one, kind in zip(own, marks, strict=True) if kind is not Mark.INVALID]
        seconds = sorted(one.traffic_s for one in judged) or [0.0]
        found.append(
            Count(
                reduction,
                at_limit(reduction, tolerance),
                {kind: marks.count(kind) for kind in Mark},
                sum(one.verdict in _PASSED for one in own),
                median(seconds),
                seconds[math.ceil(0.9 * len(seconds)) - 1],
                fmean(1 - one.goodput.bps / baselines[one.case.way].bps for one in judged) if judged else None,
            )
        )
    return found


def table(counts: Iterable[Count]) -> list[str]:
    """Return the counts as a table of 80 columns."""
    rows: list[tuple[str, ...]] = [
        ("slower by", "gates", "right", "wrong", "inconcl.", "traffic median", "  90 %", "measured")
    ]
    below: list[list[str]] = []
    for one in counts:
        marks = one.marks
        notes = [f"at the limit: {one.passed} passed"] if one.at_limit else []
        notes += [f"{marks[Mark.INVALID]} invalid"] if marks[Mark.INVALID] else []
        numbers = (one.gates, marks[Mark.RIGHT], marks[Mark.WRONG], marks[Mark.INCONCLUSIVE])
        seconds = (f"{one.median_s:.1f} s", f"{one.most_s:.1f} s")
        measured = "-" if one.measured is None else percent(one.measured)
        rows.append((percent(one.reduction), *map(str, numbers), *seconds, measured))
        below.append([f"    {'; '.join(notes)}"] if notes else [])
    return text_table(rows, ">  >  >  >  >  >  >  >", notes=below)


def percent(share: float) -> str:
    """Return ``5 %``; a value that rounds to 0 has no sign."""
    return f"{round(share * 100, 1) + 0.0:g} %"


def sentence(name: str, tolerance: float, counts: Sequence[Count]) -> str:
    """Describe what the gate can and cannot detect, and in how many seconds of traffic."""
    erred = next((one for one in counts if one.shaper_erred), None)
    if erred is not None:
        return (
            f"{name}: the shaper slowed the link by {percent(erred.measured or 0.0)} instead of "
            f"{percent(erred.reduction)}, so the counts prove nothing; "
            "check whether something else limits the link"
        )
    parts = []
    for one in counts:
        if one.at_limit:
            continue
        seconds = f"{one.median_s:.0f} s of traffic (90 %: {one.most_s:.0f} s)"
        right, what = one.marks[Mark.RIGHT], f"a link {percent(one.reduction)} slower"
        what = "an unchanged link" if not one.reduction else what
        verb = "passes" if one.reduction < tolerance else "is detected"
        if not one.judged:
            parts.append(f"no gate on {what} was valid")
        elif right == one.judged:
            parts.append(f"{what} {verb} after {seconds}")
        else:
            parts.append(f"{what} {verb} only in {right} of {one.judged} gates, after {seconds}")
    text = f"{name}, limit {percent(tolerance)} below the baseline: {'; '.join(parts)}"
    for one in counts:
        if one.at_limit:
            text += f"; a link {percent(one.reduction)} slower is at the limit: {one.passed} of {one.judged} passed"
    return text


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
