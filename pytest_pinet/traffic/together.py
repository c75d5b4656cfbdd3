"""Several measurements at once that begin together, and the time that all of them share."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from pytest_pinet.errors import TrafficError
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic
from pytest_pinet.shell import Shell
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.iperf3_watch import POLL_S, PROGRESS_S, Progress, Watch

# From the first server that listens to the last one.
START_TIMEOUT_S = 30.0
# A sample that is outside of the shared time by less than a timer's jitter is inside.
JITTER_S = 0.05


@dataclass(frozen=True)
class Job:
    """Traffic between two ends; its direction is seen from ``a``.

    ``warmup_cap_s`` is how long a warm-up that is found may take (``judge.settle.cap_for``).
    """

    a: Shell
    b: Shell
    a_address: str
    b_address: str
    traffic: Traffic
    warmup_cap_s: float = WARMUP_CAP_S


class _Cancelled(Exception):
    """Another measurement failed, so this one ends too; never leaves this room."""


def measure_together(
    tool: Iperf3, jobs: Sequence[Job], on_progress: Progress | None = None, watch: Watch | None = None
) -> list[Measurement]:
    """Measure all jobs at once; every flow counts only the time in which all of them ran, after their warm-up.

    The first error ends all of them and is raised. ``on_progress`` and ``watch`` are called in the caller's thread.
    """
    if len(jobs) == 1:
        (job,) = jobs
        return [
            tool.measure(
                job.a,
                job.b,
                job.a_address,
                job.b_address,
                job.traffic,
                on_progress=on_progress,
                watch=watch,
                warmup_cap_s=job.warmup_cap_s,
            )
        ]
    for job in jobs:
        # Asked before, since the threads would all ask the same ends.
        for shell in (job.a, job.b):
            tool.tools.of(shell)
    start = _Start(len(jobs))
    with ThreadPoolExecutor(len(jobs), thread_name_prefix="pinet-flow") as pool:
        futures = [pool.submit(_run, tool, job, index, start) for index, job in enumerate(jobs)]
        try:
            _wait(futures, start, on_progress, watch)
        except BaseException:
            start.cancel()
            raise
    measurements = [future.result() for future in futures]
    return _shared_time(measurements, start.times(), jobs)


class _Start:
    """Lets all clients begin at once, remembers when each one did, and ends all when one fails."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)
        self._cancelled = threading.Event()
        self._times: dict[int, float] = {}

    def wait(self, index: int) -> None:
        if index not in self._times:
            try:
                self._barrier.wait(START_TIMEOUT_S)
            except threading.BrokenBarrierError:
                raise _Cancelled from None
        self._times[index] = time.monotonic()

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
        """When the last one began, None before that."""
        return max(self._times.values()) if len(self._times) == self._barrier.parties else None


def _run(tool: Iperf3, job: Job, index: int, start: _Start) -> Measurement:
    return tool.measure(
        job.a,
        job.b,
        job.a_address,
        job.b_address,
        job.traffic,
        watch=start.check,
        before_client=lambda: start.wait(index),
        warmup_cap_s=job.warmup_cap_s,
    )


def _wait(
    futures: Sequence[Future[Measurement]], start: _Start, on_progress: Progress | None, watch: Watch | None
) -> None:
    """Until all have ended. Raises the first error that is not merely the end of the others."""
    next_progress = time.monotonic() + PROGRESS_S
    while not all(future.done() for future in futures):
        failed = [f for f in futures if f.done() and f.exception() is not None]
        if failed:
            start.cancel()
            break
        if watch is not None:
            watch()
        now = time.monotonic()
        if on_progress is not None and start.begun is not None and now >= next_progress:
            on_progress(now - start.begun)
            next_progress = now + PROGRESS_S
        time.sleep(POLL_S)
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, _Cancelled):
            raise error
    if errors:
        raise TrafficError(
            f"the flows did not all begin within {START_TIMEOUT_S:.0f} s", "look at the load of the nodes, then repeat"
        )


def _shared_time(
    measurements: Sequence[Measurement], starts: Sequence[float], jobs: Sequence[Job]
) -> list[Measurement]:
    """Count only what lies in the time that all flows share. Raises TrafficError when that is too short."""
    traffic = jobs[0].traffic
    begin = max(
        start + _warmup_end(flow) for m, start in zip(measurements, starts, strict=True) for flow in m.flows.values()
    )
    ends = [
        start + max(s.start_s + s.seconds for s in flow.samples)
        for m, start in zip(measurements, starts, strict=True)
        for flow in m.flows.values()
    ]
    trimmed = [_trim(m, begin - start, min(ends) - start) for m, start in zip(measurements, starts, strict=True)]
    shortest = min(flow.seconds for m in trimmed for flow in m.flows.values())
    if shortest < traffic.duration_s / 2:
        raise TrafficError(
            f"the flows ran at the same time for only {shortest:.1f} s of {traffic.duration_s:g} s: "
            f"they began {max(starts) - min(starts):.1f} s apart",
            "look at the load of the nodes and of this machine, or measure for longer",
        )
    return trimmed


def _warmup_end(flow: Flow) -> float:
    """Seconds from the flow's own start to the end of its warm-up."""
    return max((s.start_s + s.seconds for s in flow.samples if s.warmup), default=0.0)


def _trim(measurement: Measurement, begin_s: float, end_s: float) -> Measurement:
    def inside(sample: Sample) -> bool:
        return sample.start_s >= begin_s - JITTER_S and sample.start_s + sample.seconds <= end_s + JITTER_S

    def trim(flow: Flow) -> Flow:
        samples = tuple(s if inside(s) else replace(s, warmup=True) for s in flow.samples)
        return replace(flow, samples=samples)

    flows: dict[Direction, Flow] = {way: trim(flow) for way, flow in measurement.flows.items()}
    return replace(measurement, flows=flows)
