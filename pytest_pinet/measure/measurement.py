"""One measurement from an open link to a judged result record: traffic, evidence, physical limit, limit, verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from pytest_pinet.errors import DroppedLink, InvalidMeasurement, LabError, UnsupportedError, first_line
from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.bottleneck import full_all_the_time, kernel_notes, limited_by
from pytest_pinet.judge.circumstances import (
    MOST_REPEATS,
    Circumstances,
    Excuse,
    disturbed,
    excuses,
    other_work_notes,
    undisturbed,
)
from pytest_pinet.judge.costs import cost_figures
from pytest_pinet.judge.difference import with_costs
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures, strictly
from pytest_pinet.judge.preconditions import (
    failed_requests,
    ineffective_settings,
    management_notes,
    management_trouble,
    unseen,
)
from pytest_pinet.judge.profile import drops_limit
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link, can_bounce
from pytest_pinet.measure.link_result import by_end, isolation_notes, link_result, once_per_boot, read_ends
from pytest_pinet.measure.traffic_runner import SKEW_MAX_S, MeasureContext, Runs
from pytest_pinet.measure.udp_ladder import Ladder
from pytest_pinet.model.connection import Connection, Fresh, MeasuredFlow
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.measurement import HttpRecord, WindowRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, HttpTraffic, LadderTraffic, Traffic
from pytest_pinet.model.verdict import GOOD, Verdict
from pytest_pinet.report.result_record import evidence_records, http_record, most_apart, window_record
from pytest_pinet.report.sentences import traffic_notes, tuning_notes, versions_text
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool
from pytest_pinet.traffic.wrapping_tools import wrap_scaled

# Time of one measurement for set-up, link-ups and waiting for quiet ends, beside its traffic.
BESIDE_TRAFFIC_S = 180.0
LOOPBACK = "127.0.0.1"
# The shortest run of iperf3 over the loopback of an end. It is long enough: a peer's capacity is far above the limit,
# or the peer is the bottleneck.
LOOPBACK_S = 1.0


def measure(context: MeasureContext, traffic: Traffic, plan: GatePlan) -> ResultRecord:
    """Measure on fresh connections until every value is judged, and return the record.

    The caller fills in ``test``, ``files`` and ``rerun``. Raises LabError, UnsupportedError, InvalidMeasurement.
    """
    link = context.link
    started = datetime.now(UTC)
    clock = time.monotonic()
    unread: list[str] = []
    # Read before the traffic: an end that does not answer afterwards must not lose a finished verdict.
    ends = read_ends(link, unread.append)
    facts = link.facts
    plan = replace(plan, link_ups=plan.link_ups and can_bounce(link))
    keys = [MetricKey(link.combination.identity, traffic, way) for way in traffic.direction.parts]
    max_drops = drops_limit(plan.limits, keys)
    with Runs(context, plan.profile.budget_s + BESIDE_TRAFFIC_S, plan.link_ups, max_drops) as runs:
        changes = runs.cables.carrier_changes[0]
        link_up = None if changes is None else str(changes)
        course = _Course(facts, traffic, plan, runs)
        found = course.decide()
        busy: list[Excuse] = []
        capacities: dict[str, Bitrate] = {}
        doubts: list[str] = []
        if found.verdict not in GOOD:
            busy = excuses(runs.connections, left_out=found.verdict is Verdict.INCONCLUSIVE)
        if found.verdict is Verdict.FAIL:
            with doing("look for another cause of the low value"):
                capacities, doubts = ceilings(link, traffic, runs.connections[0].flows, context.tool)
        broke = runs.finish(traffic)
        full = course.full(found, course.connections)
        found = course.judge(Circumstances(busy=busy, full=full, capacities=capacities, broken=broke))
        if plan.strict:
            found = strictly(found)
    connections = course.connections
    costs = cost_figures(connections, plan, MetricKey(link.combination.identity, traffic, traffic.direction))
    found = with_costs(found, [one.reason for one in costs.values() if one.verdict is Verdict.FAIL])
    last = runs.connections[-1].measurements
    windows = _windows(connections)
    skew_s, skew_within_s = most_apart(windows)
    later = _with_duplexes(facts, runs.cables.duplexes)
    record = link_result(
        link,
        traffic,
        found,
        **ends,
        link_up=link_up,
        profile=plan.profile.name,
        versions=by_end(link, [m.versions for m in last], traffic),
        cpu_percent=by_end(link, [m.cpu_percent for m in last], traffic),
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        traffic_seconds=runs.traffic_s,
        cables=runs.cables.records(),
        evidence=evidence_records(one.evidence for one in runs.connections),
        limited_by=limited_by(later, course.sent, connections, found.directions, runs.conditions.before, capacities),
        windows=windows or None,
        start_skew_s=skew_s,
        start_skew_within_s=skew_within_s,
        ladder=None if course.ladder is None else course.ladder.record(),
        http=_http(connections, traffic),
        figures=costs or None,
    )
    context.raw["versions.txt"] = versions_text(record)
    return record.replace(
        notes=[
            *kernel_notes(runs.connections),
            *dict.fromkeys(
                [note for one in runs.connections for m in one.measurements for note in m.notes]
                + [event.text for one in runs.connections for event in one.link_events]
            ),
            *isolation_notes(link),
            *unread,
            *dict.fromkeys(one.act for one in broke),
            *runs.conditions.notes,
            *other_work_notes(runs.connections, busy, found),
            *doubts,
            *unseen(traffic, connections),
            *management_notes(runs.connections),
            *runs.management.uncounted,
            *tuning_notes(link.tunings),
            *_ungated(facts, traffic, plan),
            *traffic_notes(record, SKEW_MAX_S),
        ]
    )


class _Course:
    """The course of a measurement: its runs so far, and what is judged of them. Creating it runs the first traffic."""

    def __init__(self, facts: LinkFacts, traffic: Traffic, plan: GatePlan, runs: Runs) -> None:
        self._facts = facts
        self._traffic = traffic
        self._plan = plan
        self._runs = runs
        self._repeats = 0
        self.ladder = Ladder(traffic, plan.profile) if isinstance(traffic, LadderTraffic) else None
        if self.ladder is None:
            runs.again(traffic)
        else:
            self.ladder.measure(runs)

    @property
    def connections(self) -> list[Connection]:
        """The connections that are judged: of a ladder only one step. All of its steps are evidence."""
        return self._runs.connections if self.ladder is None else self.ladder.judged[0]

    @property
    def sent(self) -> Traffic:
        """The traffic of the connections that are judged."""
        return self._traffic if self.ladder is None else self.ladder.judged[1]

    def decide(self) -> MeasurementJudgement:
        """Run more traffic until the judgement is final. After a bad one, read the evidence that was not read yet.

        A connection with other work is repeated before it is believed. In the end, the connections without other work
        decide. If they are too few, more traffic runs, as far as the budget goes.
        """
        while True:
            with doing("judge"):
                found = self.judge()
            if why := self._other_work(found):
                self._repeats += 1
                self._runs.set_aside(why)
            elif found.wanted is not None:
                self._measure_again(found.wanted, found.wanted_s)
            else:
                if found.verdict not in GOOD:
                    self._runs.read_rest()
                kept = self._without_other_work(found)
                if kept is None:
                    return found
                self._runs.keep(kept)

    def judge(self, here: Circumstances | None = None) -> MeasurementJudgement:
        """Judge the connections so far. ``here`` has the circumstances that are known only after all traffic."""
        here = here or Circumstances()
        here = replace(
            here,
            conditions=self._runs.conditions.before,
            ineffective=ineffective_settings(self._facts, self._traffic, self.connections),
            unanswered=failed_requests(self.connections),
            lossy_ladder="" if self.ladder is None else self.ladder.lossy,
            # More traffic would only repeat it.
            broken=here.broken or management_trouble(self._runs.connections),
        )
        return figures(self._facts, self._traffic, self.connections, self._plan, here)

    def full(self, found: MeasurementJudgement, connections: Sequence[Connection]) -> dict[Direction, str]:
        """Return a proof for each direction whose shaper or link was full during all of these connections."""
        before = self._runs.conditions.before
        return full_all_the_time(self._facts, self.sent, connections, found.directions, before)

    def _other_work(self, found: MeasurementJudgement) -> str:
        """Return why the latest connection must be repeated; empty if its value is believed."""
        uncertain = found.wanted is not None or found.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
        latest = self.connections[-1]
        if not uncertain or self.ladder is not None or latest.excluded or self._repeats == MOST_REPEATS:
            return ""
        why = disturbed(latest)
        return "" if why and self.full(found, [latest]) else why

    def _measure_again(self, fresh: Fresh, least_s: int) -> None:
        self._runs.conditions.look_for_others()
        connections = self.connections
        one = self._runs.again(_at_least(self.sent, least_s), fresh if self._plan.link_ups else Fresh.CONNECTION)
        if self.ladder is not None:
            connections.append(one)

    def _without_other_work(self, found: MeasurementJudgement) -> list[Connection] | None:
        """Return the connections, of which fewer count, if other work may explain a failure; None if it does not."""
        if found.verdict is not Verdict.FAIL or self.ladder is not None:
            return None
        full = self.full(found, self.connections)
        is_full = all(way in full for way, one in found.directions.items() if one.verdict is Verdict.FAIL)
        spent = self._runs.traffic_s >= self._plan.profile.budget_s
        return None if is_full or spent else undisturbed(self.connections)


def _with_duplexes(facts: LinkFacts, duplexes: Sequence[str | None]) -> LinkFacts:
    """Return the facts with the duplex after the traffic: some USB drivers negotiate again without a carrier change."""
    ends = (replace(end, duplex=duplex) for end, duplex in zip(facts.ends, duplexes, strict=True))
    return replace(facts, ends=tuple(ends))


def of_dropped_link(link: Link, traffic: Traffic, profile: str, started: datetime, error: DroppedLink) -> ResultRecord:
    """Return the record of a measurement that the link of the device under test ended. It has no value, so no metric.

    The caller fills in the same parts as for ``measure``.
    """
    unread: list[str] = []
    ends: dict[str, object] = {}
    # Without its link, an end perhaps does not answer.
    with suppress(LabError):
        ends = read_ends(link, unread.append)
    http = None
    if isinstance(traffic, HttpTraffic):
        http = HttpRecord(
            size_bytes=traffic.size, connections=traffic.streams, requests_per_s=0.0, failed={}, rounds=()
        )
    record = link_result(
        link,
        traffic,
        MeasurementJudgement(Verdict.FAIL, str(error)),
        **ends,
        id=link.id,
        message=str(error),
        profile=profile,
        started=started.isoformat(),
        seconds=(datetime.now(UTC) - started).total_seconds(),
        http=http,
        notes=[*tuning_notes(link.tunings), *unread],
    )
    # No value of this traffic was measured.
    return record.replace(combination=record.combination.replace(traffic=""))


def _at_least(traffic: Traffic, seconds: int) -> Traffic:
    """Return the traffic for so many seconds, if it is shorter and its start is detected."""
    if isinstance(traffic, HttpTraffic | LadderTraffic) or traffic.warmup_s is not None or seconds <= traffic.seconds:
        return traffic
    return replace(traffic, duration_s=traffic.duration_s + seconds - traffic.seconds)


def _ungated(link: LinkFacts, traffic: Traffic, plan: GatePlan) -> list[str]:
    """Return a sentence if an accepted baseline was ignored."""
    if link.scale == 1 or not any(plan.reference(way).baseline for way in traffic.direction.parts):
        return []
    return [f"accepted baseline ignored: it was recorded at full link rate, but links run at {link.scale:g} of it"]


def _windows(connections: Sequence[Connection]) -> list[WindowRecord]:
    windows = [(number, one.measurements[0].window) for number, one in enumerate(connections, 1) if one.measurements]
    return [window_record(number, one) for number, one in windows if one is not None]


def _http(connections: Sequence[Connection], traffic: Traffic) -> HttpRecord | None:
    reports = [m.http for one in connections if not one.excluded for m in one.measurements if m.http is not None]
    return http_record(traffic.size, traffic.streams, reports) if reports and isinstance(traffic, HttpTraffic) else None


def ceilings(
    link: Link, traffic: Traffic, flows: Sequence[MeasuredFlow], tool: TrafficTool
) -> tuple[dict[str, Bitrate], list[str]]:
    """Return the loopback goodput of each end except the device under test, by the name of the end.

    Both processes run on the end's processor, so the end could send or receive more than this value. For UDP the value
    is never above the sent rate. It is measured once per lease of a node. The second value has a sentence for each end
    that could not be measured, for any reason: this error must not replace the verdict of the gate.
    """
    others = {index for flow in flows for index in (flow.sender, flow.receiver)}
    dut = link.dut.endpoint.node
    found: dict[str, Bitrate] = {}
    doubts = []
    for end in (link.ends[index] for index in sorted(others)):
        if end.endpoint.node is dut:
            continue
        try:
            found[str(end.endpoint)] = _ceiling(end, traffic, wrap_scaled(tool, link.scale))
        except (LabError, UnsupportedError, InvalidMeasurement) as error:
            doubts.append(f"the loopback goodput of {end.endpoint} could not be measured: {first_line(error)}")
    return found, doubts


def _ceiling(end: End, traffic: Traffic, tool: TrafficTool) -> Bitrate:
    own = Traffic(
        Direction.TX,
        udp=traffic.udp,
        streams=traffic.streams,
        duration_s=LOOPBACK_S,
        warmup_s=0.0,
        # TCP finds the capacity itself. UDP without a rate would lose most of its datagrams.
        bitrate=traffic.bitrate if traffic.udp else None,
        length=traffic.length,
    )
    if isinstance(traffic, HttpTraffic):
        own = replace(traffic, direction=Direction.TX, duration_s=LOOPBACK_S)
    job = TrafficJob(end.shell, end.shell, LOOPBACK, LOOPBACK, own)
    # The key contains all parameters: other streams, rates or packet sizes give other values.
    return once_per_boot(end, f"loopback {own.key}", lambda: tool.measure(job).flows[Direction.TX].goodput)
