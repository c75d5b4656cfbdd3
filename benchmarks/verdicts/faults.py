"""The fault list of the systems to beat, as far as samples can show it: what each rule makes of the same fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from benchmarks.verdicts.links import QUIET, Session
from benchmarks.verdicts.ours import attempt_of, ruled
from benchmarks.verdicts.rivals import RIVALS
from pytest_pinet.judge.noise import UNKNOWN
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.events import Event, EventKind

# Where the lab room meets the fault before any rule does, and the test that shows it.
IN_THE_LAB = "tests/functional/test_gate_trouble.py"

BASELINE_MBPS = 940.0
AT_S, LOST_S = 1.0, 2.0


@dataclass(frozen=True)
class Fault:
    """A fault in the first connection: what it does to the samples, and what our gate is told besides.

    ``proven``: the test of the shipped gate in which it ends in an error before samples are judged.
    """

    name: str
    spoil: Callable[[list[float]], list[float]]
    tell: Callable[[Attempt], Attempt] = lambda attempt: attempt
    proven: str = ""


def _without(rates: list[float], seconds: float) -> list[float]:
    first, end = round(AT_S * 10), round((AT_S + seconds) * 10)
    return [0.0 if first <= index < end else rate for index, rate in enumerate(rates)]


def _dropped(attempt: Attempt) -> Attempt:
    text = f"link dropped for {LOST_S} s, {AT_S} s after the start"
    # As the gate has it: a link that dropped gives no figure.
    return replace(attempt, events=(Event(EventKind.LINK_DOWN, AT_S, LOST_S, text),), excluded=text)


FAULTS = (
    Fault("link down for 2 s, seen by the observer", lambda rates: _without(rates, LOST_S), _dropped),
    Fault("link down for 2 s, seen in samples only", lambda rates: _without(rates, LOST_S)),
    Fault("traffic tool killed after 1 s", lambda rates: _without(rates, 1e3), proven=IN_THE_LAB),
    Fault("endpoint frozen after 1 s", lambda rates: _without(rates, 1e3), proven=IN_THE_LAB),
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
    """What a rule said of a fault, after how many seconds of traffic (None: that is for the lab's tests to say)."""

    fault: str
    rule: str
    verdict: str
    seconds: float | None


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
    if fault.proven:
        return Shown(fault.name, "pinet", f"error, no figure (`{fault.proven}`)", None)
    session = _Spoiled(fault, source)
    profile = PROFILES["standard"]
    attempts: list[Attempt] = []
    wanted: Fresh | None = Fresh.CONNECTION
    while wanted is not None:
        attempt = attempt_of(session.connection(profile.connection_s), wanted)
        attempts.append(attempt if attempts else fault.tell(attempt))
        ruling = ruled(attempts, BASELINE_MBPS, UNKNOWN, profile)
        wanted = ruling.wanted
    seconds = sum(attempt.traffic_seconds for attempt in attempts)
    return Shown(fault.name, "pinet", f"{ruling.judgement.verdict}: {ruling.judgement.reason}", seconds)
