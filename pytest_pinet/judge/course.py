"""One figure's way from the first attempt to its verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_pinet.judge.noise import Noise
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.sequential import ERROR_RATE, Decision, Outcome, Try, decide_tries
from pytest_pinet.model.attempt import Attempt
from pytest_pinet.model.quantities import Bitrate


class State(StrEnum):
    """Where a figure stands, for reports."""

    OPEN = "open"
    PASSED = "passed"
    CLEARED = "cleared"  # suspect at first, or disturbed, and passed in the end: verdict `marginal`
    CONFIRMED = "confirmed"  # a regression, confirmed on fresh connections
    UNDECIDED = "undecided"

    def __str__(self) -> str:
        return self.value


@dataclass
class Course:
    """Feeds attempts to the rule one by one and keeps them all; a confirmed regression stays one.

    ``limit`` is more than 0. ``fresh_link``: see `decide`.
    """

    limit: Bitrate
    noise: Noise
    profile: Profile
    error_rate: float = ERROR_RATE
    fresh_link: bool = False
    attempts: list[Attempt] = field(default_factory=list, init=False)
    decision: Decision = field(init=False)
    _tries: list[Try] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.decision = self._decide()

    def feed(self, attempt: Attempt) -> Decision:
        """Add an attempt and decide anew; each attempt's samples are read once."""
        self.attempts.append(attempt)
        self._tries.append(Try.of(attempt))
        before, now = self.decision, self._decide()
        if before.outcome is Outcome.FAIL:
            now = replace(now, outcome=Outcome.FAIL, why=before.why)
        self.decision = now
        return now

    @property
    def state(self) -> State:
        match self.decision.outcome:
            case Outcome.FAIL:
                return State.CONFIRMED
            case Outcome.INCONCLUSIVE:
                return State.UNDECIDED
            case Outcome.GO_ON:
                return State.OPEN
            case _:
                return State.CLEARED if self._was_suspect() else State.PASSED

    def _was_suspect(self) -> bool:
        first = next((t.reading for t in self._tries if t.reading is not None), None)
        return bool(self.decision.flagged) or (first is not None and first.mean < self.limit.bps)

    def _decide(self) -> Decision:
        return decide_tries(self._tries, self.limit, self.noise, self.profile, self.error_rate, self.fresh_link)
