"""A measurement of both builds as a result like any other: B is judged, A is its limit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from pytest_pinet.changing.asked import Asked
from pytest_pinet.changing.boots import MadeBoot
from pytest_pinet.changing.series import Series, Turn
from pytest_pinet.diagnosing import kernel_notes, limited_by
from pytest_pinet.figures import Figured, Plan, figure_id, figures
from pytest_pinet.judge.change import Difference
from pytest_pinet.judge.interleaved import Result, Side, figure_of_attempt
from pytest_pinet.judge.profile import DEFAULT_PROFILE, PROFILES
from pytest_pinet.judge.suspects import Suspect, of_costs, of_settings
from pytest_pinet.model.traffic import Direction, HttpTraffic
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst
from pytest_pinet.report.change import ChangedDirectionRecord, ChangeRecord, TurnRecord
from pytest_pinet.report.evidence import LimitedByRecord, evidence_record, limited_by_record
from pytest_pinet.report.parameters import parameters_hash
from pytest_pinet.report.record import DirectionRecord, ResultRecord, combination_record
from pytest_pinet.report.traffic import http_record
from pytest_pinet.report.tunings import tuning_notes, tuning_records
from pytest_pinet.standard_traffic import attempt_at

_VERDICTS = {
    Result.SLOWER: Verdict.FAIL,
    Result.SAME: Verdict.PASS,
    Result.FASTER: Verdict.IMPROVED,
    Result.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    # Of one that goes on nothing bad is known yet.
    Result.GO_ON: Verdict.PASS,
}

# By which notes of two connections differ that say the same.
_FIGURE = re.compile(r"\d[\d.]*(?: [kMGT]?bit/s)?")
# Of what a board says of itself, what is short and tells one build from the other.
_IDENTITY = ("uname", "build_id", "model", "eeprom")


def changed_record(series: Series, asked: Asked, boots: list[MadeBoot]) -> ResultRecord:
    """Figures of B, limits from A, and the difference; ``test``, ``rerun`` and ``scale`` are the caller's to fill in.

    While B was not measured yet, the figures are those of A.
    """
    last = (series.of(Side.B) or series.turns)[-1]
    link, traffic = last.link, series.traffic
    figured = _figured(series, last)
    directions = dict(figured.directions)
    for way, direction in directions.items():
        _judge(direction, series, Direction(way), asked)
    verdict = worst([Verdict(direction["verdict"]) for direction in directions.values()])
    worst_way = min(directions, key=lambda way: SEVERITY.index(Verdict(directions[way]["verdict"])))
    tries = series.tries(Side.B) or series.tries(Side.A)
    changed = _change(series, asked, boots)
    record: ResultRecord = {
        "id": figure_id(link, traffic),
        "test": "",
        "verdict": verdict.value,
        "message": f"{link.id} {worst_way}: {directions[worst_way]['reason']}",
        "combination": combination_record(link.combination, traffic),
        "build": _build(last, boots),
        "profile": "",
        "link": f"{link.path.speed_mbps} Mbit/s {link.path.duplex or 'unknown'} duplex, MTU {link.path.mtu}",
        "versions": dict(tries[-1].measurements[0].versions) if tries and len(tries[-1].measurements) == 1 else {},
        "cpu_percent": {},
        "notes": [*_notes(series, boots), *tuning_notes(link.tried)],
        "started": series.started.isoformat(),
        "seconds": series.seconds,
        "traffic_seconds": sum(one.seconds for turn in series.turns for one in turn.tries),
        "directions": directions,
        "flows": list(figured.flows),
        "evenness": figured.evenness,
        "cables": [],
        "files": list(series.files),
        "rerun": "",
        "tunings": tuning_records(link.tunings),
        "parameters": parameters_hash(traffic, link.path.mtu, link.tunings),
        "evidence": [evidence_record(n, end) for n, one in enumerate(tries, 1) for end in one.evidence],
        "change": changed,
    }
    if tries:
        record["limited_by"] = _limited_by(series, last, directions)
    _suspect(record, series)
    reports = [m.http for one in tries for m in one.measurements if m.http is not None]
    if reports and isinstance(traffic, HttpTraffic):
        record["http"] = http_record(traffic.size, traffic.streams, reports)
    return record


def _build(last: Turn, boots: list[MadeBoot]) -> dict[str, str | None]:
    """As of every result, and what else tells builds apart; what each turn ran in full stands with the turns."""
    running: dict[str, str | None] = next((boot.running for boot in reversed(boots) if boot.side is last.side), {})
    return {key: running.get(key) for key in _IDENTITY if running.get(key)} | dict(last.build)


def _figured(series: Series, last: Turn) -> Figured:
    """The figures of this build by themselves, without a limit: only what cannot be is judged."""
    tries = [one for turn in series.of(last.side) for one in turn.tries]
    plan = Plan((), PROFILES[DEFAULT_PROFILE], link_ups=False, error_rate=series.rules.error_rate)
    return figures(last.link, series.traffic, tries, plan, last.conditions)


def _judge(record: DirectionRecord, series: Series, way: Direction, asked: Asked) -> None:
    """By the other build; a figure above what the wire carries stays what it is."""
    found = series.found[way]
    a_bps, b_bps = (_figure(series, side, way) for side in Side)
    names = asked.name(Side.A), asked.name(Side.B)
    tolerance = series.rules.tolerances[way]
    record["goodput_bps"] = b_bps or a_bps
    record["limit_bps"] = a_bps * (1 - tolerance)
    record["rule"] = f"{tolerance * 100:.3g}% below {names[0]}, measured in turn"
    record["stopped"] = found.why
    if found.low is not None and found.high is not None:
        record["interval_bps"] = [a_bps * (1 + found.low), a_bps * (1 + found.high)]
    if Verdict(record["verdict"]) is not Verdict.INVALID:
        record["verdict"] = _VERDICTS[found.result].value
        record["reason"] = f"{names[1]} (B) against {names[0]} (A): {found.why}"


def _figure(series: Series, side: Side, way: Direction) -> float:
    """The median of all connections of a build, each without the weight of odd moments; 0 where there is none."""
    levels = [figure_of_attempt(attempt_at(one, way)) for one in series.tries(side)]
    known = [level for level in levels if level is not None]
    return median(known) if known else 0.0


def _change(series: Series, asked: Asked, boots: list[MadeBoot]) -> ChangeRecord:
    return {
        "a": asked.name(Side.A),
        "b": asked.name(Side.B),
        "tolerance": max(series.rules.tolerances.values()),
        "connections_per_turn": series.connections,
        "directions": {str(way): _changed(series, way, one) for way, one in series.found.items()},
        "turns": [_turn(boot) for boot in boots],
        "connections": [
            {
                "turn": turn.boot,
                "side": str(turn.side),
                "goodput_bps": {str(way): attempt_at(one, way).goodput.bps for way in series.found},
                "level_bps": {str(way): figure_of_attempt(attempt_at(one, way)) for way in series.found},
                "counted_s": min(attempt_at(one, way).seconds for way in series.found),
                "excluded": one.excluded,
                "events": [event.text for event in one.events],
            }
            for turn in series.turns
            for one in turn.tries
        ],
        "suspects": [],
    }


def _changed(series: Series, way: Direction, found: Difference) -> ChangedDirectionRecord:
    return {
        "a_bps": _figure(series, Side.A, way),
        "b_bps": _figure(series, Side.B, way),
        "change": found.change,
        "interval": None if found.low is None or found.high is None else [found.low, found.high],
        "between_turns": found.between,
        "result": str(found.result),
        "why": found.why,
    }


def _turn(boot: MadeBoot) -> TurnRecord:
    return {
        "number": boot.number,
        "side": str(boot.side),
        "started_s": boot.started_s,
        "seconds": boot.seconds,
        "running": dict(boot.running),
        "trouble": boot.trouble,
    }


def _limited_by(series: Series, last: Turn, directions: dict[str, DirectionRecord]) -> LimitedByRecord:
    tries = series.tries(last.side)
    return limited_by_record(limited_by(last.link, series.traffic, tries, directions, last.conditions))


def _suspect(record: ResultRecord, series: Series) -> None:
    """What differs between the builds; of a figure that did not change nobody asks why."""
    changed = record["change"]
    results = {one["result"] for one in changed["directions"].values()}
    turns_a, turns_b = series.of(Side.A), series.of(Side.B)
    if not results & {Result.SLOWER, Result.FASTER} or not turns_a or not turns_b:
        return
    found = of_settings([turn.settings for turn in turns_a], [turn.settings for turn in turns_b])
    causes = [
        limited_by(turns[-1].link, series.traffic, series.tries(side), _of_side(record, side), turns[-1].conditions)
        for side, turns in ((Side.A, turns_a), (Side.B, turns_b))
    ]
    if causes[0].cause is not causes[1].cause:
        text = f"limited by {causes[1].cause} instead of {causes[0].cause}: {causes[1].text}"
        found.append(Suspect("limited by", str(causes[0].cause), str(causes[1].cause), text))
    found += of_costs(series.costs(Side.A), series.costs(Side.B))
    changed["suspects"] = [{"name": one.name, "a": one.a, "b": one.b, "text": one.text} for one in found]
    record["notes"] += [f"between the builds: {one.text}" for one in found[:3]]


def _of_side(record: ResultRecord, side: Side) -> dict[str, DirectionRecord]:
    """The directions with the figure of this side."""
    found: dict[str, DirectionRecord] = {}
    for way, one in record["directions"].items():
        figure = record["change"]["directions"][way]["a_bps" if side is Side.A else "b_bps"]
        found[way] = {**one, "goodput_bps": figure}
    return found


def _notes(series: Series, boots: list[MadeBoot]) -> list[str]:
    every = [one for turn in series.turns for one in turn.tries]
    told = [note for one in every for measurement in one.measurements for note in measurement.notes]
    told += [event.text for one in every for event in one.events]
    told += kernel_notes(every)
    for side in Side:
        own = [boot for boot in boots if boot.side is side]
        bad = [boot for boot in own if boot.trouble]
        if bad:
            told.append(f"{len(bad)} of {len(own)} turns of {side} gave nothing: {bad[-1].trouble}")
    return folded(told)


def folded(notes: Iterable[str]) -> list[str]:
    """Each once; of those that differ in nothing but their figures the first one stands for all."""
    alike: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        alike.setdefault(_FIGURE.sub("#", note), []).append(note)
    return [f"{same[0]} (and {len(same) - 1} more like it)" if len(same) > 1 else same[0] for same in alike.values()]
