"""Judge a value beside goodput by its limit, with the test of goodput on logarithms: each connection gives one value.

A share with an absolute limit is judged by how many connections exceed it: shares near 0 have no useful logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.judge.baseline import Baseline, Reference
from pytest_pinet.judge.extras import STRICT_REASON
from pytest_pinet.judge.gate import GatePlan, decided, gating, improved
from pytest_pinet.judge.profile import most_specific, tolerance_of
from pytest_pinet.judge.shares import Events, ShareRule
from pytest_pinet.judge.spread import Noise
from pytest_pinet.judge.statistics import counted
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.figures import Better, Figure, Sample
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.limits import METRICS, Limit, Metric, Origin, Threshold
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.measurement import Sample as Interval
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.topology import TopologyFlow
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

# Without a measured noise: round trips differ by 2 to 50 % between connections, and a few values soon tell more.
UNMEASURED = Noise(connections=0.1, freedom=1, sessions=0.02, assumed=True)
# Of connections of a good link, this share exceeds a limit on a share; of connections of a bad link, this one.
GOOD_MISS, BAD_MISS = 0.05, 0.8
NOTHING_KNOWN = Reference()
_ONLY = TopologyFlow(0, 1, Direction.TX)


@dataclass(frozen=True)
class FigureRuling:
    """The judgement of a value so far, and whether it needs another connection."""

    judgement: FigureJudgement
    wanted: bool = False


def figure_tolerance(figure: Figure, limits: Sequence[Limit], key: MetricKey) -> float:
    """Return the tolerance of the call or the marker. A tolerance of a lab file or an option is for goodput."""
    own = [one for one in limits if one.origin in (Origin.CALL, Origin.MARKER)]
    return tolerance_of(own, key, figure.tolerance)


def below_baseline(figure: Figure, baseline: Baseline | None, tolerance: float) -> Threshold | None:
    """Return the limit that follows from an accepted baseline; None without one that has enough runs."""
    if (known := gating(baseline)) is None:
        return None
    value, down = figure.of_rate(known.figure.bps), figure.better is Better.DOWN
    side = "above" if down else "below"
    words = f"{Share(tolerance)} {side} the baseline {figure.show(value)}"
    return Threshold(Metric.TOLERANCE, value * (1 + tolerance if down else 1 - tolerance), words, baseline=value)


def as_connection(figure: Figure, sample: Sample, seconds: float) -> Connection:
    """Return a connection whose rate is the level of this value, so that the judges of goodput take it."""
    value = sample.values.get(figure.name)
    octets = 0 if value is None else round(figure.rate(value) * seconds / 8)
    flow = Flow(Direction.TX, (Interval(0.0, seconds, octets),))
    excluded = sample.excluded or ("" if value is not None else f"it has no {figure.name}")
    return Connection((MeasuredFlow(0, 1, _ONLY, Direction.TX, flow),), excluded=excluded)


def without_limit(figure: Figure, samples: Sequence[Sample]) -> FigureJudgement:
    """Return the values of the samples that count; they pass."""
    values = [one.values[figure.name] for one in samples if not one.excluded and figure.name in one.values]
    return FigureJudgement.without_limit(figure, values)


def judge_figure(
    figure: Figure,
    samples: Sequence[Sample],
    seconds: float,
    key: MetricKey,
    plan: GatePlan,
    reference: Reference = NOTHING_KNOWN,
) -> FigureRuling:
    """Judge the samples, each of ``seconds``, by the most specific limit on this value, else by its baseline.

    Without both the values pass, and the reason says so. A value that no connection has is skipped.
    """
    connections = [as_connection(figure, one, seconds) for one in samples]
    found = without_limit(figure, samples)
    value, values = found.value, found.values
    spent_s = len(samples) * seconds
    over = plan.profile.more(spent_s, 0.0) < 1
    limit = most_specific(plan.limits, key, Metric(figure.name)) if figure.name in METRICS else None
    baseline = None if limit is not None else reference.baseline
    tolerance = figure_tolerance(figure, plan.limits, key)
    threshold = below_baseline(figure, baseline, tolerance)
    threshold = threshold if limit is None else limit.threshold()
    if value is None:
        why = f"no connection gave a value of {figure.name}: {connections[-1].excluded}"
        needed = threshold is not None or all(one.excluded for one in samples)
        verdict = Verdict.INCONCLUSIVE if needed else Verdict.SKIPPED
        return FigureRuling(replace(found, verdict=verdict, reason=why, limit=threshold), not over)
    if threshold is None:
        missing = max(plan.profile.passes_after, plan.profile.fails_after) - len(values)
        return FigureRuling(found, missing > 0 and not over)
    verdict, reason = threshold.judge(value, figure if limit is None else None)
    found = replace(found, verdict=verdict, reason=reason, limit=threshold)
    if figure.unit == "share" and figure.better is Better.DOWN:
        return _by_misses(found, threshold, plan, over)
    return _by_level(found, figure, threshold, connections, plan, replace(reference, baseline=baseline), tolerance)


def _by_level(
    found: FigureJudgement,
    figure: Figure,
    threshold: Threshold,
    connections: Sequence[Connection],
    plan: GatePlan,
    reference: Reference,
    tolerance: float,
) -> FigureRuling:
    noise = UNMEASURED if reference.noise.assumed else reference.noise
    least, baseline = Bitrate(figure.rate(threshold.number)), gating(reference.baseline)
    _, final = decided(found, connections, least, noise, replace(plan, link_ups=False), baseline, figure)
    if final is None:
        return FigureRuling(found, wanted=True)
    if baseline is not None:
        final = improved(final, baseline, tolerance, figure.show(figure.of_rate(baseline.figure.bps)))
    if final.interval is not None:
        low, high = sorted(figure.of_rate(bps) for bps in final.interval)
        final = replace(final, interval=(low, high))
    return FigureRuling(final)


def _by_misses(found: FigureJudgement, threshold: Threshold, plan: GatePlan, over: bool) -> FigureRuling:
    """Judge by the connections that exceed the limit (Wald 1947): is it one in twenty, or are it four in five?"""
    seen = Events.of(value > threshold.number for value in found.values)
    misses, n = seen.bad, seen.count
    verdict = ShareRule(GOOD_MISS, BAD_MISS, n if over else n + 1, plan.error_rate, plan.error_rate).judge(seen)
    why = f"above the limit in {counted(misses, n)}"
    if verdict is Verdict.FAIL:
        reason = found.reason if found.verdict is Verdict.FAIL else f"{found.reason}, but {why}"
        return FigureRuling(replace(found, verdict=Verdict.FAIL, reason=reason, stopped=why, state="confirmed"))
    if verdict is Verdict.PASS:
        verdict = Verdict.MARGINAL if misses else Verdict.PASS if found.verdict is Verdict.FAIL else found.verdict
        state = "cleared" if misses else ""
        reason = f"{found.reason}; {why}, but the repetitions passed" if misses else found.reason
        return FigureRuling(replace(found, verdict=verdict, reason=reason, stopped=why, state=state))
    if verdict is None:
        return FigureRuling(found, wanted=True)
    reason = f"{found.reason}, but this is not certain: {why}"
    return FigureRuling(replace(found, verdict=Verdict.INCONCLUSIVE, reason=reason, stopped=why, state="undecided"))


def strictly(found: FigureJudgement) -> FigureJudgement:
    """Make a marginal value fail."""
    if found.verdict is not Verdict.MARGINAL:
        return found
    return replace(found, verdict=Verdict.FAIL, reason=f"{found.reason}; {STRICT_REASON}")
