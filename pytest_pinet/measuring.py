"""From an open link to a judged result record: traffic, evidence, physical limit, limit, verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from pytest_pinet.cables import Cables
from pytest_pinet.evidence.build import read_build
from pytest_pinet.evidence.rate import RateMeter
from pytest_pinet.figures import Figured, MeasuredFlow, figures
from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.record import ResultRecord, combination_record
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.together import Job, measure_together

T = TypeVar("T")
ProgressOfWays = Callable[[float, Mapping[str, float | None]], None]


def result_id(link: Link, traffic: Traffic) -> str:
    """Stable across runs: board, NIC, topology, traffic, direction."""
    way = "" if traffic.direction is Direction.BIDIR else f"-{traffic.direction}"
    return f"{link.id}/{traffic.key}{way}"


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
        jobs.append(Job(a.shell, b.shell, a.ip, b.ip, traffic.towards(run.direction)))
    return jobs


def _progress(link: Link, traffic: Traffic, on_progress: ProgressOfWays | None) -> Callable[[float], None] | None:
    """Asks the receivers of what stands for the device under test."""
    if on_progress is None:
        return None
    receivers: dict[str, dict[int, RateMeter]] = {}
    for run in link.combination.topology.runs(traffic.direction):
        for way in run.direction.parts if run.counted else ():
            index = run.b if way is Direction.TX else run.a
            end = link.ends[index]
            receivers.setdefault(str(way), {}).setdefault(index, RateMeter(end.shell, end.device))

    def report(elapsed_s: float) -> None:
        rates: dict[str, float | None] = {}
        for way, meters in receivers.items():
            known = [rate for meter in meters.values() if (rate := meter.read()) is not None]
            rates[way] = sum(known) if known else None
        on_progress(elapsed_s, rates)

    return report


def _flows(link: Link, traffic: Traffic, measurements: Sequence[Measurement]) -> list[MeasuredFlow]:
    runs = link.combination.topology.runs(traffic.direction)
    return [
        MeasuredFlow(*((run.a, run.b) if way is Direction.TX else (run.b, run.a)), run, way, flow)
        for run, measurement in zip(runs, measurements, strict=True)
        for way, flow in measurement.flows.items()
    ]


def measure(
    link: Link,
    traffic: Traffic,
    limits: Sequence[Limit],
    tool: Iperf3,
    on_progress: ProgressOfWays | None,
    watch: Callable[[], None] | None = None,
) -> tuple[ResultRecord, Mapping[str, str]]:
    """Measure once and judge every figure. Raises LabError or UnsupportedError, and then no figure exists.

    Returns the record, whose ``test``, ``files`` and ``rerun`` are the caller's to fill in, and the raw output of every
    process by file name. ``on_progress`` is given the seconds of traffic so far and the latest rate of each direction
    (bit/s); ``watch`` is called all the time and ends the traffic by raising.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    build = _build_of(link.dut)
    cables = Cables(link)
    traffic_clock = time.monotonic()
    measurements = measure_together(
        tool, _jobs(link, traffic), on_progress=_progress(link, traffic, on_progress), watch=watch
    )
    traffic_seconds = time.monotonic() - traffic_clock
    flows = _flows(link, traffic, measurements)
    cables.check(flows, traffic)
    found: Figured = figures(link, traffic, flows, limits)
    record: ResultRecord = {
        "id": result_id(link, traffic),
        "test": "",
        "verdict": found.verdict.value,
        "message": f"{link.id} {found.reason}",
        "combination": combination_record(link.combination, traffic),
        "build": build,
        "link": f"{link.path.speed_mbps} Mbit/s {link.path.duplex or 'unknown'} duplex, MTU {link.path.mtu}",
        "versions": _by_end(link, [m.versions for m in measurements], traffic),
        "cpu_percent": _by_end(link, [m.cpu_percent for m in measurements], traffic),
        "notes": [*dict.fromkeys(note for m in measurements for note in m.notes), *_isolation(link)],
        "started": started.isoformat(),
        "seconds": time.monotonic() - clock,
        "traffic_seconds": traffic_seconds,
        "directions": dict(found.directions),
        "flows": list(found.flows),
        "evenness": found.evenness,
        "cables": cables.records(),
        "files": [],
        "rerun": "",
    }
    return record, _raw(link, traffic, measurements)


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


def _raw(link: Link, traffic: Traffic, measurements: Sequence[Measurement]) -> dict[str, str]:
    if len(measurements) == 1:
        return dict(measurements[0].raw)
    runs = link.combination.topology.runs(traffic.direction)
    return {
        f"{run.a}-{run.b}-{name}": text
        for run, measurement in zip(runs, measurements, strict=True)
        for name, text in measurement.raw.items()
    }
