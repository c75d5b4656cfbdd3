"""Facts besides goodput that change a verdict: settings without effect, failed requests, lost datagrams, busy ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pytest_pinet.model.evidence import Conditions, Trouble
from pytest_pinet.model.judgement import DirectionJudgement, EvennessJudgement, ExtraJudgement
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict

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


def failed(found: DirectionJudgement, why: str) -> DirectionJudgement:
    """Make a judgement fail for another reason than goodput."""
    return replace(found, verdict=Verdict.FAIL, reason=why) if why else found


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
