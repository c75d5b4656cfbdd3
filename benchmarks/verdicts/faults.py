"""The fault list of the systems to beat, as far as samples can show it: what each rule makes of the same fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from benchmarks.verdicts.links import QUIET, Session
from benchmarks.verdicts.ours import attempt_of
from benchmarks.verdicts.rivals import LIMIT, RIVALS
from pytest_pinet.judge.course import Course, State
from pytest_pinet.judge.noise import UNKNOWN
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.sequential import Outcome
from pytest_pinet.model.attempt import Attempt
from pytest_pinet.model.events import Event, EventKind
from pytest_pinet.model.quantities import Bitrate

BASELINE_MBPS = 940.0
AT_S, LOST_S = 1.0, 2.0


@dataclass(frozen=True)
class Fault:
    """A fault in the first connection: what it does to the samples, and what our gate is told besides."""

    name: str
    spoil: Callable[[list[float]], list[float]]
    tell: Callable[[Attempt], Attempt]


def _without(rates: list[float], seconds: float) -> list[float]:
    first, end = round(AT_S * 10), round((AT_S + seconds) * 10)
    return [0.0 if first <= index < end else rate for index, rate in enumerate(rates)]


def _dropped(attempt: Attempt) -> Attempt:
    text = f"link dropped for {LOST_S} s, {AT_S} s after the start"
    return replace(attempt, events=(Event(EventKind.LINK_DOWN, AT_S, LOST_S, text),))


FAULTS = (
    Fault("link down for 2 s, seen by the observer", lambda rates: _without(rates, LOST_S), _dropped),
    Fault("link down for 2 s, seen in samples only", lambda rates: _without(rates, LOST_S), lambda attempt: attempt),
    Fault(
        "traffic tool killed after 1 s",
        lambda rates: _without(rates, 1e3),
        lambda attempt: replace(attempt, excluded="iperf3 on dut was killed: no figure"),
    ),
    Fault(
        "endpoint frozen after 1 s",
        lambda rates: _without(rates, 1e3),
        lambda attempt: replace(attempt, excluded="peer stopped answering: no figure"),
    ),
)


class _Spoiled(Session):
    """The first connection has the fault, the others are well."""

    def __init__(self, fault: Fault, source: random.Random) -> None:
        self.fault, self.inner, self.numbers = fault, QUIET.session(0, source), count()

    def connection(self, seconds: int) -> list[float]:
        rates = self.inner.connection(seconds)
        return self.fault.spoil(rates) if next(self.numbers) == 0 else rates


@dataclass(frozen=True)
class Shown:
    """What a rule said of a fault."""

    fault: str
    rule: str
    verdict: str
    seconds: float


def shown(seed: int = 1) -> list[Shown]:
    """Every fault, by every rule."""
    found = []
    for fault in FAULTS:
        found.append(_ours(fault, random.Random(seed)))
        for name, rule in RIVALS.items():
            gate = rule(_Spoiled(fault, random.Random(seed)), BASELINE_MBPS)
            found.append(Shown(fault.name, name, str(gate.ending), gate.seconds))
    return found


def _ours(fault: Fault, source: random.Random) -> Shown:
    course = Course(Bitrate.mbps(LIMIT * BASELINE_MBPS), UNKNOWN, PROFILES["standard"])
    session = _Spoiled(fault, source)
    while course.decision.outcome is Outcome.GO_ON:
        attempt = attempt_of(session.connection(course.profile.connection_s))
        course.feed(attempt if course.attempts else fault.tell(attempt))
    verdict = "marginal" if course.state is State.CLEARED else str(course.decision.outcome)
    flagged = f": {'; '.join(course.decision.flagged)}" if course.decision.flagged else ""
    return Shown(fault.name, "pinet", f"{verdict}{flagged}", course.decision.seconds)
