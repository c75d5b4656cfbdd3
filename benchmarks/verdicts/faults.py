"""The verdict of each rule on the same faults, for the faults that samples can show."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from benchmarks.verdicts.links import QUIET, Session
from benchmarks.verdicts.ours import connection_of, ruled
from benchmarks.verdicts.rivals import RIVALS
from pytest_pinet.judge.baseline import Baseline
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.measurement import Event, EventKind
from pytest_pinet.model.quantities import Bitrate

# The test in which the lab detects the fault before any rule does.
IN_THE_LAB = "tests/functional/gate/test_trouble.py"

BASELINE_MBPS = 940.0
BASELINE = Baseline(Bitrate.mbps(BASELINE_MBPS), (Bitrate.mbps(BASELINE_MBPS),) * 5)
AT_S, LOST_S = 1.0, 2.0


@dataclass(frozen=True)
class Fault:
    """A fault in the first connection: how it changes the samples, and what else our gate learns of it.

    ``proven`` names the test of the real gate in which this fault ends in an error before samples are judged.
    """

    name: str
    spoil: Callable[[list[float]], list[float]]
    tell: Callable[[Connection], Connection] = lambda connection: connection
    proven: str = ""


def _without(rates: list[float], seconds: float) -> list[float]:
    first, end = round(AT_S * 10), round((AT_S + seconds) * 10)
    return [0.0 if first <= index < end else rate for index, rate in enumerate(rates)]


def _dropped(connection: Connection) -> Connection:
    text = f"link dropped for {LOST_S} s, {AT_S} s after the start"
    # As in the gate: a connection whose link dropped gives no result.
    return replace(connection, link_events=(Event(EventKind.LINK_DOWN, AT_S, LOST_S, text),), excluded=text)


FAULTS = (
    Fault("link down for 2 s, seen by the observer", lambda rates: _without(rates, LOST_S), _dropped),
    Fault("link down for 2 s, seen in samples only", lambda rates: _without(rates, LOST_S)),
    Fault("traffic tool killed after 1 s", lambda rates: _without(rates, 1e3), proven=IN_THE_LAB),
    Fault("endpoint frozen after 1 s", lambda rates: _without(rates, 1e3), proven=IN_THE_LAB),
)


class _Spoiled(Session):
    """The first connection has the fault, the others do not."""

    def __init__(self, fault: Fault, source: random.Random) -> None:
        self.fault, self.inner, self.numbers = fault, QUIET.session(0, source), count()

    def connection(self, seconds: int) -> list[float]:
        rates = self.inner.connection(seconds)
        return self.fault.spoil(rates) if next(self.numbers) == 0 else rates


@dataclass(frozen=True)
class Shown:
    """The verdict of a rule on a fault, and its seconds of traffic (None: only the lab's tests measure them)."""

    fault: str
    rule: str
    verdict: str
    seconds: float | None


def shown(seed: int = 1) -> list[Shown]:
    """Return the verdict of every rule on every fault."""
    found = []
    for fault in FAULTS:
        found.append(_ours(fault, random.Random(seed)))
        for name, rule in RIVALS.items():
            gate = rule(_Spoiled(fault, random.Random(seed)), BASELINE_MBPS)
            found.append(Shown(fault.name, name, str(gate.ending), gate.seconds))
    return found


def _ours(fault: Fault, source: random.Random) -> Shown:
    if fault.proven:
        return Shown(fault.name, "pinet", f"error, no value (`{fault.proven}`)", None)
    session = _Spoiled(fault, source)
    profile = PROFILES["standard"]
    connections: list[Connection] = []
    wanted: Fresh | None = Fresh.CONNECTION
    while wanted is not None:
        connection = connection_of(session.connection(profile.connection_s), wanted)
        connections.append(connection if connections else fault.tell(connection))
        ruling = ruled(connections, BASELINE, profile)
        wanted = ruling.wanted
    seconds = sum(connection.traffic_seconds for connection in connections)
    return Shown(fault.name, "pinet", f"{ruling.judgement.verdict}: {ruling.judgement.reason}", seconds)
