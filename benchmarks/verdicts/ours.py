"""Our rules on the same samples, through the gate's own code: `rule_on` after each connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.verdicts.links import Session
from benchmarks.verdicts.recorded import STEP_S
from benchmarks.verdicts.rivals import LIMIT, Ending, Gate
from pytest_pinet.judge.components import components
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.events import find_events
from pytest_pinet.judge.gate import Ruling, rule_on
from pytest_pinet.judge.interleaved import Side, compare_attempts, side
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.oracle import Oracle
from pytest_pinet.judge.profile import PROFILES, Profile
from pytest_pinet.judge.sequential import decide
from pytest_pinet.judge.warmup import settle
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

ENDINGS = {
    Verdict.PASS: Ending.PASS,
    Verdict.MARGINAL: Ending.FLAGGED,
    Verdict.FAIL: Ending.FAIL,
    Verdict.INCONCLUSIVE: Ending.INCONCLUSIVE,
}
# No link is that fast: the physical limit is not under test here.
ORACLE = Oracle(Bitrate(1e12), "no limit of the benchmark's links")


def attempt_of(rates: Sequence[float], fresh: Fresh = Fresh.CONNECTION) -> Attempt:
    """Return an attempt with these rates (Mbit/s per 0.1 s). Warm-up and events are found as in the gate."""
    samples = [Sample(i * STEP_S, STEP_S, round(rate * 1e6 / 8 * STEP_S)) for i, rate in enumerate(rates)]
    return Attempt(settle(samples), fresh, find_events(samples))


@dataclass(frozen=True)
class History:
    """The stored history of an unchanged link: eight sessions of four connections each."""

    baseline_mbps: float
    noise: Noise


SESSIONS, EACH = 8, 4


def history(draw: Callable[[], Session]) -> History:
    """Return the history of the unchanged link, measured as ``pinet calibrate`` does, each session on a fresh boot.

    The differences between sessions are not drawn again for the link-ups of one gate.
    """
    attempts = []
    for _ in range(SESSIONS):
        session = draw()
        for index in range(EACH):
            attempts.append(attempt_of(session.connection(3), Fresh.CONNECTION if index else Fresh.BOOT))
    return History(pooled(attempts).bps / 1e6, components(attempts).noise(baseline_runs=SESSIONS))


def pooled(attempts: Sequence[Attempt]) -> Bitrate:
    """Return received bytes over seconds of all attempts that count, as the gate sums them."""
    counted = [attempt for attempt in attempts if not attempt.excluded]
    seconds = sum(attempt.seconds for attempt in counted)
    return Bitrate(sum(attempt.goodput.bps * attempt.seconds for attempt in counted) / seconds if counted else 0.0)


def ruled(attempts: Sequence[Attempt], baseline_mbps: float, noise: Noise, profile: Profile) -> Ruling:
    """Return the gate's ruling on these attempts with a limit 3 % below the baseline. Link-ups are allowed."""
    goodput = pooled(attempts)
    limit = Limit(Bitrate.mbps(LIMIT * baseline_mbps), Origin.LAB_FILE, "the benchmark")
    return rule_on(attempts, goodput, goodput, ORACLE, limit, noise, profile, fresh_link=True)


def gate(session: Session, stored: History, profile: str, calibrated: bool) -> Gate:
    """Run one of our gates to its end."""
    noise = stored.noise if calibrated else UNKNOWN
    own = PROFILES[profile]
    attempts: list[Attempt] = []
    wanted: Fresh | None = Fresh.CONNECTION
    while wanted is not None:
        attempts.append(attempt_of(session.connection(own.connection_s), wanted))
        ruling = ruled(attempts, stored.baseline_mbps, noise, own)
        wanted = ruling.wanted
    return Gate(ENDINGS[ruling.judgement.verdict], sum(attempt.traffic_seconds for attempt in attempts))


def flagged_within(session: Session, stored: History, profile: str, seconds: float) -> bool:
    """Return whether a gate of this profile has flagged the traffic after ``seconds`` of it."""
    own = PROFILES[profile]
    count = int(seconds / own.connection_s)
    attempts = [attempt_of(session.connection(own.connection_s)) for _ in range(count)]
    return bool(decide(attempts, Bitrate.mbps(LIMIT * stored.baseline_mbps), UNKNOWN, own).flagged)


def in_turn(session: Session, slower: float, noise: Noise = UNKNOWN, seconds: int = 3) -> tuple[Relation, float]:
    """Compare two states of one session with the interleaved engine. Return the result and the seconds of traffic.

    State B is slower by ``slower`` percent.
    """
    attempts: list[Attempt] = []
    while True:
        factor = 1 - slower / 100 if side(len(attempts)) is Side.B else 1.0
        attempts.append(attempt_of([rate * factor for rate in session.connection(seconds)]))
        found = compare_attempts(attempts, 1 - LIMIT, noise)
        if found.result is not Relation.GO_ON:
            return found.result, float(seconds * len(attempts))


def without_sessions(noise: Noise) -> Noise:
    """Return the noise for the interleaved engine, in which everything that both states share cancels."""
    return replace(noise, sessions=0.0, links=0.0)
