"""From an open link to a judged result record: traffic, evidence, physical limit, limit, verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from pytest_pinet.cables import Cables
from pytest_pinet.ceiling import ceilings
from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.build import read_build
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.figures import Figured, Plan, figure_id, figures
from pytest_pinet.judge.reading import BROKEN
from pytest_pinet.judge.settle import cap_for
from pytest_pinet.lab.bounce import bounce, can_bounce
from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.preconditions import Preconditions
from pytest_pinet.report.record import ResultRecord, combination_record
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.together import Job, measure_together
from pytest_pinet.tries import MeasuredFlow, Try

T = TypeVar("T")
# The number of the try, the seconds of its traffic so far, the latest rate of each direction (bit/s).
ProgressOfWays = Callable[[int, float, Mapping[str, float | None]], None]
# What set-up, link-ups and waiting for quiet ends may take beside the traffic of one measurement.
BESIDE_TRAFFIC_S = 180.0
# So many tries in which the link went down are no accident.
DROPS_MAX = 2


def _build_of(end: End) -> dict[str, str | None]:
    """Read once for each time that a node is booted: nothing but a boot or a module load changes it."""
    facts = end.session.facts
    key = f"build {end.device}"
    if key not in facts:
        facts[key] = read_build(end.shell, end.device)
    build: dict[str, str | None] = facts[key]
    return build


def _jobs(link: Link, traffic: Traffic) -> list[Job]:
    jobs = []
    for run in link.combination.topology.runs(traffic.direction):
        a, b = link.ends[run.a], link.ends[run.b]
        cap_s = cap_for(link.path_between(run.a, run.b).speed_mbps)
        jobs.append(Job(a.shell, b.shell, a.ip, b.ip, traffic.towards(run.direction), warmup_cap_s=cap_s))
    return jobs


def _progress(
    link: Link, traffic: Traffic, number: int, observers: Mapping[int, Observer], on_progress: ProgressOfWays | None
) -> Callable[[float], None] | None:
    """Asks the observers of the receivers of what stands for the device under test."""
    if on_progress is None:
        return None
    receivers: dict[str, set[int]] = {}
    for run in link.combination.topology.runs(traffic.direction):
        for way in run.direction.parts if run.counted else ():
            receivers.setdefault(str(way), set()).add(run.b if way is Direction.TX else run.a)

    def report(elapsed_s: float) -> None:
        rates: dict[str, float | None] = {}
        for way, indices in receivers.items():
            known = [rate for index in indices if (rate := observers[index].rate()) is not None]
            rates[way] = sum(known) if known else None
        on_progress(number, elapsed_s, rates)

    return report


def _flows(link: Link, traffic: Traffic, measurements: Sequence[Measurement]) -> tuple[MeasuredFlow, ...]:
    runs = link.combination.topology.runs(traffic.direction)
    return tuple(
        MeasuredFlow(*((run.a, run.b) if way is Direction.TX else (run.b, run.a)), run, way, flow)
        for run, measurement in zip(runs, measurements, strict=True)
        for way, flow in measurement.flows.items()
    )


def measure(
    link: Link,
    traffic: Traffic,
    plan: Plan,
    tool: Iperf3,
    on_progress: ProgressOfWays | None,
    watch: Callable[[], None] | None = None,
) -> tuple[ResultRecord, Mapping[str, str]]:
    """Measure on fresh connections until every figure is judged. Raises LabError or UnsupportedError: then none exists.

    Returns the record, whose ``test``, ``files`` and ``rerun`` are the caller's to fill in, and the raw output of every
    process by file name. ``watch`` is called all the time and ends the traffic by raising.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    build = _build_of(link.dut)
    plan = replace(plan, link_ups=plan.link_ups and can_bounce(link))
    conditions = Preconditions(link)
    cables = Cables(link)
    tries: list[Try] = []
    wanted: Fresh | None = Fresh.CONNECTION
    with observed(link, plan.profile.budget_s + BESIDE_TRAFFIC_S) as observers:
        while wanted is not None:
            fresh = wanted if plan.link_ups else Fresh.CONNECTION
            if fresh is Fresh.LINK:
                bounce(link)
                cables.expect_changes()
            if tries:
                conditions.look_for_others()
            tries.append(run_once(link, traffic, tool, fresh, len(tries) + 1, on_progress, watch, observers))
            if tries[-1].excluded:
                _check_drops(tries)
                cables.expect_changes()
            found = figures(link, traffic, tries, plan)
            wanted = found.wanted
        raw = _raw(tries)
        raw.update({f"{index}-observer.txt": one.text for index, one in observers.items()})
    if found.verdict is Verdict.FAIL:
        found = excuse(found, conditions.excuses, ceilings(link, traffic, tries[0].flows, tool))
    conditions.check_after(tries, traffic)
    cables.check([flow for one in tries for flow in one.flows], traffic)
    record = _record(link, traffic, tries, found, build, cables, started, time.monotonic() - clock)
    record["notes"] += conditions.notes
    return record, raw


def excuse(found: Figured, excuses: Sequence[str], ceilings: Sequence[tuple[End, Bitrate]]) -> Figured:
    """A figure below a limit blames nobody where an end was busy, or where a peer cannot reach that limit by itself."""
    reason = ""
    for record in (*found.directions.values(), *found.flows):
        limit = record["limit_bps"]
        if record["verdict"] != Verdict.FAIL or limit is None or record["goodput_bps"] >= limit:
            continue
        whys = [one.partition("\n")[0] for one in excuses]
        whys += [
            f"{end.endpoint} itself moves no more than {most} over its own loopback"
            for end, most in ceilings
            if limit > most.bps
        ]
        if whys:
            figure = f"{Bitrate(record['goodput_bps'])} is below the limit {Bitrate(limit)}"
            reason = f"{figure}, but {'; '.join(whys)}: the link was not what limited it"
            record["verdict"], record["reason"] = Verdict.INVALID.value, reason
    return replace(found, verdict=Verdict.INVALID, reason=reason) if reason else found


@contextmanager
def observed(link: Link, seconds: float) -> Iterator[Mapping[int, Observer]]:
    """Observers of all ends, by their numbers, for so many seconds at most."""
    with ExitStack() as stack:
        yield {
            index: stack.enter_context(Observer(end.shell, end.device, str(end.endpoint.interface.port), seconds))
            for index, end in enumerate(link.ends)
        }


def run_once(
    link: Link,
    traffic: Traffic,
    tool: Iperf3,
    fresh: Fresh = Fresh.CONNECTION,
    number: int = 1,
    on_progress: ProgressOfWays | None = None,
    watch: Callable[[], None] | None = None,
    observers: Mapping[int, Observer] | None = None,
) -> Try:
    """One run of the traffic on connections of its own, not judged. Raises LabError or UnsupportedError.

    ``observers`` of the ends, by their numbers, may serve several runs; left out, this one has its own.
    """
    if observers is None:
        with observed(link, traffic.seconds) as own:
            return run_once(link, traffic, tool, fresh, number, on_progress, watch, own)
    started = datetime.now(UTC)
    clock = time.monotonic()
    progress = _progress(link, traffic, number, observers, on_progress)
    measurements = measure_together(tool, _jobs(link, traffic), on_progress=progress, watch=watch)
    events = [event for observer in observers.values() for event in observer.events(clock)]
    seconds = time.monotonic() - clock
    events += [event for measurement in measurements for event in measurement.events]
    broken = next((event.text for event in events if event.kind in BROKEN), "")
    flows = _flows(link, traffic, measurements)
    return Try(fresh, started, seconds, flows, tuple(measurements), tuple(events), excluded=broken)


def _check_drops(tries: Sequence[Try]) -> None:
    """Raise LinkError when the link goes down again and again."""
    dropped = [one for one in tries if one.excluded]
    if len(dropped) >= DROPS_MAX:
        raise LinkError(
            f"{dropped[-1].excluded}; so it went in {len(dropped)} of {len(tries)} connections",
            "check cable, connector and power supply; if other kernels hold this link, its driver lost it",
        )


def _record(
    link: Link,
    traffic: Traffic,
    tries: Sequence[Try],
    found: Figured,
    build: dict[str, str | None],
    cables: Cables,
    started: datetime,
    seconds: float,
) -> ResultRecord:
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
        "cables": cables.records(),
        "files": [],
        "rerun": "",
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


def _raw(tries: Sequence[Try]) -> dict[str, str]:
    """What every process printed; the files of a repeat begin with its number."""
    found = {}
    for number, one in enumerate(tries, 1):
        prefix = "" if number == 1 else f"{number}-"
        if len(one.measurements) == 1:
            found.update({f"{prefix}{name}": text for name, text in one.measurements[0].raw.items()})
            continue
        runs = dict.fromkeys(flow.run for flow in one.flows)
        for run, measurement in zip(runs, one.measurements, strict=True):
            found.update({f"{prefix}{run.a}-{run.b}-{name}": text for name, text in measurement.raw.items()})
    return found
