"""Runs of traffic over a link, one after the other: what must hold is looked at before, between and after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType

from pytest_pinet.cables import Cables
from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.collecting import Collector, EndReader
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.judge.reading import BROKEN
from pytest_pinet.judge.settle import cap_for
from pytest_pinet.lab.bounce import await_links, bounce
from pytest_pinet.lab.link import Link
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.preconditions import Preconditions
from pytest_pinet.steps import doing
from pytest_pinet.traffic.scaled import scaled
from pytest_pinet.traffic.together import LEAD_S, Job, measure_together
from pytest_pinet.traffic.tool import TrafficTool
from pytest_pinet.traffic.virtual_time import in_virtual_time
from pytest_pinet.tries import MeasuredFlow, Try

# The number of the try, the seconds of its traffic so far, the latest rate of each direction (bit/s).
ProgressOfWays = Callable[[int, float, Mapping[str, float | None]], None]
# How long after the end of its traffic a run may still be watched.
GRACE_S = 15.0
# Flows that begin further apart than this did not begin together: they are sent once more, and get more time to start.
SKEW_MAX_S = 0.05
LONG_LEAD_S = 1.5
# So many tries in which the link went down are no accident.
DROPS_MAX = 2


class Runs:
    """A context in which traffic runs; entering it raises InvalidMeasurement for a bus or supply that is not right.

    ``raw`` gets what every process printed, by file name, however the context is left. ``lasts_s`` is about how long
    all of it may take. ``watch`` is called all the time and ends the traffic by raising.
    """

    def __init__(
        self,
        link: Link,
        tool: TrafficTool,
        lasts_s: float,
        raw: MutableMapping[str, str] | None = None,
        on_progress: ProgressOfWays | None = None,
        watch: Callable[[], None] | None = None,
    ) -> None:
        self._link = link
        self._tool = tool
        self._lasts_s = lasts_s
        self._raw = raw if raw is not None else {}
        self._on_progress = on_progress
        self._watch = watch
        self._stack = ExitStack()
        self._observers: Mapping[int, Observer] = {}
        self._collector = Collector([EndReader(end.shell, end.device, str(end.endpoint)) for end in link.ends])
        self._counted_from = 0
        self._links: list[Link] = []
        self._sent: Traffic | None = None
        self.tries: list[Try] = []

    def __enter__(self) -> Runs:
        self.conditions = Preconditions(self._link)
        self.cables = Cables(self._link)
        self._observers = self._stack.enter_context(observed(self._link, self._lasts_s))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._raw.update(_printed(self.tries))
        self._raw.update({f"{index}-observer.txt": one.text for index, one in self._observers.items()})
        self._raw.update(self._collector.raw())
        self._raw.update(self.cables.raw())

    def again(self, traffic: Traffic, fresh: Fresh = Fresh.CONNECTION) -> Try:
        """Run the traffic once more, after the link of the device under test was taken down and up for Fresh.LINK.

        A try in which a link dropped is kept, and counts for nothing. Raises LabError (LinkError where links drop again
        and again, or do not come back as they were), UnsupportedError.
        """
        if fresh is Fresh.LINK:
            with doing("take the link down and up"):
                bounce(self._link)
            self.cables.accept_carriers()
            self._forget_carriers()
        if self._sent not in (None, traffic):
            # A step of a ladder is a measurement of its own.
            self._read_rest()
        self._sent = traffic
        number = len(self.tries) + 1
        what = f"{traffic.key} {traffic.direction} #{number}"
        with doing(f"measure {what}"):
            one = self._once(traffic, fresh, number, LEAD_S)
        if one.skew_s is not None and one.skew_s > SKEW_MAX_S and not one.excluded:
            late = one
            with doing(f"measure {what} again, since flows began {one.skew_s * 1000:.0f} ms apart"):
                again = self._once(traffic, Fresh.CONNECTION, number, LONG_LEAD_S)
            one = replace(again, fresh=fresh, discarded=late)
        self.tries.append(one)
        # As it was then: a tuning inside of a test changes it.
        self._links.append(replace(self._link))
        if one.excluded:
            self._after_a_drop()
        return one

    def _once(self, traffic: Traffic, fresh: Fresh, number: int, lead_s: float) -> Try:
        return run_once(
            self._link,
            traffic,
            self._tool,
            fresh,
            number,
            self._on_progress,
            self._watch,
            self._observers,
            self._collector,
            lead_s,
        )

    def _after_a_drop(self) -> None:
        dropped = [one.excluded for one in self.tries if one.excluded]
        if len(dropped) >= DROPS_MAX:
            raise LinkError(
                f"{dropped[-1]}; so it went in {len(dropped)} of {len(self.tries)} connections",
                "check cable, connector and power supply; if other kernels hold this link, its driver lost it",
            )
        # What was read of it explains no figure, so that others are read instead.
        self._read_rest()
        self.begin_anew()

    def begin_anew(self, same: bool = True) -> None:
        """Count from here: a link dropped, or somebody changed the nodes, who may have changed links (not ``same``).

        Raises LinkError or InvalidMeasurement for links that do not come back as they must.
        """
        await_links(self._link, same)
        self.cables.rebase()
        self._forget_carriers()
        self._counted_from = len(self.tries)

    def _forget_carriers(self) -> None:
        """What took links down until now was told, or done on purpose: it is no event of the next run."""
        for index, observer in self._observers.items():
            observer.accept(self.cables.carrier_changes[index])

    def finish(self, traffic: Traffic) -> list[str]:
        """Look at everything again; returns a sentence for each end that broke meanwhile (its power, its bus).

        Raises InvalidMeasurement or TrafficError when the figures mean something else than was asked for.
        """
        with doing("look at ends and cables again"):
            self._read_rest()
            return self._look_again(traffic)

    def _read_rest(self) -> None:
        """Let the last try tell what was counted during those that were not read by themselves."""
        if self.tries and (found := self._collector.rest(_lasted_s(self.tries[-1].measurements))):
            self.tries[-1] = replace(self.tries[-1], evidence=found)

    def _look_again(self, traffic: Traffic) -> list[str]:
        broke = self.conditions.check_after(self.tries, traffic, self._links)
        ran = [both for one in self.tries[self._counted_from :] for both in (one, one.discarded) if both is not None]
        flows = [flow for one in ran for flow in one.flows]
        self.cables.check(flows, traffic)
        return broke


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
            seen = [observers[index].rate() for index in indices if index in observers]
            known = [rate for rate in seen if rate is not None]
            rates[way] = sum(known) / link.scale if known else None
        on_progress(number, elapsed_s, rates)

    return report


def _flows(link: Link, traffic: Traffic, measurements: Sequence[Measurement]) -> tuple[MeasuredFlow, ...]:
    runs = link.combination.topology.runs(traffic.direction)
    return tuple(
        MeasuredFlow(*((run.a, run.b) if way is Direction.TX else (run.b, run.a)), run, way, flow)
        for run, measurement in zip(runs, measurements, strict=True)
        for way, flow in measurement.flows.items()
    )


@contextmanager
def observed(link: Link, seconds: float) -> Iterator[Mapping[int, Observer]]:
    """Observers of the ends, by their numbers, for so many seconds at most.

    An end whose time is its instructions has none: each look costs it some, 7 % of all of them (measured).
    """
    with ExitStack() as stack:
        yield {
            index: stack.enter_context(Observer(end.shell, end.device, str(end.endpoint.interface.port), seconds))
            for index, end in enumerate(link.ends)
            if end.endpoint.node.clock != VIRTUAL
        }


def run_once(
    link: Link,
    traffic: Traffic,
    tool: TrafficTool,
    fresh: Fresh = Fresh.CONNECTION,
    number: int = 1,
    on_progress: ProgressOfWays | None = None,
    watch: Callable[[], None] | None = None,
    observers: Mapping[int, Observer] | None = None,
    collector: Collector | None = None,
    lead_s: float = LEAD_S,
) -> Try:
    """One run of the traffic on connections of its own, not judged. Raises LabError or UnsupportedError.

    ``observers`` of the ends, by their numbers, may serve several runs; left out, this one has its own. ``collector``
    reads what the ends count, right before and right after the traffic. Clients are started ``lead_s`` before flows
    begin, where there are several.
    """
    if observers is None:
        with observed(link, traffic.seconds) as own:
            return run_once(link, traffic, tool, fresh, number, on_progress, watch, own, collector, lead_s)
    virtual = {end.shell.name for end in link.ends if end.endpoint.node.clock == VIRTUAL}
    if collector is not None:
        # A look in between costs instructions of such an end, and falls into another moment of its time each time.
        watch = watch if virtual else collector.watching(watch, traffic.seconds)
        collector.before(number)
    started = datetime.now(UTC)
    clock = time.monotonic()
    for observer in observers.values():
        observer.ensure(traffic.seconds + GRACE_S)
    progress = _progress(link, traffic, number, observers, on_progress)
    told = in_virtual_time(scaled(tool, link.scale), virtual)
    measurements = measure_together(told, _jobs(link, traffic), progress, watch, lead_s)
    events = [event for observer in observers.values() for event in observer.events(clock)]
    seconds = time.monotonic() - clock
    evidence = () if collector is None else collector.after(_lasted_s(measurements))
    events += [event for measurement in measurements for event in measurement.events]
    broken = next((event.text for event in events if event.kind in BROKEN), "")
    flows = _flows(link, traffic, measurements)
    return Try(fresh, started, seconds, flows, tuple(measurements), tuple(events), broken, evidence)


def _lasted_s(measurements: Sequence[Measurement]) -> float:
    """How long traffic flowed, the warm-up included."""
    flows = [flow for measurement in measurements for flow in measurement.flows.values()]
    return max((sum(sample.seconds for sample in flow.samples) for flow in flows), default=0.0)


def _printed(tries: Sequence[Try]) -> dict[str, str]:
    """What every process printed; the files of a repeat begin with its number."""
    found = {}
    for number, one in enumerate(tries, 1):
        found.update(_printed_by(one, "" if number == 1 else f"{number}-"))
        if one.discarded is not None:
            found.update(_printed_by(one.discarded, f"{number}-not-counted-"))
    return found


def _printed_by(one: Try, prefix: str) -> dict[str, str]:
    if len(one.measurements) == 1:
        return {f"{prefix}{name}": text for name, text in one.measurements[0].raw.items()}
    runs = dict.fromkeys(flow.run for flow in one.flows)
    return {
        f"{prefix}{run.a}-{run.b}-{name}": text
        for run, measurement in zip(runs, one.measurements, strict=True)
        for name, text in measurement.raw.items()
    }
