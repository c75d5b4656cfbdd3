"""Our rules on the same samples, through the gate's own code: `rule_on` after each connection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum

from benchmarks.verdicts.links import Session
from benchmarks.verdicts.recorded import STEP_S
from pytest_pinet.history.accepting import figure_of
from pytest_pinet.judge.baseline import Baseline, Reference, RunPlace, course_of, without_course
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.gate import GatePlan, Ruling, rule_on
from pytest_pinet.judge.level import read
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES, Profile
from pytest_pinet.judge.sequential import decide
from pytest_pinet.judge.spread import UNKNOWN, Components, Noise, components, least_connections
from pytest_pinet.judge.starts import settle, shows_level, start_of
from pytest_pinet.judge.turns import Side, compare_connections, side
from pytest_pinet.model.connection import Connection, Fresh
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate, Share, Tolerance
from pytest_pinet.model.verdict import Verdict
from tests.support.judge_connections import single

LIMIT = 0.97


class Ending(StrEnum):
    """The end of a gate. FLAGGED is a pass with a flag, IMPROVED a pass above the baseline."""

    PASS = "pass"
    IMPROVED = "improved"
    FLAGGED = "flagged"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Gate:
    """The end of one gate, and its seconds of traffic."""

    ending: Ending
    seconds: float


ENDINGS = {
    Verdict.PASS: Ending.PASS,
    Verdict.IMPROVED: Ending.IMPROVED,
    Verdict.MARGINAL: Ending.FLAGGED,
    Verdict.FAIL: Ending.FAIL,
    Verdict.INCONCLUSIVE: Ending.INCONCLUSIVE,
}
TOLERANCE = Limit(Tolerance(Share(1 - LIMIT)), Origin.LAB_FILE, "the benchmark", metric=Metric.TOLERANCE)
# The longest connection (s) of a run of the baseline.
MOST_S = 20
# No link is that fast: the physical limit is not under test here.
ORACLE = Oracle(Bitrate(1e12), "no limit of the benchmark's links")


class Traffic:
    """The traffic of one run over the link of a session: it knows the place of each connection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._number, self._seconds = 0, 0.0

    def again(self, seconds: int, fresh: Fresh = Fresh.CONNECTION) -> Connection:
        """Return one more connection."""
        if fresh is Fresh.LINK:
            self._session.linked()
            self._number = 0
        self._number += 1
        made = connection_of(self._session.connection(seconds), fresh)
        one = replace(made, number=self._number, traffic_before_s=self._seconds)
        self._seconds += seconds
        return one


def connection_of(rates: Sequence[float], fresh: Fresh = Fresh.CONNECTION) -> Connection:
    """Return a connection with these rates (Mbit/s per 0.1 s). Warm-up and events are found as in the gate."""
    samples = [Sample(i * STEP_S, STEP_S, round(rate * 1e6 / 8 * STEP_S)) for i, rate in enumerate(rates)]
    return single(settle(samples), fresh, find_events(samples))


DAYS, RUNS_OF_A_DAY = 8, 3
SESSIONS, EACH = 8, 4
FIRST_DAY = date(2026, 10, 1)


def baseline(draw: Callable[[], Session], days: int = DAYS, profile: str = "standard") -> Baseline:
    """Return the baseline that `pinet accept` writes after three runs on each of these days; a session is a day.

    The runs of a day are spread evenly over its boots, and have the connections of this profile.

    A run of the first day has the connections of a gate that suspects a regression, since nothing limits it yet. A
    later run has at least as many as any verdict on this link needs: up to ten on a rough one. Connections that lie
    within slow starts are left out, as in `pinet accept`.
    """
    made: list[tuple[RunPlace, Connection]] = []
    for number in range(days):
        session, day = draw(), (FIRST_DAY + timedelta(days=number)).isoformat()
        each = (RUNS_OF_A_DAY if days > 1 else 2 * RUNS_OF_A_DAY) // session.boots
        for boot in range(session.boots):
            session = session.rebooted() if boot else session
            for _ in range(each):
                own = _run(session, number, PROFILES[profile])
                made += [(_place(day, f"{number}.{boot}", one), one) for one in own]
    shown = shows_level([start_of(one) for _, one in made])
    kept = [one for one, shows in zip(made, shown, strict=True) if shows]
    runs, places = tuple(one.goodput for _, one in kept), tuple(place for place, _ in kept)
    whole = Baseline(runs[0], runs, places=places)
    return replace(whole, figure=figure_of(without_course(whole, course_of(whole))))


def _place(day: str, boot: str, one: Connection) -> RunPlace:
    return RunPlace(day, boot, "1", one.number or 1, round(one.traffic_before_s or 0))


def _run(session: Session, day: int, profile: Profile) -> list[Connection]:
    """Return the connections of a run that the baseline has."""
    traffic = Traffic(session)
    connections: list[Connection] = []
    least = profile.passes_after if day else profile.fails_after
    while len(connections) < least:
        last = not day and len(connections) == least - 1
        connections.append(_connection(traffic, profile.connection_s, Fresh.LINK if last else Fresh.CONNECTION))
        if day:
            of_link = least_connections([reading.own for one in connections if (reading := read(one))])
            least = max(profile.passes_after, of_link)
    return connections


def _connection(traffic: Traffic, seconds: int, fresh: Fresh) -> Connection:
    """Return a connection; one that ends before its start does is repeated with twice the length, as in the gate."""
    while True:
        connection = traffic.again(seconds, fresh)
        if start_of(connection).ended or seconds > MOST_S:
            return connection
        seconds *= 2


def calibrated(draw: Callable[[], Session]) -> Noise:
    """Return the noise that ``pinet calibrate`` shows, each session on a fresh boot."""
    connections = []
    for _ in range(SESSIONS):
        session = draw()
        for index in range(EACH):
            connections.append(connection_of(session.connection(3), Fresh.CONNECTION if index else Fresh.BOOT))
    return noise_of(components(connections), SESSIONS)


def noise_of(found: Components, baseline_runs: int | None = None) -> Noise:
    """Return the noise of these components, with the error of a baseline of so many sessions (default: none).

    If neither link-ups nor boots were repeated, the noise between sessions is the value assumed for any link. If only
    one of them was repeated, the other one adds nothing. A gate uses `Calibration.judged_noise`.
    """
    links = found.links.at_most if found.links else 0.0
    boots = found.boots.at_most if found.boots else 0.0
    lasting = boots if found.boots else (0.0 if found.links else UNKNOWN.sessions)
    sessions = math.sqrt((links**2 + lasting**2) * (1 + 1 / baseline_runs if baseline_runs else 1.0))
    known = min((c.freedom for c in (found.links, found.boots) if c), default=None)
    own = found.connections
    return Noise(own.sd, own.freedom, sessions, min(links, sessions), session_freedom=known)


def pooled(connections: Sequence[Connection]) -> Bitrate:
    """Return received bytes over seconds of all connections that count, as the gate sums them."""
    counted = [connection for connection in connections if not connection.excluded]
    showing = shows_level([start_of(one) for one in counted])
    counted = [one for one, shown in zip(counted, showing, strict=True) if shown] or counted
    seconds = sum(connection.seconds for connection in counted)
    return Bitrate(
        sum(connection.goodput.bps * connection.seconds for connection in counted) / seconds if counted else 0.0
    )


def ruled(connections: Sequence[Connection], own: Baseline, profile: Profile, noise: Noise = UNKNOWN) -> Ruling:
    """Return the gate's ruling on these connections with a tolerance of 3 %. Link-ups are allowed."""
    goodput = pooled(connections)
    return rule_on(connections, goodput, goodput, ORACLE, TOLERANCE, GatePlan([], profile), Reference(noise, own))


def gate(session: Session, stored: Baseline, profile: str) -> Gate:
    """Run one of our gates to its end."""
    own, traffic = PROFILES[profile], Traffic(session)
    connections: list[Connection] = []
    wanted: Fresh | None = Fresh.CONNECTION
    seconds = own.connection_s
    while wanted is not None:
        connections.append(traffic.again(seconds, wanted))
        ruling = ruled(connections, stored, own)
        wanted, seconds = ruling.wanted, ruling.wanted_s or own.connection_s
    return Gate(ENDINGS[ruling.judgement.verdict], sum(connection.traffic_seconds for connection in connections))


def flagged_within(session: Session, stored: Baseline, profile: str) -> bool:
    """Return whether a gate of this profile has flagged the traffic within that of its shortest pass."""
    own = PROFILES[profile]
    connections = [connection_of(session.connection(own.connection_s)) for _ in range(own.passes_after)]
    return bool(decide(connections, Bitrate(LIMIT * stored.figure.bps), UNKNOWN, own).flagged)


def in_turn(session: Session, slower: float, noise: Noise = UNKNOWN, seconds: int = 3) -> tuple[Relation, float]:
    """Compare two states of one session with the interleaved engine. Return the result and the seconds of traffic.

    State B is slower by ``slower`` percent.
    """
    connections: list[Connection] = []
    while True:
        factor = 1 - slower / 100 if side(len(connections)) is Side.B else 1.0
        connections.append(connection_of([rate * factor for rate in session.connection(seconds)]))
        found = compare_connections(connections, 1 - LIMIT, noise)
        if found.result is not Relation.GO_ON:
            return found.result, float(seconds * len(connections))


def without_sessions(noise: Noise) -> Noise:
    """Return the noise for the interleaved engine, in which everything that both states share cancels."""
    return replace(noise, sessions=0.0, links=0.0)
