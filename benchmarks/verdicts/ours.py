"""Our rules over the same samples, through the code that gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.verdicts.links import Session
from benchmarks.verdicts.recorded import STEP_S
from benchmarks.verdicts.rivals import LIMIT, Ending, Gate
from pytest_pinet.judge.components import components
from pytest_pinet.judge.course import Course
from pytest_pinet.judge.interleaved import Result, Side, compare_in_turn, side
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.reading import read
from pytest_pinet.judge.sequential import Outcome
from pytest_pinet.judge.settle import settle
from pytest_pinet.model.attempt import Attempt, Fresh
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate

ENDINGS = {
    Outcome.PASS: Ending.PASS,
    Outcome.FAIL: Ending.FAIL,
    Outcome.INCONCLUSIVE: Ending.INCONCLUSIVE,
}


def attempt_of(rates: list[float], fresh: Fresh = Fresh.CONNECTION) -> Attempt:
    """An attempt with these rates (Mbit/s per 0.1 s), its warm-up found as the gate finds it."""
    samples = [Sample(i * STEP_S, STEP_S, round(rate * 1e6 / 8 * STEP_S)) for i, rate in enumerate(rates)]
    return Attempt(settle(samples), fresh)


@dataclass(frozen=True)
class History:
    """What is stored of an unchanged link: eight sessions of four connections each."""

    baseline_mbps: float
    noise: Noise


SESSIONS, EACH = 8, 4


def history(draw: Callable[[], Session]) -> History:
    """Measure the unchanged link as ``pinet calibrate`` does, each session on a fresh link-up."""
    attempts = []
    for _ in range(SESSIONS):
        session = draw()
        for index in range(EACH):
            attempts.append(attempt_of(session.connection(3), Fresh.CONNECTION if index else Fresh.LINK))
    means = [reading.mean for reading in map(read, attempts) if reading is not None]
    return History(sum(means) / len(means) / 1e6, components(attempts).noise(baseline_runs=SESSIONS))


def gate(session: Session, stored: History, profile: str, calibrated: bool) -> Gate:
    """One gate of ours; ``seconds`` of a flagged one is when it was flagged first."""
    noise = stored.noise if calibrated else UNKNOWN
    course = Course(Bitrate.mbps(LIMIT * stored.baseline_mbps), noise, PROFILES[profile])
    while course.decision.outcome is Outcome.GO_ON:
        course.feed(attempt_of(session.connection(course.profile.connection_s)))
    ending = ENDINGS[course.decision.outcome]
    if ending is Ending.PASS and course.decision.flagged:
        ending = Ending.FLAGGED
    return Gate(ending, course.decision.seconds)


def flagged_within(session: Session, stored: History, profile: str, seconds: float) -> bool:
    """Whether a gate of this profile has flagged the traffic after so many seconds of it."""
    course = Course(Bitrate.mbps(LIMIT * stored.baseline_mbps), UNKNOWN, PROFILES[profile])
    while course.decision.outcome is Outcome.GO_ON and course.decision.seconds < seconds - 0.5:
        course.feed(attempt_of(session.connection(course.profile.connection_s)))
    return bool(course.decision.flagged) or course.decision.outcome is Outcome.FAIL


def in_turn(session: Session, slower: float, noise: Noise = UNKNOWN, seconds: int = 3) -> tuple[Result, float]:
    """The interleaved engine on two states of one session, B slower by so many per cent: result, seconds of traffic."""
    figures: list[float] = []
    while True:
        factor = 1 - slower / 100 if side(len(figures)) is Side.B else 1.0
        reading = read(attempt_of([rate * factor for rate in session.connection(seconds)]))
        assert reading is not None
        figures.append(reading.level)
        found = compare_in_turn(figures, 1 - LIMIT, noise)
        if found.result is not Result.GO_ON:
            return found.result, float(seconds * len(figures))


def without_sessions(noise: Noise) -> Noise:
    """Noise as the interleaved engine needs it: what both states share cancels."""
    return replace(noise, sessions=0.0, links=0.0)
