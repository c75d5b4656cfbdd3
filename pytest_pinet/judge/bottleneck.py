"""Find what limited a result: gather the facts about possible bottlenecks, and take the first rule that matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from pytest_pinet.judge import causes_in_flow as flow
from pytest_pinet.judge import causes_in_link as link
from pytest_pinet.judge.circumstances import is_robbed
from pytest_pinet.judge.extras import extras_of
from pytest_pinet.judge.oracle import TOLERANCE, Oracle, PacketSizes, pcie_leaves, physical_limit
from pytest_pinet.judge.statistics import robust_sd
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import (
    Cause,
    Conditions,
    Diagnosis,
    DiagnosisFacts,
    EndEvidence,
    EndFacts,
    PcieLink,
    ProcessorLoad,
)
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.measurement import Flow, Path, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY

# The spread of a rate is computed over pieces of this length: shorter ones vary with the size of single reads.
SPREAD_S = 0.5
SPREAD_LEAST = 4
# The assumed slot if the PCIe link cannot be read: one lane of its generation.
_SLOTS = {Bus.PCIE2X1: PcieLink(5.0, 1), Bus.PCIE3X1: PcieLink(8.0, 1)}


def limited_by(
    link: LinkFacts,
    traffic: Traffic,
    connections: Sequence[Connection],
    directions: Mapping[Direction, DirectionJudgement],
    conditions: Sequence[Conditions] = (),
    ceilings: Mapping[str, Bitrate] | None = None,
) -> Diagnosis:
    """Return what limited a result: the direction with the worse verdict, or else the one further below the wire.

    ``conditions`` are by the numbers of the ends, ``ceilings`` by the names of the ends that were measured.
    """
    gathering = _Gathering(link, traffic, connections, directions, conditions, ceilings or {})
    found = [(SEVERITY.index(one.verdict), gathering.facts(way)) for way, one in directions.items()]
    return diagnose(min(found, key=lambda pair: (pair[0], pair[1].share))[1])


def full_all_the_time(
    link: LinkFacts,
    traffic: Traffic,
    connections: Sequence[Connection],
    directions: Mapping[Direction, DirectionJudgement],
    conditions: Sequence[Conditions] = (),
) -> dict[Direction, str]:
    """Return a proof for each direction whose shaper or link was full, at a lower rate, during all that counts.

    No load of the ends explains the value of such a direction. Arguments as for `limited_by`.
    """
    gathering = _Gathering(link, traffic, connections, directions, conditions, {})
    return {way: text for way in directions if (text := gathering.full(way))}


def kernel_notes(connections: Sequence[Connection]) -> list[str]:
    """Return notes about trouble that the kernels of the ends logged during the traffic."""
    ends = [end for one in connections for end in one.evidence]
    return list(dict.fromkeys(f"the kernel of {end.end} logged: {line}" for end in ends for line in end.kernel or ()))


@dataclass(frozen=True)
class _Gathering:
    link: LinkFacts
    traffic: Traffic
    every: Sequence[Connection]
    directions: Mapping[Direction, DirectionJudgement]
    conditions: Sequence[Conditions]
    ceilings: Mapping[str, Bitrate]

    @property
    def connections(self) -> Sequence[Connection]:
        return [one for one in self.every if not one.excluded] or self.every

    def facts(self, way: Direction) -> DiagnosisFacts:
        flows, judged, all_ways = self.connections[0].flows, self.directions[way], self.directions
        chosen = [i for i, flow in enumerate(flows) if flow.run.counted and flow.way is way]
        first = flows[chosen[0]]
        path = self.link.path_between(first.sender, first.receiver)
        # The limit of the wire alone, since buses and windows are separate causes; of several flows, that of their sum.
        wire = physical_limit(path.speed_mbps, PacketSizes.of(path, self.traffic), Bus.SOC, self.traffic.direction)
        wire = wire if len(flows) == len(all_ways) else Oracle(judged.oracle, judged.because)
        bitrate = self.traffic.bitrate_of(way)
        extras = [extras_of(self.link, self.traffic, one, chosen) for one in self.connections]
        known = [found for one in self.connections for i in chosen if (found := one.flows[i].flow.sockets) is not None]
        senders = {flows[i].sender for i in chosen}
        involved = {end for i in chosen for end in self.link.crossed(flows[i].sender, flows[i].receiver)}
        window = self.traffic.window
        return DiagnosisFacts(
            direction=str(way),
            goodput=judged.goodput,
            wire=wire.goodput,
            because=wire.because,
            both=Bitrate(sum(one.goodput.bps for one in all_ways.values())) if len(all_ways) > 1 else None,
            offered=None if bitrate is None else Bitrate(bitrate.bps * self.traffic.streams * len(chosen)),
            sender=" and ".join(str(self.link.ends[i]) for i in sorted(senders)),
            ends=tuple(self._end(i, path) for i in sorted(involved)),
            streams=self.traffic.streams * len(chosen),
            mss=min((one.mss for one in known), default=None),
            rtt_s=_mean([one[Metric.LATENCY] for one in extras]) or _mean([one.rtt_s for one in known]),
            rtt_min_s=min((one.rtt_min_s for one in known if one.rtt_min_s is not None), default=None),
            window=None if window is None or self.traffic.udp else window * self.traffic.streams * len(chosen),
            # Only of the connections that were seen: the read during the traffic may come too late.
            receiver_limited=_mean([one.receiver_limited for one in known if one.receiver_limited is not None]),
            sender_limited=_mean([one.sender_limited for one in known if one.sender_limited is not None]),
            retransmit_rate=_mean([one[Metric.RETRANSMITS] for one in extras]),
            loss_rate=_mean([one[Metric.LOSS] for one in extras]),
            spread=_spread([[one.flows[i].flow.counted for i in chosen] for one in self.connections]),
        )

    def full(self, way: Direction) -> str:
        """Return the proof that a queue before a limiter was never empty; empty without a proof."""
        flows = [one.flow for tried in self.connections for one in tried.flows if one.run.counted and one.way is way]
        rates = [_rates(one.counted) for one in flows]
        ends = [end for one in self.every for end in one.evidence]
        # With several flows, the rate of one says nothing about the queue. A kernel that leaves packets in its own
        # queues (softnet) lacks the processor, and a quota stops the sender at regular times.
        if (
            len(flows) != len(self.connections)
            or not all(map(_never_waited, flows))
            or any(is_robbed(end) or _left_packets(end) for end in ends)
            or any(len(one) < SPREAD_LEAST for one in rates)
        ):
            return ""
        return flow.full(self.facts(way), rates)

    def _end(self, index: int, path: Path) -> EndFacts:
        end = self.link.ends[index]
        conditions = self.conditions[index] if index < len(self.conditions) else None
        seen = _at(index, self.connections)
        pcie = (conditions.pcie if conditions is not None else None) or _SLOTS.get(end.bus)
        return EndFacts(
            name=str(end),
            under_test=end.node == self.link.ends[0].node,
            machine=next((one.machine for one in seen if one.machine is not None), None),
            negotiated_mbps=end.negotiated_mbps,
            rated_mbps=end.rated_mbps,
            duplex=end.duplex,
            bus=end.bus,
            usb_mbps=None if conditions is None else conditions.usb_mbps,
            pcie=pcie,
            pcie_leaves=None if pcie is None else pcie_leaves(pcie, PacketSizes.of(path, self.traffic)),
            # A measurement on a busy machine may have read the load only of a connection that it set aside.
            load=_typical([one.busiest for one in seen]) or _typical([one.busiest for one in _at(index, self.every)]),
            tool_percent=self._tool_percent(index),
            throttled=tuple(dict.fromkeys(name for one in seen for name in _throttled(one))),
            heat=next((one.under_load for one in reversed(seen) if one.under_load is not None), None),
            ceiling=self.ceilings.get(str(end)),
            others=max(filter(None, (one.others for one in seen)), key=lambda work: work.share, default=None),
            stolen=max((one.stolen for one in seen if one.stolen is not None), default=None),
        )

    def _tool_percent(self, index: int) -> float | None:
        """Return the percent of one core that all processes of the traffic tool used on this end."""
        found = []
        for one in self.connections:
            runs = dict.fromkeys(flow.run for flow in one.flows)
            used = [
                measurement.cpu_percent.get(role)
                for run, measurement in zip(runs, one.measurements, strict=True)
                for role, end in (("dut", run.a), ("peer", run.b))
                if end == index
            ]
            known = [percent for percent in used if percent is not None]
            found.append(sum(known) if known and len(known) == len(used) else None)
        return _mean(found)


def _at(index: int, connections: Sequence[Connection]) -> list[EndEvidence]:
    return [one.evidence[index] for one in connections if index < len(one.evidence)]


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if one value is not known."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _typical(loads: Sequence[ProcessorLoad | None]) -> ProcessorLoad | None:
    """Return the busiest CPU of the connection in the middle; it may be a different CPU in each connection."""
    known = sorted((load for load in loads if load is not None), key=lambda load: load.busy)
    return known[(len(known) - 1) // 2] if known else None


def _throttled(found: EndEvidence) -> tuple[str, ...]:
    """Return the throttling during the traffic. Earlier throttling is reported elsewhere."""
    names: list[str] = []
    for heat in (found.under_load, found.after):
        if heat is not None and heat.throttling is not None:
            names += heat.throttling.now
    before = found.before.throttling if found.before is not None else None
    after = found.after.throttling if found.after is not None else None
    if before is not None and after is not None:
        names += [name for name in after.since_boot if name not in before.since_boot]
    return tuple(dict.fromkeys(names))


def _spread(connections: Sequence[Sequence[Sequence[Sample]]]) -> float | None:
    """Return the relative spread of the rate over pieces of SPREAD_S; None with too few pieces or several flows.

    The estimate is robust: a read of the sockets during the traffic may shift some bytes from one piece to the next.
    """
    if any(len(flows) != 1 for flows in connections):
        return None
    rates = [rate for flows in connections for rate in _rates(flows[0])]
    middle = median(rates) if rates else 0.0
    if len(rates) < SPREAD_LEAST or middle <= 0:
        return None
    return robust_sd(rates, middle) / middle


def _rates(samples: Sequence[Sample]) -> list[float]:
    """Return the rate of each piece of SPREAD_S."""
    rates: list[float] = []
    seconds, received = 0.0, 0
    for sample in samples:
        seconds += sample.seconds
        received += sample.bytes
        if seconds >= SPREAD_S - 0.02:
            rates.append(received * 8 / seconds)
            seconds, received = 0.0, 0
    return rates


def _never_waited(one: Flow) -> bool:
    """Return whether the sender had data under way all the time, and packets waited in a queue on the way."""
    found = one.sockets
    if found is None or found.while_busy is None or found.receiver_limited is None or found.sender_limited is None:
        return False
    return (
        found.while_busy.bps <= flow.NO_PAUSES * one.goodput.bps
        and found.receiver_limited + found.sender_limited <= flow.HARDLY_WAITED
        and flow.is_queued(found.rtt_s, found.rtt_min_s)
    )


def _left_packets(end: EndEvidence) -> bool:
    counts = end.softnet or {}
    return any(sum(counts.get(name, ())) for name in ("dropped", "time_squeeze"))


Rule = Callable[[DiagnosisFacts], Diagnosis | None]
# A full wire is the cause, even if something else was busy. Throttling or a slow link explains a busy processor. A bus
# and a processor are hard limits; a default window and losses matter only below them. A queue before a rate that is
# held loses segments and fills windows: both are its effects. Losses alone make a rate vary, and build no queue. A CPU
# that is busy with work beside the traffic makes a rate vary, too, so a rate that is held comes first.
RULES: tuple[Rule, ...] = (
    link.sender_capped,
    link.slow_link,
    link.line_rate,
    link.half_duplex,
    link.power,
    link.usb_bus,
    link.usb_adapter,
    link.pcie_bus,
    flow.queue,
    flow.shaper_beside_work,
    flow.requested_window,
    link.receive_path,
    link.other_work,
    flow.explaining_loss,
    link.processor,
    flow.waited_for_window,
    link.ceiling,
    flow.shaper,
    flow.loss,
)


def diagnose(facts: DiagnosisFacts) -> Diagnosis:
    """Return the cause with its numbers; Cause.NOTHING if no rule matches.

    A value above the physical limit is a measurement error, which no limit of the link explains.
    """
    rules = RULES if facts.goodput.bps <= facts.wire.bps * (1 + TOLERANCE) else ()
    first = next((found for rule in rules if (found := rule(facts)) is not None), None)
    found = first or Diagnosis(Cause.NOTHING, _what_is_known(facts), {"limit_bps": facts.wire.bps})
    return replace(found, numbers={"goodput_bps": facts.goodput.bps, **found.numbers})


def _what_is_known(facts: DiagnosisFacts) -> str:
    known = [f"{facts.goodput} is {facts.share * 100:.1f} % of what the link carries"]
    loads = [end.load for end in facts.ends if end.load is not None]
    if loads:
        known.append(f"the busiest CPU was {max(load.busy for load in loads) * 100:.0f} % busy")
    if facts.retransmit_rate is not None:
        known.append(f"{facts.retransmit_rate * 100:.2g} % of the segments were retransmitted")
    return ", ".join(known)
