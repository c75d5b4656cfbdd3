"""The result of a gate call that measured both builds: values of build B, limits from build A."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from pytest_pinet.ab.boots import MadeBoot
from pytest_pinet.ab.options import ABOptions
from pytest_pinet.ab.series import Turn, TurnSeries, counted_ways
from pytest_pinet.history.differences import DUT, OF_BUILD, peer_changes
from pytest_pinet.judge.bottleneck import kernel_notes, limited_by
from pytest_pinet.judge.circumstances import Circumstances
from pytest_pinet.judge.costs import costs, middle
from pytest_pinet.judge.difference import LAYOUT, AgainstA, judge_against_a, of_costs, of_settings, with_costs
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.level import level_bps
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.preconditions import management_notes
from pytest_pinet.judge.profile import DEFAULT_PROFILE, PROFILES
from pytest_pinet.judge.turns import Side
from pytest_pinet.measure.link_result import link_result
from pytest_pinet.model.evidence import Diagnosis, Suspect
from pytest_pinet.model.judgement import DirectionJudgement, FigureJudgement, MeasurementJudgement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.base import Record
from pytest_pinet.model.record.change import (
    ChangedCostRecord,
    ChangedDirectionRecord,
    ChangeRecord,
    RanRecord,
)
from pytest_pinet.model.record.measurement import ConnectionRecord, DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, HttpTraffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import connection_record, evidence_records, http_record
from pytest_pinet.report.sentences import folded, tuning_notes

_OPEN = Verdict.INCONCLUSIVE
LAYOUT_NOTE = (
    "only the order and the addresses of the code differ between the builds; with --layout-counts, this is a regression"
)
# The short facts of a board that identify its build.
_IDENTITY = ("uname", "build_id", "model", "eeprom")


def changed_record(series: TurnSeries, options: ABOptions, boots: list[MadeBoot]) -> ResultRecord:
    """Return values of B (of A before the first turn of B), limits from A, and the difference."""
    last = (series.of(Side.B) or series.turns)[-1]
    link, traffic = last.link, series.traffic
    judged = judge_against_a(_own(series, last), {way: _against_a(series, way, options) for way in series.found})
    judged = with_costs(judged, [one.why for one in series.costs.values() if one.verdict is Verdict.FAIL])
    connections = series.kept(Side.B) or series.kept(Side.A)
    suspects = _suspects(series, judged)
    reports = [m.http for one in connections for m in one.measurements if m.http is not None]
    http = http_record(traffic.size, traffic.streams, reports) if isinstance(traffic, HttpTraffic) and reports else None
    between = [f"the builds differ: {one.text}" for one in suspects[:3]]
    return link_result(
        link,
        traffic,
        judged,
        build=_build(last, boots) | _source(options, last.side),
        versions=connections[-1].measurements[0].versions
        if connections and len(connections[-1].measurements) == 1
        else {},
        notes=[*_notes(series, boots), *tuning_notes(link.tried), *between],
        started=series.started.isoformat(),
        seconds=series.seconds,
        traffic_seconds=sum(one.lasted_s for turn in series.turns for one in turn.connections),
        files=series.files,
        settings=last.settings,
        evidence=evidence_records(one.evidence for one in connections),
        limited_by=_limited_by(series, last, judged.directions) if connections else None,
        change=_change(series, options, boots, suspects),
        ran=ran_records(boots, link.dut.device),
        http=http,
    )


def as_layout(record: ResultRecord) -> ResultRecord:
    """Return the result of a slower build of which only the order and the addresses of the code differ: undecided."""

    def undecided(one: DirectionRecord | ChangedDirectionRecord | ChangedCostRecord) -> Record:
        key = "reason" if isinstance(one, DirectionRecord) else "why"
        is_slower = one.verdict is Verdict.FAIL
        return one.replace(verdict=_OPEN, **{key: f"{LAYOUT} {getattr(one, key)}"}) if is_slower else one

    change, figures = record.change, record.figures
    judged: dict[str, DirectionRecord | FigureJudgement | ChangedCostRecord] = {
        **record.directions,
        **(figures or {}),
        **((change and change.costs) or {}),
    }
    return record.replace(
        verdict=_OPEN,
        layout=[name for name, one in judged.items() if one.verdict is Verdict.FAIL],
        message=f"{LAYOUT} {record.message}",
        notes=[LAYOUT_NOTE, *record.notes],
        directions={way: undecided(one) for way, one in record.directions.items()},
        figures=figures and {name: _undecided_figure(one) for name, one in figures.items()},
        change=change
        and change.replace(
            directions={way: undecided(one) for way, one in change.directions.items()},
            costs=change.costs and {key: undecided(one) for key, one in change.costs.items()},
        ),
    )


def _undecided_figure(one: FigureJudgement) -> FigureJudgement:
    is_slower = one.verdict is Verdict.FAIL
    return replace(one, verdict=_OPEN, reason=f"{LAYOUT} {one.reason}") if is_slower else one


def _build(last: Turn, boots: list[MadeBoot]) -> dict[str, str | None]:
    """Return the facts that identify the build. The record of each turn has the complete facts."""
    running: dict[str, str | None] = next((boot.turn.running for boot in reversed(boots) if boot.side is last.side), {})
    return {key: running.get(key) for key in _IDENTITY if running.get(key)} | dict(last.build)


def _source(options: ABOptions, side: Side) -> dict[str, str | None]:
    """Return where the kernel of the build comes from, as far as it is known."""
    build = options.build(side)
    of = build.source if build is not None else None
    known = {} if of is None else {"tree": of.tree, "branch": of.branch, "commit": of.commit, "describe": of.describe}
    return {key: value for key, value in known.items() if value}


def ran_records(boots: Sequence[MadeBoot], device: str) -> dict[str, RanRecord]:
    """Return what the board reported in the latest boot of each build. ``device`` is that of the NIC under test."""
    return {
        str(boot.side): RanRecord(
            nic=dict(boot.build.nics.get(device, {})), changed=boot.build.changed, not_proved=boot.build.not_proved
        )
        for boot in boots
        if boot.build is not None
    }


def _own(series: TurnSeries, last: Turn) -> MeasurementJudgement:
    """Judge this build without a limit: only values that are impossible are invalid."""
    connections = [one for turn in series.of(last.side) for one in turn.connections]
    plan = GatePlan((), PROFILES[DEFAULT_PROFILE], link_ups=False, error_rate=series.rules.error_rate)
    return figures(last.link.facts, series.traffic, connections, plan, Circumstances(last.conditions))


def _against_a(series: TurnSeries, way: Direction, options: ABOptions) -> AgainstA:
    found = series.found[way]
    a_bps, b_bps = (_figure(series, side, way) for side in Side)
    names = options.name(Side.A), options.name(Side.B)
    return AgainstA(
        names[0],
        Bitrate(a_bps),
        Bitrate(b_bps or a_bps),
        series.tolerances[way],
        # While turns continue, an undecided comparison is not bad yet.
        found.verdict if found.decided else Verdict.PASS,
        f"{names[1]} (B) against {names[0]} (A): {found.why}",
        found.why,
        found.interval,
    )


def _figure(series: TurnSeries, side: Side, way: Direction) -> float:
    """Return the median level of all connections of a build, in bit/s; 0 if there is none."""
    levels = [level_bps(one.towards(way)) for one in series.kept(side)]
    known = [level for level in levels if level is not None]
    return median(known) if known else 0.0


def _change(series: TurnSeries, options: ABOptions, boots: list[MadeBoot], suspects: Sequence[Suspect]) -> ChangeRecord:
    connections = {turn.boot: _connections(turn) for turn in series.turns if turn.connections}
    return ChangeRecord(
        a=options.name(Side.A),
        b=options.name(Side.B),
        tolerance=max(series.tolerances.values()),
        connections_per_turn=series.connections,
        directions={
            str(way): ChangedDirectionRecord.of(
                one, a_bps=_figure(series, Side.A, way), b_bps=_figure(series, Side.B, way), between_turns=one.between
            )
            for way, one in series.found.items()
        },
        turns=tuple(boot.turn.replace(connections=connections.get(boot.turn.number, {})) for boot in boots),
        suspects=tuple(suspects),
        costs={
            key: ChangedCostRecord.of(one, a=middle(series.kept(Side.A), key), b=middle(series.kept(Side.B), key))
            for key, one in series.costs.items()
        }
        or None,
        cost_tolerance=series.cost_tolerance if series.costs else None,
        costs_unknown=series.costs_unknown or None,
    )


def _connections(turn: Turn) -> dict[str, list[ConnectionRecord]]:
    """Return the connections of a turn by direction, without samples: there are many connections."""
    return {
        str(way): [replace(connection_record(one.towards(way)), samples=()) for one in turn.connections]
        for way in counted_ways(turn.connections[0])
    }


def _limited_by(series: TurnSeries, turn: Turn, directions: Mapping[Direction, DirectionJudgement]) -> Diagnosis:
    return limited_by(turn.link.facts, series.traffic, series.kept(turn.side), directions, turn.conditions)


def _suspects(series: TurnSeries, judged: MeasurementJudgement) -> list[Suspect]:
    """Return the differences between the builds that may explain a changed value; none if no value changed."""
    verdicts = {one.verdict for one in series.found.values()}
    turns_a, turns_b = series.of(Side.A), series.of(Side.B)
    if not verdicts & {Verdict.FAIL, Verdict.IMPROVED} or not turns_a or not turns_b:
        return []
    found = of_settings(*([_chosen(turn) for turn in turns] for turns in (turns_a, turns_b)))
    a, b = (
        _limited_by(
            series,
            turns[-1],
            {way: replace(one, goodput=Bitrate(_figure(series, side, way))) for way, one in judged.directions.items()},
        )
        for side, turns in ((Side.A, turns_a), (Side.B, turns_b))
    )
    if a.cause is not b.cause:
        text = f"A is limited by {a.cause}, B by {b.cause}: {b.text}"
        found.append(Suspect("limited by", str(a.cause), str(b.cause), text))
    costs_a, costs_b = ([costs(one) for one in series.kept(side)] for side in (Side.A, Side.B))
    return found + of_costs(costs_a, costs_b)


def _chosen(turn: Turn) -> dict[str, str]:
    """Return the settings of the device under test that kernel and driver chose: the build itself is no suspect."""
    own = turn.settings.get(DUT, {})
    return {name: value for name, value in own.items() if name not in (*OF_BUILD, "command line", "end")}


def _notes(series: TurnSeries, boots: list[MadeBoot]) -> list[str]:
    every = [one for turn in series.turns for one in turn.connections]
    notes = [note for one in every for measurement in one.measurements for note in measurement.notes]
    notes += [event.text for one in every for event in one.link_events]
    notes += [*kernel_notes(every), *management_notes(every, series.usual_bps)]
    notes += [note for turn in series.turns for note in turn.notes]
    notes += [f"during the comparison: {text}" for text in peer_changes([turn.settings for turn in series.turns])]
    notes += [f"{side}: {text}" for side, ran in ran_records(boots, "").items() for text in ran.changed]
    for side in Side:
        own = [boot for boot in boots if boot.side is side]
        bad = [boot for boot in own if boot.turn.trouble]
        if bad:
            notes.append(f"{len(bad)} of {len(own)} turns of {side} have no result: {bad[-1].turn.trouble}")
    return folded(notes)
