"""What a Gbit costs the device under test, and whether it is dearer with build B than with build A.

A connection moves some Gbit. Its cost is what the device under test spent in the window of this traffic, for each Gbit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.baseline import compare
from pytest_pinet.judge.circumstances import disturbed
from pytest_pinet.judge.difference import Difference
from pytest_pinet.judge.figures import below_baseline
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import tolerance_of
from pytest_pinet.judge.spread import Noise
from pytest_pinet.judge.turns import Boot, ChangeRules, MeasuredTurn, judge_change
from pytest_pinet.judge.words import Words
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence
from pytest_pinet.model.figures import Better, Figure
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.verdict import Verdict

# The costs that are judged, by their key in ids: the words for them, which are their names among all costs.
JUDGED = {
    "cpu-per-gbit": "CPU ms per Gbit",
    "softirq-per-gbit": "softirq ms per Gbit",
    "interrupts-per-gbit": "interrupts per Gbit",
}
# The costs as values beside goodput, by the same key.
KINDS = {key: Figure(key, "ms/Gbit" if " ms " in name else "/Gbit", Better.DOWN) for key, name in JUDGED.items()}
# The default tolerance: B may take this share more of each cost.
COST_TOLERANCE = 0.10
# Costs alone justify no more turns. Goodput needs nearly as many on a bench without a calibration.
COST_TURNS = 9
# Without a calibration, a cost is assumed to differ by as much between connections and between boots.
COST_NOISE = Noise(connections=0.04, freedom=2, sessions=0.02, assumed=True)
# Driver counters whose names suggest a problem. A driver has hundreds of counters.
_TROUBLE = re.compile(r"drop|err|miss|timeout|no_buf|fifo|restart|fail|discard|over", re.IGNORECASE)


def costs(one: Connection) -> dict[str, float]:
    """Return what a connection cost the device under test for each Gbit. Costs that were not counted are absent."""
    moved = sum(sample.bytes for flow in one.flows for sample in flow.flow.samples) * 8 / 1e9
    if moved <= 0:
        return {}
    found: dict[str, float] = {}
    known = [flow.flow.retransmits for flow in one.flows if flow.flow.retransmits is not None]
    if known:
        found["retransmits per Gbit"] = sum(known) / moved
    # The differences of several connections together are no cost of the last one.
    if one.evidence and one.evidence[0].first_connection is None:
        found |= _of_end(one.evidence[0], moved)
    return found


def _of_end(end: EndEvidence, moved: float) -> dict[str, float]:
    found: dict[str, float] = {}
    if end.processors is not None and end.counted_s:
        # A hypervisor and other programs are no part of the cost.
        busy_s = sum(load.busy - load.steal for load in end.processors) * end.counted_s
        others_s = 0.0 if end.others is None else end.others.share * (end.window_s or end.counted_s)
        found["CPU ms per Gbit"] = max(busy_s - others_s, 0.0) * 1000 / moved
        interrupts_s = sum(load.interrupts for load in end.processors) * end.counted_s
        found["softirq ms per Gbit"] = interrupts_s * 1000 / moved
    if end.interrupts is not None:
        found["interrupts per Gbit"] = sum(sum(counts) for counts in end.interrupts.values()) / moved
    for name in ("NET_RX", "NET_TX"):
        if end.softirqs is not None and name in end.softirqs:
            found[f"{name} softirqs per Gbit"] = sum(end.softirqs[name]) / moved
    for name, count in (end.interface or {}).items():
        if name.endswith("_packets") or _TROUBLE.search(name):
            found[f"{name} per Gbit"] = count / moved
    for name, count in (end.nic or {}).items():
        if _TROUBLE.search(name):
            found[f"{name} (driver) per Gbit"] = count / moved
    return found


def why_unknown(connections: Sequence[Connection]) -> str:
    """Return why no cost of these connections can be judged; empty if one can."""
    reasons = [_why_unknown(one) for one in connections]
    return "" if not reasons or "" in reasons else reasons[-1]


def _why_unknown(one: Connection) -> str:
    own, *others = one.evidence or (None,)
    if own is None or (own.interrupts is None and own.processors is None) or own.first_connection is not None:
        return "the device under test did not report its processor time and interrupts"
    if own.machine is not None and any(end.machine == own.machine for end in others):
        return "the nodes share one kernel, which counts the work of all of them together"
    return disturbed(replace(one, evidence=(own,)))


def cost_figures(connections: Sequence[Connection], plan: GatePlan, key: MetricKey) -> dict[str, FigureJudgement]:
    """Return the costs of a measurement as values beside goodput, judged by their accepted baselines.

    Connections with other work on the device under test do not count. Without a baseline a cost has no limit.
    """
    counted = [costs(one) for one in connections if not one.excluded and not _why_unknown(one)]
    tolerance = tolerance_of(plan.limits, key, COST_TOLERANCE, Metric.COST_TOLERANCE)
    found = {}
    for name, kind in KINDS.items():
        values = tuple(one.get(JUDGED[name], 0.0) for one in counted)
        # A cost of 0 is too small to be counted in the ticks of a clock.
        if values and min(values) > 0:
            own = FigureJudgement.without_limit(kind, values)
            found[name] = _by_baseline(kind, own, plan, tolerance)
    return found


def _by_baseline(kind: Figure, own: FigureJudgement, plan: GatePlan, tolerance: float) -> FigureJudgement:
    """Judge a run as one value beside the boots of its baseline, since costs justify no more traffic."""
    baseline = plan.costs.get(kind.name)
    threshold = below_baseline(kind, baseline, tolerance)
    if baseline is None or threshold is None or own.value is None:
        return own
    sessions = grouped(((place.day, place.session), run.bps) for place, run in baseline.placed)
    old = replace(baseline, runs=tuple(Bitrate(geometric_mean(runs)) for runs in sessions.values()), places=())
    new = Bitrate(geometric_mean(kind.rate(value) for value in own.values))
    allowed = Tolerance(Share(1 - 1 / (1 + tolerance)))
    verdict = compare([new], old, allowed, plan.error_rate).verdict
    _, reason = threshold.judge(own.value, kind)
    if verdict not in (Verdict.FAIL, Verdict.PASS, Verdict.IMPROVED):
        verdict, reason = Verdict.INCONCLUSIVE, f"{reason}, but this is not certain"
    reason = f"{reason}; baseline of {len(old.runs)} boots or link-ups"
    return replace(own, verdict=verdict, reason=reason, limit=threshold)


def judge_costs(
    turns: Sequence[MeasuredTurn], rules: ChangeRules, noises: Mapping[str, Noise]
) -> dict[str, Difference]:
    """Judge each cost that all turns have, as goodput is judged: B fails if it is certainly dearer than tolerated.

    ``noises`` has what is known of each cost. Connections with other work on the device under test are left out.
    """
    known = [[costs(one) for one in turn.connections if not _why_unknown(one)] for turn in turns]
    each = [one for own in known for one in own]
    # A cost of 0 is too small to be counted in the ticks of a clock.
    names = [key for key, name in JUDGED.items() if each and all(one.get(name, 0.0) > 0 for one in each)]
    return {
        key: judge_cost(
            [
                Boot(turn.side, turn.at, tuple(one[JUDGED[key]] for one in own))
                for turn, own in zip(turns, known, strict=True)
            ],
            key,
            replace(rules, noise=noises.get(key, COST_NOISE)),
        )
        for key in names
    }


def judge_cost(boots: Sequence[Boot], key: str, rules: ChangeRules) -> Difference:
    """Judge one cost, which the boots have in place of the levels of their connections."""
    difference = f"B takes {{:.1f}} % {{}} {JUDGED[key]} than A ({{:+.1f}} to {{:+.1f}} %)"
    return judge_change(
        # Of goodput, less is worse: so the Gbit for each unit of the cost are compared.
        [replace(boot, levels=tuple(1 / level for level in boot.levels)) for boot in boots],
        rules,
        # Boots of a sound bench may differ by more: another processor takes the interrupts.
        obvious=-math.inf,
        words=Words("dearer", "cheaper", "less", "more", difference, inverse=True),
    )


def middle(connections: Iterable[Connection], key: str) -> float | None:
    """Return the mean of a judged cost over the connections that count for it; None without one."""
    found = [value for one in connections if (value := judged_cost(one, key)) is not None]
    return sum(found) / len(found) if found else None


def judged_cost(one: Connection, key: str) -> float | None:
    """Return a judged cost of a connection; None if the connection does not count for it."""
    return None if _why_unknown(one) else costs(one).get(JUDGED[key])


def shown_cost(key: str, value: float | None) -> str:
    """Return a value of a judged cost for a cell of a table."""
    return "-" if value is None else KINDS[key].show(value).removesuffix("/Gbit")
