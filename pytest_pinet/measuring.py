"""From an open link to a judged result record: traffic, evidence, physical limit, limit, verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from pytest_pinet.ceiling import ceilings
from pytest_pinet.diagnosing import kernel_notes, limited_by
from pytest_pinet.evidence.build import read_build, read_serial
from pytest_pinet.figures import Figured, Plan, figure_id, figures, worst_of
from pytest_pinet.lab.bounce import can_bounce
from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.laddering import Ladder, climbed
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import HttpTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.evidence import evidence_record, limited_by_record
from pytest_pinet.report.parameters import parameters_hash
from pytest_pinet.report.record import DirectionRecord, ResultRecord, combination_record
from pytest_pinet.report.traffic import apart_notes, http_record, http_text, ladder_text, most_apart, window_record
from pytest_pinet.report.tunings import tuning_notes, tuning_records
from pytest_pinet.runs import SKEW_MAX_S, ProgressOfWays, Runs
from pytest_pinet.steps import doing
from pytest_pinet.traffic.tool import TrafficTool
from pytest_pinet.tries import Try
from pytest_pinet.unmet import invalidated, unmet, unseen, unserved

T = TypeVar("T")
# What set-up, link-ups and waiting for quiet ends may take beside the traffic of one measurement.
BESIDE_TRAFFIC_S = 180.0


def _build_of(end: End) -> dict[str, str | None]:
    """Read once for each time that a node is booted: nothing but a boot or a module load changes it."""
    facts = end.session.facts
    key = f"build {end.device}"
    if key not in facts:
        facts[key] = read_build(end.shell, end.device)
    build: dict[str, str | None] = facts[key]
    return build


def _serials_of(link: Link) -> dict[str, str]:
    """Of the boards that tell theirs, by end; read once for each boot."""
    found = {}
    for end in link.ends:
        facts = end.session.facts
        if "serial" not in facts:
            facts["serial"] = read_serial(end.shell)
        if facts["serial"] is not None:
            found[str(end.endpoint)] = facts["serial"]
    return found


def measure(
    link: Link,
    traffic: Traffic,
    plan: Plan,
    tool: TrafficTool,
    on_progress: ProgressOfWays | None,
    watch: Callable[[], None] | None = None,
    raw: MutableMapping[str, str] | None = None,
) -> ResultRecord:
    """Measure on fresh connections until every figure is judged. Raises LabError, UnsupportedError, InvalidMeasurement.

    Returns the record, whose ``test``, ``files`` and ``rerun`` are the caller's to fill in. ``raw`` gets what every
    process printed, by file name, also when this raises. ``watch`` is called all the time and ends the traffic by
    raising.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    build = _build_of(link.dut)
    plan = replace(plan, link_ups=plan.link_ups and can_bounce(link))
    with Runs(link, tool, plan.profile.budget_s + BESIDE_TRAFFIC_S, raw, on_progress, watch) as runs:
        ladder = climbed(runs, traffic, plan.profile)
        if ladder is None:
            runs.again(traffic)
        # Of a ladder only one step is judged; all of it is evidence.
        tries, sent = (runs.tries, traffic) if ladder is None else ladder.judged
        found = _judged(link, traffic, tries, plan, runs, ladder)
        while found.wanted is not None:
            runs.conditions.look_for_others()
            one = runs.again(sent, found.wanted if plan.link_ups else Fresh.CONNECTION)
            if ladder is not None:
                tries.append(one)
                tries, sent = ladder.judged
            found = _judged(link, traffic, tries, plan, runs, ladder)
        doubts: list[str] = []
        most: Sequence[tuple[End, Bitrate]] = ()
        if found.verdict is Verdict.FAIL:
            with doing("look what else may have limited it"):
                most, doubts = ceilings(link, traffic, runs.tries[0].flows, tool)
            found = excuse(found, runs.conditions.excuses(runs.tries), most)
        broke = runs.finish(traffic)
        found = invalidated(found, broke)
    record = _record(link, traffic, runs, plan.profile.name, found, build, started, time.monotonic() - clock)
    record["notes"] += dict.fromkeys(act.removeprefix("  -> ") for one in broke for act in one.splitlines()[1:])
    record["notes"] += [*runs.conditions.notes, *doubts, *kernel_notes(runs.tries), *unseen(traffic, tries)]
    record["evidence"] = [evidence_record(n, end) for n, one in enumerate(runs.tries, 1) for end in one.evidence]
    cause = limited_by(link, sent, tries, found.directions, runs.conditions.before, dict(_named(most)))
    record["limited_by"] = limited_by_record(cause)
    record["tunings"] = tuning_records(link.tunings)
    record["notes"] += [*tuning_notes(link.tunings), *_ungated(link, traffic, plan)]
    record["notes"] += _traffic_of(record, tries, traffic, ladder)
    if raw is not None:
        raw["versions.txt"] = _versions(record)
    return record


def _versions(record: ResultRecord) -> str:
    """Of the tool at each end, and of kernel, driver and firmware of the device under test."""
    told = [*record["versions"].items(), *((f"dut {name}", value) for name, value in record["build"].items())]
    return "".join(f"{name}: {value}\n" for name, value in told if value)


def _ungated(link: Link, traffic: Traffic, plan: Plan) -> list[str]:
    """Why an accepted baseline was not looked at."""
    ids = [figure_id(link, traffic, way) for way in traffic.direction.parts]
    if link.scale == 1 or not any(plan.known.baseline(one) for one in ids):
        return []
    return [f"its accepted baseline gates nothing: it is of links at full rate, and these run at {link.scale:g} of it"]


def _judged(
    link: Link, traffic: Traffic, tries: Sequence[Try], plan: Plan, runs: Runs, ladder: Ladder | None
) -> Figured:
    """The figures as they stand; those of something else than was asked for, or of failed requests, are none."""
    with doing("judge"):
        found = figures(link, traffic, tries, plan, runs.conditions.before)
        found = unserved(invalidated(found, unmet(link, traffic, tries)), tries)
        return found if ladder is None else ladder.unheld(found)


def _traffic_of(record: ResultRecord, tries: Sequence[Try], traffic: Traffic, ladder: Ladder | None) -> list[str]:
    """Put what only some traffic has into the record; returns a sentence of it."""
    windows = [(n, one.measurements[0].window) for n, one in enumerate(tries, 1) if one.measurements]
    shared = [window_record(number, window) for number, window in windows if window is not None]
    if shared:
        record["windows"] = shared
        record["start_skew_s"], record["start_skew_within_s"] = skew = most_apart(shared)
        record["notes"] += apart_notes(*skew, SKEW_MAX_S)
    if ladder is not None:
        record["ladder"] = ladder.record()
        return [ladder_text(record["ladder"])]
    reports = [m.http for one in tries if not one.excluded for m in one.measurements if m.http is not None]
    if reports and isinstance(traffic, HttpTraffic):
        record["http"] = http_record(traffic.size, traffic.streams, reports)
        return [http_text(record["http"])]
    return []


def excuse(found: Figured, excuses: Sequence[str], ceilings: Sequence[tuple[End, Bitrate]]) -> Figured:
    """A figure below a limit blames nobody where an end was busy, or where its peers cannot reach that limit at all.

    Whatever else failed stays failed.
    """
    whys = [one.partition("\n")[0] for one in excuses]
    for record in found.directions.values():
        # Of several flows at once the peers share the limit.
        _excuse(record, whys, _of_all(ceilings) if found.flows else _named(ceilings))
    for flow in found.flows:
        own = (flow["sender"], flow["receiver"])
        _excuse(flow, whys, [(name, most) for name, most in _named(ceilings) if name in own])
    verdict, reason = worst_of(found.directions, found.flows, found.evenness)
    return replace(found, verdict=verdict, reason=reason)


def _named(ceilings: Sequence[tuple[End, Bitrate]]) -> list[tuple[str, Bitrate]]:
    return [(str(end.endpoint), most) for end, most in ceilings]


def _of_all(ceilings: Sequence[tuple[End, Bitrate]]) -> list[tuple[str, Bitrate]]:
    """All peers as one."""
    named = _named(ceilings)
    return [(" and ".join(name for name, _ in named), Bitrate(sum(most.bps for _, most in named)))] if named else []


def _excuse(record: DirectionRecord, whys: Sequence[str], ceilings: Sequence[tuple[str, Bitrate]]) -> None:
    limit = record["limit_bps"]
    if record["verdict"] != Verdict.FAIL or limit is None or record["goodput_bps"] >= limit:
        return
    loopback = [
        f"{name} itself moves no more than {most} over its own loopback" for name, most in ceilings if limit > most.bps
    ]
    if whys or loopback:
        figure = f"{Bitrate(record['goodput_bps'])} is below the limit {Bitrate(limit)}"
        record["verdict"], record["state"] = Verdict.INVALID.value, ""
        record["reason"] = f"{figure}, but {'; '.join([*whys, *loopback])}: the link was not what limited it"


def _record(
    link: Link,
    traffic: Traffic,
    runs: Runs,
    profile: str,
    found: Figured,
    build: dict[str, str | None],
    started: datetime,
    seconds: float,
) -> ResultRecord:
    tries = runs.tries
    last = tries[-1].measurements
    notes = [note for one in tries for m in one.measurements for note in m.notes]
    notes += [event.text for one in tries for event in one.events]
    return {
        "id": figure_id(link, traffic),
        "test": "",
        "verdict": found.verdict.value,
        "message": f"{link.id} {found.reason}",
        "combination": combination_record(link.combination, traffic),
        "build": build,
        "profile": profile,
        "link": f"{link.path.speed_mbps} Mbit/s {link.path.duplex or 'unknown'} duplex, MTU {link.path.mtu}",
        "versions": _by_end(link, [m.versions for m in last], traffic),
        "cpu_percent": _by_end(link, [m.cpu_percent for m in last], traffic),
        "notes": [*dict.fromkeys(notes), *_isolation(link)],
        "started": started.isoformat(),
        "seconds": seconds,
        "traffic_seconds": sum(one.seconds for one in tries),
        "directions": dict(found.directions),
        "flows": list(found.flows),
        "evenness": found.evenness,
        "cables": runs.cables.records(),
        "files": [],
        "rerun": "",
        "serials": _serials_of(link),
        "parameters": parameters_hash(traffic, link.path.mtu, link.tunings, link.scale),
    }


def _isolation(link: Link) -> list[str]:
    """What a reader must know of segments that nobody kept apart."""
    fixed = [name for name, switch in link.switches.items() if not switch.rewires]
    if not fixed or len(link.combination.topology.segments) == 1:
        return []
    return [f"the pairs are not kept apart: switch {fixed[0]} is wired as it is"]


def _by_end(link: Link, values: Sequence[Mapping[str, T]], traffic: Traffic) -> dict[str, T]:
    """What the tools said of ``dut`` and ``peer`` of each run; several runs name the ends instead."""
    if len(values) == 1:
        return dict(values[0])
    found: dict[str, T] = {}
    for run, by_role in zip(link.combination.topology.runs(traffic.direction), values, strict=True):
        for role, index in (("dut", run.a), ("peer", run.b)):
            if role in by_role:
                found[str(link.ends[index].endpoint)] = by_role[role]
    return found
