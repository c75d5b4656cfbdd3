"""Run traffic over a link repeatedly, with checks of ends and cables before, between and after the runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from types import TracebackType

from pytest_pinet.errors import InvalidMeasurement, LinkError, TrafficError
from pytest_pinet.evidence.collecting import Collector, EndReader
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.level import BROKEN
from pytest_pinet.judge.oracle import PacketSizes
from pytest_pinet.judge.preconditions import management_trouble
from pytest_pinet.judge.starts import cap_for
from pytest_pinet.lab.link.link import Link, await_links, bounce
from pytest_pinet.measure.counters import CounterCheck, ManagementCounter
from pytest_pinet.measure.link_result import boot_traffic
from pytest_pinet.measure.preconditions import LinkDrops, Preconditions
from pytest_pinet.model.connection import Connection, Fresh, MeasuredFlow
from pytest_pinet.model.evidence import Trouble
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import Event, EventKind, Measurement
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.concurrent import LEAD_S, measure_together
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool
from pytest_pinet.traffic.wrapping_tools import in_virtual_time, wrap_scaled

# Arguments, all of the current try: its number; the seconds of traffic so far; the goodput of each direction so far
# (bit/s); the TCP segments that all ends retransmitted (None: not known, or not TCP); and the present rate of all
# directions together (bit/s).
ProgressOfWays = Callable[[int, float, Mapping[str, float | None], int | None, float | None], None]
# The longest time that a run may be observed after the end of its traffic.
GRACE_S = 15.0
# Flows that begin further apart than this are measured once more, with more time to start.
SKEW_MAX_S = 0.05
LONG_LEAD_S = 1.5


@dataclass(frozen=True)
class MeasureContext:
    """A link, the tool that measures it, and what takes part in every measurement over it.

    ``raw`` receives the output of every process by file name, also after an error. ``watch`` is called throughout and
    can end the traffic by raising.
    """

    link: Link
    tool: TrafficTool
    raw: MutableMapping[str, str] = field(default_factory=dict)
    on_progress: ProgressOfWays | None = None
    watch: Callable[[], None] | None = None


class Runs:
    """A context in which traffic runs. Entering it raises InvalidMeasurement for a bus or power supply with a fault.

    ``lasts_s`` is about how long all runs may take. ``link_ups``: the link of the device under test may be taken down
    and up after it dropped. ``max_drops`` limits its drops.
    """

    def __init__(
        self, context: MeasureContext, lasts_s: float, link_ups: bool = False, max_drops: Limit | None = None
    ) -> None:
        self._context = context
        self._link = link = context.link
        self._lasts_s = lasts_s
        self._link_ups = link_ups
        self.connections: list[Connection] = []
        self._drops = LinkDrops(link, self.connections, link_ups, max_drops)
        self._stack = ExitStack()
        # By the number of the end.
        self._observers: dict[int, Observer] = {}
        self.collector = Collector([EndReader(end.shell, end.device, str(end.endpoint)) for end in link.ends])
        self.management = ManagementCounter(link)
        self._counted_from = 0
        self._boot_traffic = boot_traffic(link.dut)
        self._links: list[Link] = []
        self._sent: Traffic | None = None

    def __enter__(self) -> Runs:
        self.conditions = Preconditions(self._link)
        self.cables = CounterCheck(self._link)
        self._boot_traffic.note_link_up(self.cables.carrier_changes[0])
        # If an observer does not start, also because of Ctrl-C, the earlier ones are stopped.
        with ExitStack() as opened:
            for index, end in enumerate(self._link.ends):
                # With a virtual clock, each look costs instructions, 7 % of all of them (measured).
                if end.endpoint.node.clock != VIRTUAL:
                    port = str(end.endpoint.interface.port)
                    observer = Observer(end.shell, end.device, port, self._lasts_s, end.carries_management)
                    self._observers[index] = opened.enter_context(observer)
            self._stack = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        raw = self._context.raw
        raw.update(_printed(self.connections))
        raw.update({f"{index}-observer.txt": one.text for index, one in self._observers.items()})
        raw.update(self.collector.raw())
        raw.update(self.management.raw())
        raw.update(self.cables.raw())

    @property
    def traffic_s(self) -> float:
        """The seconds of all connections so far."""
        return sum(one.lasted_s for one in self.connections)

    def again(self, traffic: Traffic, fresh: Fresh = Fresh.CONNECTION, source_port: int | None = None) -> Connection:
        """Run the traffic once more. With Fresh.LINK, first take the link of the device under test down and up.

        A single flow leaves from ``source_port``.

        So does the connection after one in which that link dropped. A connection in which a link dropped is kept, but
        does not count. Raises LabError (DroppedLink if the link of the device under test drops again or does not come
        back, LinkError if other links drop repeatedly, or links do not come back as before) and UnsupportedError.
        """
        if self._link_ups and self._drops.is_own:
            fresh = Fresh.LINK
        if fresh is Fresh.LINK:
            with doing("take the link down and up"), self._drops.coming_back("it was taken down and up"):
                bounce(self._link)
            self.cables.accept_carriers()
            self._forget_carriers()
        if self._sent not in (None, traffic):
            # Each step of a ladder is a measurement of its own.
            self.read_rest()
        self._sent = traffic
        number = len(self.connections) + 1
        what = f"{traffic.key} {traffic.direction} #{number}"
        with doing(f"measure {what}"):
            one = self._once(traffic, fresh, number, LEAD_S, source_port)
        if one.skew_s is not None and one.skew_s > SKEW_MAX_S and not one.excluded:
            late = one
            with doing(f"measure {what} again, because flows began {one.skew_s * 1000:.0f} ms apart"):
                again = self._once(traffic, Fresh.CONNECTION, number, LONG_LEAD_S)
            one = replace(again, fresh=fresh, discarded=late)
        self.connections.append(one)
        # Keep a copy: a tuning inside of a test changes the link.
        self._links.append(replace(self._link))
        if one.excluded:
            self._after_a_drop()
        return one

    def set_aside(self, why: str) -> None:
        """Do not count the latest connection, for a reason beside the link. The next one is looked at, too."""
        self.collector.renew()
        self.connections[-1] = replace(self.connections[-1], excluded=why, beside_link=True)

    def keep(self, connections: Sequence[Connection]) -> None:
        """Replace the connections, in the same list, by copies of which fewer count."""
        self.connections[:] = connections

    def _once(
        self, traffic: Traffic, fresh: Fresh, number: int, lead_s: float, source_port: int | None = None
    ) -> Connection:
        """Run the traffic once on its own connections. With several flows, clients start ``lead_s`` before them."""
        link, watch, collector = self._link, self._context.watch, self.collector
        if not link.virtual_ends:
            # A look during the traffic costs instructions of a virtual end, and falls into a different moment of its
            # time in each run.
            watch = self.management.watching(collector.watching(watch, traffic.seconds), traffic.seconds)
        collector.before(number)
        place, age_s, before_s = self._boot_traffic.begin(fresh is not Fresh.CONNECTION)
        clock = time.monotonic()
        for observer in self._observers.values():
            observer.ensure(traffic.seconds + GRACE_S)
        self.management.before()
        tool = in_virtual_time(wrap_scaled(self._context.tool, link.scale), link.virtual_ends)
        jobs = _jobs(link, traffic, self.management.at_end, source_port)
        try:
            measurements = measure_together(tool, jobs, self._progress(traffic, number), watch, lead_s)
        except (LinkError, TrafficError) as error:
            events, dropped = self._seen(clock)
            self._drops.blame(error, Connection((), fresh, tuple(events), dropped=dropped))
            raise
        events, dropped = self._seen(clock)
        lasted_s = time.monotonic() - clock
        traffic_s = _lasted_s(measurements)
        self._boot_traffic.add(traffic_s)
        evidence = collector.after(traffic_s)
        events += [event for measurement in measurements for event in measurement.events]
        broken = next((event.text for event in events if event.kind in BROKEN), "")
        flows = _flows(link, traffic, measurements)
        own = self.management.after(flows, _at_end(jobs, measurements))
        evidence = tuple(replace(one, management=own.get(index)) for index, one in enumerate(evidence))
        return Connection(
            flows,
            fresh,
            tuple(events),
            excluded=broken,
            evidence=evidence,
            measurements=tuple(measurements),
            dropped=dropped,
            lasted_s=lasted_s,
            number=place,
            boot_age_s=age_s,
            traffic_before_s=before_s,
        )

    def _seen(self, clock: float) -> tuple[list[Event], tuple[int, ...]]:
        """Return the events at all ends since this time, and the end of each drop of a link."""
        seen = [(index, event) for index, one in self._observers.items() for event in one.events(clock)]
        drops = [(index,) * event.times for index, event in seen if event.kind is EventKind.LINK_DOWN]
        return [event for _, event in seen], tuple(chain.from_iterable(drops))

    def _progress(self, traffic: Traffic, number: int) -> Callable[[float], None] | None:
        """Return a function that reports the goodput at the receivers of the counted flows, as it is judged."""
        on_progress = self._context.on_progress
        if on_progress is None:
            return None
        # The share of payload in what each receiver counts.
        receivers: dict[str, dict[int, float]] = {}
        for run in self._link.combination.topology.runs(traffic.direction):
            path = self._link.facts.path_between(run.a, run.b)
            share = PacketSizes.of(path, traffic).counted_share / self._link.scale
            for way in run.direction.parts if run.counted else ():
                receivers.setdefault(str(way), {})[run.b if way is Direction.TX else run.a] = share
        goodput: dict[str, float | None] = dict.fromkeys(receivers)
        now: dict[str, float | None] = dict.fromkeys(receivers)
        cap_s = cap_for(self._link.path.speed_mbps) if traffic.warmup_s is None else traffic.warmup_s
        started_s, total_s = time.monotonic(), traffic.seconds_with(cap_s)
        before: dict[int, int] = {}

        def retransmits() -> int | None:
            counts = {
                index: count for index, one in self._observers.items() if (count := one.retransmits()) is not None
            }
            for index, count in counts.items():
                before.setdefault(index, count)
            return sum(count - before[index] for index, count in counts.items()) if counts else None

        if not traffic.udp:
            retransmits()

        def report(elapsed_s: float) -> None:
            # The traffic then ends at any moment, and what follows is no part of it.
            for way, shares in receivers.items() if elapsed_s < total_s else ():
                ends = [(self._observers[index], share) for index, share in shares.items() if index in self._observers]
                means = [m * share for one, share in ends if (m := one.mean_rate(started_s, cap_s)) is not None]
                rates = [rate * share for one, share in ends if (rate := one.rate()) is not None]
                goodput[way], now[way] = sum(means) if means else None, sum(rates) if rates else None
            latest = [rate for rate in now.values() if rate is not None]
            sent_again = None if traffic.udp else retransmits()
            on_progress(number, elapsed_s, goodput, sent_again, sum(latest) if latest else None)

        return report

    def _after_a_drop(self) -> None:
        self._drops.check()
        # The evidence of a dropped connection explains no value, so the next connection gets its own evidence.
        self.read_rest()
        with self._drops.coming_back("it dropped") if self._drops.is_own else nullcontext():
            self.restart_counting()

    def restart_counting(self, same: bool = True) -> None:
        """Restart the counting after a dropped link or a change of the nodes.

        With ``same`` False, links may have changed.

        Raises LinkError or InvalidMeasurement if links do not come back as they must.
        """
        await_links(self._link, same)
        self.cables.rebase()
        self._forget_carriers()
        self._counted_from = len(self.connections)

    def _forget_carriers(self) -> None:
        """Make observers ignore earlier carrier changes: they are already reported, or were made on purpose."""
        self._boot_traffic.note_link_up(self.cables.carrier_changes[0])
        for index, observer in self._observers.items():
            observer.accept(self.cables.carrier_changes[index])

    def finish(self, traffic: Traffic) -> list[Trouble]:
        """Check ends and cables again. Return each new fault of an end: its power, its bus, its ssh.

        Raises InvalidMeasurement or TrafficError if the values do not measure the requested traffic.
        """
        with doing("check ends and cables again"):
            self.read_rest()
            broke = self.conditions.check_after(self.connections, traffic, self._links)
            counted = self.connections[self._counted_from :]
            ran = [both for one in counted for both in (one, one.discarded) if both is not None]
            own = management_trouble(self.connections)
            try:
                self.cables.check([flow for one in ran for flow in one.flows], traffic)
            except InvalidMeasurement:
                # The octets of ssh explain counters that do not agree with the traffic.
                if not own:
                    raise
            return [*broke, *own]

    def read_rest(self) -> None:
        """Store the counters of connections without evidence of their own in the evidence of the last connection."""
        if self.connections and (found := self.collector.rest(_lasted_s(self.connections[-1].measurements))):
            own = [one.management for one in self.connections[-1].evidence]
            merged = tuple(replace(one, management=counted) for one, counted in zip(found, own, strict=True))
            self.connections[-1] = replace(self.connections[-1], evidence=merged)


def _jobs(link: Link, traffic: Traffic, at_end: Mapping[str, str], source_port: int | None) -> list[TrafficJob]:
    jobs = []
    for run in link.combination.topology.runs(traffic.direction):
        a, b = link.ends[run.a], link.ends[run.b]
        cap_s = cap_for(link.facts.path_between(run.a, run.b).speed_mbps)
        sent = traffic.towards(run.direction)
        jobs.append(TrafficJob(a.shell, b.shell, a.ip, b.ip, sent, cap_s, at_end=at_end, source_port=source_port))
    return jobs


def _at_end(jobs: Sequence[TrafficJob], measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return what the ends printed at the end of the traffic, by the name of the shell; the first of several flows."""
    found: dict[str, str] = {}
    for job, measurement in zip(jobs, measurements, strict=True):
        for end, shell in (("dut", job.dut), ("peer", job.peer)):
            if end in measurement.at_end:
                found.setdefault(shell.name, measurement.at_end[end])
    return found


def _flows(link: Link, traffic: Traffic, measurements: Sequence[Measurement]) -> tuple[MeasuredFlow, ...]:
    runs = link.combination.topology.runs(traffic.direction)
    return tuple(
        MeasuredFlow(*((run.a, run.b) if way is Direction.TX else (run.b, run.a)), run, way, flow)
        for run, measurement in zip(runs, measurements, strict=True)
        for way, flow in measurement.flows.items()
    )


def _lasted_s(measurements: Sequence[Measurement]) -> float:
    """Return the seconds of traffic, including the warm-up."""
    flows = [flow for measurement in measurements for flow in measurement.flows.values()]
    return max((sum(sample.seconds for sample in flow.samples) for flow in flows), default=0.0)


def _printed(connections: Sequence[Connection]) -> dict[str, str]:
    """Return the output of every process by file name; names of repeats begin with the number of the connection."""
    found = {}
    for number, one in enumerate(connections, 1):
        found.update(_printed_by(one, "" if number == 1 else f"{number}-"))
        if one.discarded is not None:
            found.update(_printed_by(one.discarded, f"{number}-not-counted-"))
    return found


def _printed_by(one: Connection, prefix: str) -> dict[str, str]:
    if len(one.measurements) == 1:
        return {f"{prefix}{name}": text for name, text in one.measurements[0].raw.items()}
    runs = dict.fromkeys(flow.run for flow in one.flows)
    return {
        f"{prefix}{run.a}-{run.b}-{name}": text
        for run, measurement in zip(runs, one.measurements, strict=True)
        for name, text in measurement.raw.items()
    }
