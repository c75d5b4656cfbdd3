"""What beside the link explains a value: other work on the ends, and faults that make it invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import Conditions, EndEvidence, Program, Trouble
from pytest_pinet.model.judgement import DirectionJudgement, EvennessJudgement, ExtraJudgement, MeasurementJudgement
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

# Shares of one CPU over a connection, above which a value below its limit is invalid.
OTHERS = 0.30
STOLEN = 0.05
# Less excuses nothing, but a reader of a result that is not a clean pass must know it: from this part of both on.
NOTICED = 0.3
# Goodput falls by more than the share of stolen time, since TCP also slows down after losses, but not by more than this
# many times the share.
STOLEN_COSTS = 2.0
# So many connections with other work are repeated in one measurement, before the others decide.
MOST_REPEATS = 2


def disturbed(one: Connection) -> str:
    """Return a sentence about other work or stolen time in a connection; empty if there was none."""
    return "; ".join(kind.say(end, who) for kind, who, end, _ in _disturbances([(1, one)]))


def undisturbed(connections: Sequence[Connection]) -> list[Connection] | None:
    """Return the connections, of which only the undisturbed ones count.

    Returns None if every connection that counts was disturbed, or none was.
    """
    found: dict[int, list[str]] = {}
    for kind, who, end, covered in _disturbances(enumerate(connections, 1)):
        for number in covered:
            found.setdefault(number, []).append(kind.say(end, who))
    counted = {number for number, one in enumerate(connections, 1) if not one.excluded}
    left_out = counted & found.keys()
    if not 0 < len(left_out) < len(counted):
        return None
    return [
        replace(one, excluded="; ".join(found[number]), beside_link=True) if number in left_out else one
        for number, one in enumerate(connections, 1)
    ]


def excuses(connections: Sequence[Connection], left_out: bool = False) -> list[Excuse]:
    """Return an excuse for a low value for each machine with other work.

    ``left_out``: also for work beside the connections that were left out, which explains why too few are left.
    """
    numbered = list(enumerate(connections, 1))
    counted = [(number, one) for number, one in numbered if left_out or not one.excluded] or numbered
    # By kind and machine: the readings, and the numbers of the connections that they cover.
    seen: dict[tuple[_Kind, str], tuple[list[EndEvidence], set[int]]] = {}
    for kind, who, end, covered in _disturbances(counted):
        ends, numbers = seen.setdefault((kind, who), ([], set()))
        ends.append(end)
        numbers.update(covered)
    found = []
    for (kind, who), (ends, numbers) in sorted(seen.items(), key=lambda one: KINDS.index(one[0][0])):
        worst = max(ends, key=lambda end: sum(each.share(end) for each in KINDS))
        often = f"{sum(number in numbers for number, _ in counted)} of {len(counted)} connections"
        found.append(Excuse(f"{kind.say(worst, who)} in {often}", kind.advice, kind.cost(kind.share(worst))))
    return found


def other_work_notes(
    connections: Sequence[Connection], named: Sequence[Excuse], judged: MeasurementJudgement
) -> list[str]:
    """Return sentences on the other work during a measurement, and what to do against it.

    ``named`` are the excuses that the judge got. If the reason of the verdict names one, the work is not named again.
    """
    found = excuses(connections, left_out=True)
    if not found and judged.verdict not in (Verdict.PASS, Verdict.IMPROVED):
        found = [Excuse(text) for text in noticed(connections)]
    texts = [] if any(one.text in judged.reason for one in named) else [one.text for one in found]
    acts = dict.fromkeys(one.act for one in found if one.act)
    return [*texts, *(acts if judged.verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE) else ())]


def noticed(connections: Sequence[Connection]) -> list[str]:
    """Return a sentence for each machine with other work that was too little to excuse a low value."""
    found: dict[tuple[str, _Kind], tuple[float, str]] = {}
    for who, end in (machine for one in connections for machine in _machines(one)):
        for kind in KINDS:
            if NOTICED * kind.most < (share := kind.share(end)) <= kind.most:
                found[who, kind] = max((share, kind.say(end, who)), found.get((who, kind), (0.0, "")))
    return [text for _, text in found.values()]


def _busy(end: EndEvidence, who: str) -> str:
    assert end.others is not None
    by_name = grouped((one.name, one) for one in end.others.programs)
    named = ", ".join(_named(name, all_of_it) for name, all_of_it in by_name.items())
    return f"other programs took {_percent(end.others.share)} of a CPU {who} ({named})"


def _named(name: str, processes: Sequence[Program]) -> str:
    pids = ", ".join(str(one.pid) for one in processes)
    return f"{name} (pid{'s' * (len(processes) > 1)} {pids}) {_percent(sum(one.share for one in processes))}"


def _stolen(end: EndEvidence, who: str) -> str:
    return f"a hypervisor or a quota took {_percent(end.stolen)} of a CPU {who}"


@dataclass(frozen=True)
class _Kind:
    """A kind of other work; above the share ``most`` of one CPU, a low value says nothing.

    ``cost`` returns the largest share of the goodput that work of this share can have taken.
    """

    share: Callable[[EndEvidence], float]
    most: float
    say: Callable[[EndEvidence, str], str]
    advice: str
    cost: Callable[[float], float]


KINDS: tuple[_Kind, ...] = (
    _Kind(
        lambda end: 0.0 if end.others is None else end.others.share,
        OTHERS,
        _busy,
        "end this program, or keep it off the ends while tests run",
        lambda _: 1.0,
    ),
    _Kind(
        lambda end: end.stolen or 0.0,
        STOLEN,
        _stolen,
        "give the machine processors of its own, or lift the quota",
        lambda share: min(STOLEN_COSTS * share, 1.0),
    ),
)


def is_robbed(end: EndEvidence) -> bool:
    """Return whether so much processor time was stolen that a low value says nothing."""
    return (end.stolen or 0.0) > STOLEN


def _disturbances(connections: Iterable[tuple[int, Connection]]) -> Iterator[tuple[_Kind, str, EndEvidence, range]]:
    """Yield each kind of other work in numbered connections, words for the machine, and the reading.

    The last value has the numbers of the connections that the reading covers: connections that were not read
    separately have one reading together.
    """
    for number, one in connections:
        for who, end in _machines(one):
            for kind in KINDS:
                if kind.share(end) > kind.most:
                    yield kind, who, end, range(end.first_connection or number, number + 1)


def _machines(one: Connection) -> Iterator[tuple[str, EndEvidence]]:
    """Yield one end of each machine of a connection, with words for the machine."""
    groups: dict[str, list[EndEvidence]] = {}
    for end in one.evidence:
        groups.setdefault(end.machine or end.end, []).append(end)
    for ends in groups.values():
        nodes = list(dict.fromkeys(end.end.partition(":")[0] for end in ends))
        yield f"of the machine that carries {' and '.join(nodes)}" if len(nodes) > 1 else f"of {nodes[0]}", ends[0]


def _percent(share: float | None) -> str:
    return f"{(share or 0.0) * 100:.0f} %"


T = TypeVar("T", DirectionJudgement, EvennessJudgement, ExtraJudgement)
SAYS_NOTHING = "this says nothing about the link"
# Other work delays packets, and queues that are not read drop them. It adds nothing to the processor time of our tool.
_RAISED = (Metric.RETRANSMITS, Metric.LOSS, Metric.LATENCY)


@dataclass(frozen=True)
class Excuse:
    """Work beside the traffic that may explain a low value, and what to do about it.

    ``cost`` is the largest share of the goodput that it can have taken, from 0 to 1.
    """

    text: str
    act: str = ""
    cost: float = 1.0

    def explains(self, goodput: Bitrate, limit: Bitrate) -> bool:
        """Return whether the goodput may reach its limit without this cause."""
        return goodput.bps >= limit.bps * (1 - self.cost)


@dataclass(frozen=True)
class Circumstances:
    """The circumstances of a measurement, mostly as sentences.

    ``conditions`` has the state of each end before the traffic, in the order of the ends. ``ineffective`` are settings
    that a kernel did not apply, ``unanswered`` requests that failed. ``lossy_ladder`` says that every rate of a ladder
    (rising UDP rates) lost too many datagrams.
    ``busy`` are excuses by other work on the ends. ``full`` has the proof for each direction in which other work does
    not explain the value. ``capacities`` is the loopback goodput of each peer, by its name. ``broken`` are faults of an
    end during the traffic.
    """

    conditions: Sequence[Conditions] = ()
    ineffective: Sequence[str] = ()
    unanswered: str = ""
    lossy_ladder: str = ""
    busy: Sequence[Excuse] = ()
    full: Mapping[Direction, str] = field(default_factory=dict)
    capacities: Mapping[str, Bitrate] = field(default_factory=dict)
    broken: Sequence[Trouble] = ()


def invalid(found: DirectionJudgement, sentences: Sequence[str]) -> DirectionJudgement:
    """Make a judgement invalid if there are sentences. Its value is still shown, but does not measure the request."""
    if not sentences:
        return found
    reason = f"{found.goodput} is invalid: {'; '.join(sentences)}"
    return replace(found, verdict=Verdict.INVALID, state="", reason=reason)


def excused_costs(found: Iterable[ExtraJudgement], busy: Sequence[Excuse]) -> tuple[ExtraJudgement, ...]:
    """Make missed limits on retransmits, loss and latency invalid if an end was busy."""
    return tuple(excused_if_busy(one, busy if one.limit.metric in _RAISED else ()) for one in found)


def excused_if_busy(found: T, busy: Sequence[Excuse]) -> T:
    """Make a missed limit that other work can break invalid, not a failure, if an end was busy."""
    if found.verdict is not Verdict.FAIL or not busy:
        return found
    reason = f"{found.reason}, but {'; '.join(one.text for one in busy)}: {SAYS_NOTHING}"
    return replace(found, verdict=Verdict.INVALID, reason=reason)


def excused(
    found: DirectionJudgement, circumstances: Circumstances, capacities: Mapping[str, Bitrate], full: str = ""
) -> DirectionJudgement:
    """Make a value below its limit invalid, not a failure, if an end was busy or peers cannot reach the limit.

    A busy end is also said to be the likely reason of an inconclusive result. A ladder that lost too much at every rate
    is invalid, too, if an end was busy.
    ``capacities`` are the values of this flow's peers; for the sum of several flows, one value for all peers. Other
    failures stay. ``full`` is the proof that no other work explains a value below its limit; empty without one.
    """
    limit = None if found.limit is None else found.limit.rate
    if circumstances.lossy_ladder and found.reason == circumstances.lossy_ladder:
        return replace(excused_if_busy(found, circumstances.busy), state="") if circumstances.busy else found
    if found.verdict is Verdict.INCONCLUSIVE and circumstances.busy:
        return replace(found, reason="; ".join([found.reason, *(one.text for one in circumstances.busy)]))
    if found.verdict is not Verdict.FAIL or limit is None or found.goodput >= limit:
        return found
    loopback = [
        f"{name} reaches only {most} over its own loopback" for name, most in capacities.items() if limit > most
    ]
    busy = [one.text for one in circumstances.busy if one.explains(found.goodput, limit)]
    if busy and full and not loopback:
        return replace(found, reason=f"{found.reason}; other work does not explain it: {full}")
    whys = [*busy, *loopback]
    if not whys:
        return found
    figure = f"{found.goodput} is below the limit {limit}"
    reason = f"{figure}, but {'; '.join(whys)}: {SAYS_NOTHING if busy else 'the peer cannot reach the limit'}"
    return replace(found, verdict=Verdict.INVALID, state="", reason=reason)
