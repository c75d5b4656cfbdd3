"""Run several measurements that begin together, and count only the time that all of them share."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from pytest_pinet.errors import LabError, TrafficError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.undo import at_once
from pytest_pinet.model.measurement import Flow, Measurement, Sample, Window
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.processes import POLL_S, PROGRESS_S
from pytest_pinet.traffic.tool import Progress, TrafficJob, TrafficTool, Watch

# Each answer bounds the offset from both sides. Several answers give narrower bounds than one.
QUESTIONS = 3
ANSWER_S = 2.0
# /proc/uptime has two decimals; the rest is cut off.
GRAIN_S = 0.01
# The longest delay of a server's report that its streams stand: it polls every 10 ms, and a poll takes some time.
LOOK_S = 0.015
# Coverage factor: 95 of 100 errors lie within two standard deviations (GUM: expanded uncertainty, k = 2).
COVERAGE = 2.0


@dataclass(frozen=True)
class Clock:
    """The offset of an end's clock: uptime plus ``offset_s`` is the runner's monotonic clock.

    Its error is below ``within_s``.
    """

    offset_s: float
    within_s: float

    def here(self, uptime_s: float) -> float:
        """Return the runner's monotonic time for an uptime of the end."""
        return uptime_s + self.offset_s

    def there(self, monotonic_s: float) -> float:
        """Return the end's uptime for a monotonic time of the runner."""
        return monotonic_s - self.offset_s

    @property
    def moment_u_s(self) -> float:
        """Standard uncertainty of ``here`` for the uptime at which a server reported its streams.

        Each error is uniform within its bounds; the standard uncertainty of a uniform error within w is w / sqrt(3).
        """
        bounds = self.within_s, GRAIN_S / 2, LOOK_S / 2
        return math.sqrt(sum(bound**2 for bound in bounds) / 3)


def apart_within_s(first: Clock, last: Clock) -> float:
    """Return the uncertainty of the time between two such moments: 95 of 100 errors are smaller."""
    return COVERAGE * math.hypot(first.moment_u_s, last.moment_u_s)


def read_clock(shell: Shell) -> Clock | None:
    """Read the uptime of an end, which needs only a shell there. Return None if it cannot be read."""
    found = []
    for _ in range(QUESTIONS):
        asked = time.monotonic()
        try:
            text = shell.run("cat /proc/uptime", timeout_s=ANSWER_S).stdout
            uptime_s = float(text.split()[0])
        except (LabError, ValueError, IndexError):
            return None
        found.append((asked, uptime_s, time.monotonic()))
    return clock_of(found)


def clock_of(answers: Sequence[tuple[float, float, float]]) -> Clock:
    """Return the clock for answers of (time before the read, uptime, time after the read)."""
    bounds = [(asked - uptime_s - GRAIN_S, came - uptime_s) for asked, uptime_s, came in answers]
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    if low > high:
        # One clock was set meanwhile, so that no offset fits all answers.
        low, high = min(bounds, key=lambda bound: bound[1] - bound[0])
    return Clock((low + high) / 2, (high - low) / 2)


# The longest time between the first and the last server that listens.
START_TIMEOUT_S = 30.0
# Clients are started this long before the common begin: a busy machine needs time to start each of them.
LEAD_S = 0.5
# Timer jitter: a sample that exceeds the shared time by less than this is counted.
JITTER_S = 0.05


class _Cancelled(Exception):
    """Another measurement failed, so this one ends, too. Callers of `measure_together` never see this error."""


def measure_together(
    tool: TrafficTool,
    jobs: Sequence[TrafficJob],
    on_progress: Progress | None = None,
    watch: Watch | None = None,
    lead_s: float = LEAD_S,
) -> list[Measurement]:
    """Run all jobs at once; every flow counts only the time in which all of them ran, after their warm-up.

    A job with one process per direction is two flows that begin together like all others. The first error ends all jobs
    and is raised. ``on_progress`` and ``watch`` are called in the caller's thread.
    """
    parts = [_parts(job) for job in jobs]
    flat = [part for own in parts for part in own]
    if len(flat) == 1:
        return [tool.measure(replace(flat[0], on_progress=on_progress, watch=watch))]
    for job in flat:
        # Prepare here: each thread would query the same ends.
        tool.prepare(job)
    own = iter(_at_once(tool, flat, lead_s, on_progress, watch))
    return [_joined([next(own) for _ in mine], job.traffic) for mine, job in zip(parts, jobs, strict=True)]


def _parts(job: TrafficJob) -> list[TrafficJob]:
    """Return one job for each process that sends."""
    if not job.traffic.apart:
        return [job]
    return [replace(job, traffic=job.traffic.one_way(way)) for way in job.traffic.direction.parts]


def _joined(found: Sequence[Measurement], traffic: Traffic) -> Measurement:
    """Return one measurement from the measurements of both directions."""
    if len(found) == 1:
        return found[0]
    ends = [end for end in found[0].cpu_percent if all(end in one.cpu_percent for one in found)]
    return replace(
        found[0],
        traffic=traffic,
        flows={way: flow for one in found for way, flow in one.flows.items()},
        raw={f"{one.traffic.direction}-{name}": text for one in found for name, text in one.raw.items()},
        cpu_percent={end: sum(one.cpu_percent[end] for one in found) for end in ends},
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        events=tuple(event for one in found for event in one.events),
        unmet=tuple(dict.fromkeys(sentence for one in found for sentence in one.unmet)),
        began=None,
        at_end={end: text for one in found for end, text in one.at_end.items()},
    )


def _clocks(jobs: Sequence[TrafficJob]) -> Mapping[int, Clock | None]:
    """Read the clock of each end; the key is the id of its shell."""
    shells = {id(shell): shell for job in jobs for shell in (job.dut, job.peer)}
    return dict(zip(shells, at_once(read_clock, list(shells.values())), strict=True))


def _at_once(
    tool: TrafficTool,
    jobs: Sequence[TrafficJob],
    lead_s: float,
    on_progress: Progress | None,
    watch: Watch | None,
) -> list[Measurement]:
    clocks = _clocks(jobs)
    start = _Start(len(jobs), clocks, lead_s)
    with ThreadPoolExecutor(len(jobs), thread_name_prefix="pinet-flow") as pool:
        own = [replace(job, watch=start.check, before_client=partial(start.wait, n)) for n, job in enumerate(jobs)]
        futures = [pool.submit(tool.measure, job) for job in own]
        try:
            _wait(futures, start, on_progress, watch)
        except BaseException:
            start.cancel()
            raise
    measurements = [future.result() for future in futures]
    begins = [_began(m, job, clocks) for m, job in zip(measurements, jobs, strict=True)]
    known = [began for began in begins if began is not None]
    if len(known) < len(begins):
        return _shared_time(measurements, start.times(), jobs, None)
    measurements = [
        replace(m, raw={**m.raw, "start.txt": began.text}) for m, began in zip(measurements, known, strict=True)
    ]
    first, last = (choose(known, key=lambda began: began.here_s) for choose in (min, max))
    skew = last.here_s - first.here_s, apart_within_s(first.clock, last.clock)
    return _shared_time(measurements, [began.here_s for began in known], jobs, skew)


@dataclass(frozen=True)
class _ReportedBegin:
    """The begin of a flow, as an end reported it."""

    shell: Shell
    uptime_s: float
    clock: Clock

    @property
    def here_s(self) -> float:
        """The begin by the runner's clock."""
        return self.clock.here(self.uptime_s)

    @property
    def text(self) -> str:
        """The begin and all values that it is computed from, for the raw output."""
        return (
            f"{self.shell.name} reported {self.uptime_s:.2f} s of uptime when its streams were connected\n"
            f"its uptime is the runner's monotonic clock less {self.clock.offset_s:.4f} s, "
            f"within {self.clock.within_s * 1000:.1f} ms\n"
            f"so the flow began at {self.here_s:.4f} s of the runner's clock, "
            f"standard uncertainty {self.clock.moment_u_s * 1000:.1f} ms\n"
        )


def _began(measurement: Measurement, job: TrafficJob, clocks: Mapping[int, Clock | None]) -> _ReportedBegin | None:
    """Return when the traffic of a measurement began; None if no end reported the begin."""
    if measurement.began is None:
        return None
    shell = job.dut if measurement.began.end == "dut" else job.peer
    clock = clocks[id(shell)]
    return None if clock is None else _ReportedBegin(shell, measurement.began.uptime_s, clock)


class _Start:
    """Makes all clients begin at the same moment, records when each of them began, and cancels all if one fails."""

    def __init__(self, count: int, clocks: Mapping[int, Clock | None], lead_s: float) -> None:
        self._barrier = threading.Barrier(count, action=self._set)
        self._cancelled = threading.Event()
        self._clocks = clocks
        self._lead_s = lead_s
        self._at = 0.0
        self._times: dict[int, float] = {}

    def _set(self) -> None:
        self._at = time.monotonic() + self._lead_s

    def wait(self, index: int, client: Shell) -> float | None:
        """Wait for the others. Return the uptime of the client's end at which all begin (None: at once)."""
        if index not in self._times:
            try:
                self._barrier.wait(START_TIMEOUT_S)
            except threading.BrokenBarrierError:
                raise _Cancelled from None
        clock = self._clocks.get(id(client))
        self._times[index] = max(self._at, time.monotonic()) if clock is not None else time.monotonic()
        return None if clock is None else clock.there(self._at)

    def check(self) -> None:
        if self._cancelled.is_set():
            raise _Cancelled

    def cancel(self) -> None:
        self._cancelled.set()
        self._barrier.abort()

    def times(self) -> list[float]:
        return [self._times[index] for index in sorted(self._times)]

    @property
    def begun(self) -> float | None:
        """When the last client began; None before that."""
        return max(self._times.values()) if len(self._times) == self._barrier.parties else None


def _wait(
    futures: Sequence[Future[Measurement]], start: _Start, on_progress: Progress | None, watch: Watch | None
) -> None:
    """Wait until all have ended. Raise the first error that did not follow from another one."""
    next_progress = time.monotonic() + PROGRESS_S
    while not all(future.done() for future in futures):
        failed = [f for f in futures if f.done() and f.exception() is not None]
        if failed:
            start.cancel()
            break
        if watch is not None:
            watch()
        now = time.monotonic()
        if on_progress is not None and start.begun is not None and now >= max(next_progress, start.begun):
            on_progress(now - start.begun)
            next_progress = now + PROGRESS_S
        time.sleep(POLL_S)
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, _Cancelled):
            raise error
    if errors:
        raise TrafficError(
            f"not all flows began within {START_TIMEOUT_S:.0f} s", "look at the load of the nodes, then repeat"
        )


def _shared_time(
    measurements: Sequence[Measurement],
    starts: Sequence[float],
    jobs: Sequence[TrafficJob],
    skew: tuple[float, float] | None,
) -> list[Measurement]:
    """Count only the time that all flows share. Raises TrafficError if this time is too short.

    ``skew`` is how far apart the flows began, and its uncertainty (s); None if it is not known.
    """
    traffic = jobs[0].traffic
    begin = max(
        start + _warmup_end(flow) for m, start in zip(measurements, starts, strict=True) for flow in m.flows.values()
    )
    end = min(
        start + max(s.start_s + s.seconds for s in flow.samples)
        for m, start in zip(measurements, starts, strict=True)
        for flow in m.flows.values()
    )
    window = Window(begin - min(starts), max(0.0, end - begin), *(skew or ()))
    trimmed = [
        replace(_trim(m, begin - start, end - start), window=window)
        for m, start in zip(measurements, starts, strict=True)
    ]
    shortest = min(flow.seconds for m in trimmed for flow in m.flows.values())
    if shortest < traffic.duration_s / 2:
        raise TrafficError(
            f"the flows ran at the same time for only {shortest:.1f} s of {traffic.duration_s:g} s: "
            f"they began {max(starts) - min(starts):.1f} s apart",
            "look at the load of the nodes and of this machine, or measure for longer",
        )
    return trimmed


def _warmup_end(flow: Flow) -> float:
    """Return the seconds from the flow's own start to the end of its warm-up."""
    return max((s.start_s + s.seconds for s in flow.samples if s.warmup), default=0.0)


def _trim(measurement: Measurement, begin_s: float, end_s: float) -> Measurement:
    def inside(sample: Sample) -> bool:
        return sample.start_s >= begin_s - JITTER_S and sample.start_s + sample.seconds <= end_s + JITTER_S

    def trim(flow: Flow) -> Flow:
        samples = tuple(s if inside(s) else replace(s, warmup=True) for s in flow.samples)
        return replace(flow, samples=samples)

    flows: dict[Direction, Flow] = {way: trim(flow) for way, flow in measurement.flows.items()}
    return replace(measurement, flows=flows)
